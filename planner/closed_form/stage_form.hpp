#pragma once
// Internal: one pipeline stage in closed form. What a strategy fixes of a stage (its units, spans,
// persistent bytes, collectives) is prepared once; memory and time of its routines at a micro-batch
// are sums over pieces (pieces.hpp) in the order that uses.hpp states.
//
// Memory follows the lowering alloc by alloc: the live bytes equal those of the lowered class, but
// for the staging buffers of buckets, which are counted at their greatest. Time: in-order streams
// for computation, gradients and parameters, with the events of the lowering between them; buckets
// of data parallelism reduce as their layers complete, each layer its share of all buckets.
// Pure; thread-safe to read.

#include <cstdint>
#include <vector>

#include "planner/closed_form/pieces.hpp"
#include "sim/cost/link.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

// What every stage of a structure shares.
struct Structure {
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;  // resolved
  Recipe recipe;
  Optimizer optimizer;
  std::vector<const cost::Machine*> machines;
  std::vector<cost::Place> gradients, replicas, embedding, tensor;  // groups, by machine
};

// Equal buckets, or equal units, counted together.
struct SpanCount {
  std::int64_t elements = 0, count = 0;
};
using Spans = std::vector<SpanCount>;

struct StageTime {
  std::int64_t forward = 0, backward = 0, last_backward = 0, begin = 0, end = 0;  // picoseconds
  std::int64_t period() const { return forward + backward; }
  std::int64_t total(std::int64_t micro_batches) const {
    return begin + end + micro_batches * forward + (micro_batches - 1) * backward + last_backward;
  }
};

class StageForm {
 public:
  StageForm(const Structure& structure, const Pieces& pieces, bool first, bool last,
            std::int64_t layers);

  std::int64_t persistent() const { return persistent_; }
  // Communicator groups of more than one rank.
  int groups() const { return groups_; }

  program::RoutineFootprints<program::LiveFootprint> live(const Forms& forms,
                                                          std::int64_t micro_batches) const;
  StageTime time(const Forms& forms, std::size_t machine) const;

 private:
  // A unit's copies and transfers. Bytes of its gathered (or cast) weights, whole gradient,
  // staging; picoseconds by machine.
  struct Unit {
    std::int64_t elements = 0;
    std::int64_t weights = 0, gradient = 0, staging = 0;
    std::vector<std::int64_t> cast, gather, reduce, replica, partial;
  };
  struct Clock;
  struct SegmentTime {
    std::int64_t recompute = 0, first = 0, other = 0;
    std::int64_t all(std::int64_t layers) const { return recompute + first + (layers - 1) * other; }
  };

  void make_unit(Unit& unit, std::int64_t elements);
  void add_partial(Unit& unit, std::int64_t elements);
  void add_frozen(Unit& unit, std::int64_t elements, std::int64_t codes);
  void make_units(const UnitElements& units);
  void make_spans(const Pieces& pieces);
  void sum_persistent(const UnitElements& units);
  void time_end();
  void count_groups();

  // stage_passes.cpp
  std::int64_t every() const {
    return s_->strategy->checkpoint == Checkpoint::every_k ? s_->strategy->checkpoint_every : 0;
  }
  program::LiveFootprint forward_live(const Forms& forms) const;
  program::LiveFootprint segment_live(const Forms& forms, std::int64_t n, std::int64_t open,
                                      bool final) const;
  program::LiveFootprint backward_live(const Forms& forms) const;
  Clock clock(const Forms& forms, std::size_t machine, bool replicas) const;
  std::int64_t forward_time(const Clock& clock) const;
  SegmentTime segment_time(const Clock& clock, std::int64_t n) const;
  std::int64_t head_time(const Clock& clock) const;
  std::int64_t backward_time(const Clock& clock, bool replicas) const;
  std::int64_t with_buckets(const Clock& clock, std::int64_t backward) const;

  const Structure* s_;
  bool first_, last_;
  std::int64_t layers_;
  bool copies_ = false, ahead_ = false, units_reduce_ = false, embeddings_train_ = true;
  bool staged_ = false, communicates_ = false;
  Unit layer_, final_, tied_, embeddings_;
  Spans spans_;                        // buckets or units, in order of their first
  std::int64_t trained_ = 0, frozen_bytes_ = 0, shard_ = 0, scales_ = 0;
  std::int64_t persistent_ = 0, largest_staging_ = 0;
  int groups_ = 0;
  std::vector<double> reduce_rate_;    // picoseconds per element of all buckets, by machine
  std::vector<std::int64_t> begin_, update_, reduce_all_;  // by machine
};

}  // namespace planner::closed_form
