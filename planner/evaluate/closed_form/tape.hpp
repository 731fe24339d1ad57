#pragma once
// Internal: memory and time of a pass, summed over the leaves of its outline. Memory: beside a
// piece's own tensors stand the copies that it reads, those of the next use (requested ahead),
// whole gradients that are open, and what is still being reduced. Time: in-order streams for
// computation, gathers and reductions, as the lowering issues them; a use waits for copies that
// were requested ahead, and one that completes a unit until the unit before it is reduced. Pure.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "planner/evaluate/closed_form/outline.hpp"
#include "planner/evaluate/closed_form/pieces.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

// Figures by machine: an array, since a search asks for the one machine and at most three others.
inline constexpr std::size_t kMachines = 4;
using ByMachine = std::array<std::int64_t, kMachines>;

// A unit's copies and transfers, a layer's with its experts'. Bytes of its gathered (or cast)
// weights, whole gradient, staging; picoseconds by machine.
struct UnitForm {
  std::int64_t elements = 0;           // without experts that lie apart
  bool trains = false;
  std::int64_t weights = 0, gradient = 0, staging = 0;
  std::int64_t bucket = 0;             // the greatest staging of a bucket that it completes
  ByMachine cast{}, gather{}, open{}, partial{}, reduce{}, replica{};
  ByMachine share{};                   // of the time of all buckets
};
using UnitForms = std::array<UnitForm, kUnits>;

// Of one stage: its units, their figures summed by set, and how passes treat them.
struct StageUnits {
  using BySet = std::array<std::int64_t, kUnitSets>;
  UnitForms units{};
  std::size_t count = stage::kUnitKinds;       // of units: each kind of layer has one
  Manner manner;
  // By sets of these units; the others are never asked for. buckets: the greatest.
  BySet weights, gradients, buckets;
  std::array<BySet, kMachines> cast, gather, open;

  std::size_t kinds() const { return count - stage::kUnitKinds + 1; }
  UnitForm& of(UnitKind unit, std::size_t kind = 0) { return units[unit_of(unit, kind)]; }
  const UnitForm& of(UnitKind unit, std::size_t kind = 0) const {
    return units[unit_of(unit, kind)];
  }
  UnitSet trained() const;
  // When all units and the manner are known.
  void sum(std::size_t machines);
};

// One machine's figures of a micro-batch.
struct Clock {
  const std::array<std::int64_t, kSlots>& kernels;
  std::size_t machine = 0;
  double held = 0;                     // of a transfer's time beside computing (cost::held_share)
  bool replicas = false;               // whether gradients are added up over these too
  std::int64_t holds(std::int64_t transfers) const {
    return held == 0 ? 0 : static_cast<std::int64_t>(held * static_cast<double>(transfers));
  }
};

// A last backward pass, in which buckets are reduced as units complete, each a share of them: what
// it takes, and when they are reduced, if those of the passes before it are `busy` later.
struct BucketTime {
  std::int64_t time = 0;
  std::int64_t behind = 0, least = 0;
  std::int64_t reduced(std::int64_t busy) const { return std::max(busy + behind, least); }
};

// A pass of one stage: its outline with the stage's figures, none of which depends on the
// micro-batch.
class Tape {
 public:
  // The outline outlives the tape, whose storage is used again.
  void record(const Outline& outline, const StageUnits& stage, std::size_t machines);
  // The one recorded last; null: none.
  const Outline* outline() const { return outline_; }

  program::LiveFootprint live(const Forms& forms) const;
  // From rest, until its last unit is reduced. Picoseconds.
  std::int64_t time(const Clock& clock) const;
  BucketTime time_with_buckets(const StageUnits& stage, const Clock& clock) const;

 private:
  struct Held { std::int64_t beside = 0, after = 0; };  // bytes: while a piece runs; behind it
  // What a leaf takes beside its kernels, in picoseconds.
  struct Reduction { std::int64_t partial = 0, reduce = 0, replica = 0; };
  struct Transfers {
    std::int64_t cast = 0, gather = 0, next_cast = 0, next_gather = 0, open = 0;
    std::array<Reduction, 2> reductions{};
    std::size_t reduces = 0;
    std::int64_t left() const { return reduces == 0 ? 0 : reductions[reduces - 1].reduce; }
  };
  // Of all uses beside their pieces, where nothing is hidden; with replicas, so much more.
  struct Sum { std::int64_t beside = 0, replica = 0; };
  // The same where all is hidden but for the ends: what each piece must last for that, and the
  // transfers that hold some of its time.
  struct Hidden {
    std::array<std::int64_t, kSlots> least{};
    std::int64_t beside = 0, transfers = 0;
  };
  struct Streams;

  Held held(const Outline::Leaf& leaf, const StageUnits& s) const;
  Transfers transfers(const Outline::Leaf& leaf, const StageUnits& s, std::size_t machine) const;
  Sum sum(const StageUnits& s, std::size_t machine) const;
  Hidden hidden(std::size_t machine) const;
  bool hides_all(const Clock& clock) const;
  std::int64_t step(const Transfers& t, std::int64_t kernel, const Clock& clock,
                    Streams& streams) const;
  std::int64_t walk(const Clock& clock, Streams& streams) const;

  const Outline* outline_ = nullptr;
  Manner manner_;
  bool hides_ = false;                 // transfers overlap with computation
  bool holds_ = false;                 // copies or gradients take memory too
  std::vector<Held> held_;             // of its leaves, where holds_
  std::array<std::vector<Transfers>, kMachines> transfers_;  // of its leaves, where hides_
  std::array<Hidden, kMachines> hidden_{};
  std::array<Sum, kMachines> sums_{};  // where not
};

}  // namespace planner::closed_form
