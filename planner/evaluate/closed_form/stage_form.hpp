#pragma once
// Internal: one pipeline rank in closed form: the stage it holds, or several chunks of the model.
// What a strategy fixes of a stage (its units, spans, persistent bytes, collectives) is prepared
// once; memory and time of its routines at a micro-batch are sums over pieces (pieces.hpp).
//
// Memory follows the lowering alloc by alloc: the live bytes equal those of the lowered class, but
// for the staging buffers of buckets, which are counted at their greatest. Time: in-order streams
// for computation, gradients and parameters, with the events of the lowering between them; buckets
// of data parallelism reduce as their layers complete, each layer its share of all buckets.
// Pure; thread-safe to read.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "planner/evaluate/closed_form/pieces.hpp"
#include "planner/evaluate/closed_form/transfer_times.hpp"
#include "planner/evaluate/schedule_algebra.hpp"
#include "planner/stage/policy.hpp"
#include "sim/cost/link.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

// Figures by machine: an array, since a search asks for the one machine and at most three others.
inline constexpr std::size_t kMachines = 4;
using ByMachine = std::array<std::int64_t, kMachines>;

// What every stage of a structure shares.
struct Structure {
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;  // resolved
  stage::Policy policy;
  Recipe recipe;
  Optimizer optimizer;
  std::vector<const cost::Machine*> machines;
  TransferTimes* transfers = nullptr;
  std::vector<cost::Place> gradients, replicas, embedding, tensor;  // groups, by machine
  std::vector<cost::Place> experts;    // of equal ones, as `gradients`; empty where all hold all
};

// Equal buckets, or equal units, counted together.
struct SpanCount {
  std::int64_t elements = 0, count = 0;
};
using Spans = std::vector<SpanCount>;

// Of one micro-batch through all chunks of a rank, and of what surrounds them; picoseconds.
struct StageTime {
  std::int64_t forward = 0, backward = 0, weight_gradient = 0, last_backward = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t embeddings = 0;         // of the period, what the model's first chunk takes more
                                       // than the rank's others do (interleaved)
  std::int64_t period() const { return forward + backward + weight_gradient; }
  PassTimes passes() const { return {forward, backward, weight_gradient}; }
  // Of a step, over a period for each micro-batch.
  std::int64_t beside_periods() const { return begin + end + last_backward - backward; }
};

// What a rank holds of the model in one piece: `layers` of them, perhaps an end of the model.
struct Chunk {
  bool first = false, last = false;
  std::int64_t layers = 0;
  // Layers of the rank's chunks before it, modulo k, where one in k is computed again.
  std::int64_t before = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

class StageForm {
 public:
  using Live = program::RoutineFootprints<program::LiveFootprint>;
  // Equal chunks are alike on every rank of a structure: what is known of them at one micro-batch
  // and number of micro-batches.
  class Shared;

  // chunks: in the order of the model, at least one. versions: of the weights (without flush: one
  // more than the steps that they are behind).
  // shared: of this structure.
  StageForm(const Structure& structure, const Pieces& pieces, std::vector<Chunk> chunks,
            Shared& shared, std::int64_t versions = 1);

  std::int64_t persistent() const { return persistent_; }
  std::int64_t host_bytes() const { return host_; }
  std::int64_t layers() const { return layers_; }
  // Whether memory is bounded within 2 %: staging buffers of buckets are counted at their greatest,
  // which is more than they hold at the peak.
  bool is_tight() const { return 100 * row_staging_ <= persistent_; }
  // Communicator groups of more than one rank.
  int groups() const { return groups_; }

  // Written to `live`, whose storage is used again.
  void live(const Forms& forms, std::int64_t micro_batches, Live& live, Shared& shared) const;
  // The live peak of a step over the persistent bytes, exact.
  std::int64_t peak(const Live& live, const program::Schedule& schedule) const;
  // Interleaved passes: of chunks with equally many layers small differences count at their
  // greatest. `live` is where it is written to otherwise.
  std::int64_t interleaved_peak(const Forms& forms, const program::Schedule& schedule, Live& live,
                                Shared& shared) const;
  // Kinds of messages that the rank receives: activations, gradients.
  std::int64_t neighbours() const {
    return 2 - (first_ && chunks_.size() == 1) - (last_ && chunks_.size() == 1);
  }
  // `lands`: messages come by way of landing buffers (receives_ahead).
  StageTime time(const Forms& forms, std::size_t machine, bool lands, Shared& shared) const;

 private:
  // A unit's copies and transfers, a layer's with its experts'. Bytes of its gathered (or cast)
  // weights, whole gradient, staging; picoseconds by machine.
  struct Unit {
    std::int64_t elements = 0;         // without such experts
    std::int64_t weights = 0, gradient = 0, staging = 0;
    ByMachine cast{}, gather{}, reduce{}, replica{}, partial{};
  };
  // Equal chunks, one behind the other.
  struct Run {
    Chunk chunk;
    std::size_t kind = 0;              // among those of the structure (Shared)
    std::int64_t count = 0;
  };
  // One machine's picoseconds that a pass spends on its units: `reads` before what reads them
  // (casts, and gathers that are not requested ahead), `ahead` for those that are.
  struct Waits {
    std::int64_t layer = 0, prologue_reads = 0, prologue_ahead = 0, epilogue_reads = 0,
                 epilogue_ahead = 0, tail_reads = 0, tail_ahead = 0;
    std::int64_t next = 0;             // gather of the layer requested meanwhile; 0: none is
  };
  struct Clock;
  struct SegmentTime {
    std::int64_t recompute, first, other, last;
    // While the unit before is being reduced: what is computed, what is gathered behind it.
    std::int64_t window, copies;
    std::int64_t beside(std::int64_t reduce) const { return std::max(window, reduce + copies); }
    std::int64_t all(std::int64_t layers) const {
      return recompute + first + (layers > 1 ? (layers - 2) * other + last : 0);
    }
  };

  // A chunk's layers in segments, in the order of the model: one of `lead` layers (none: 0), `full`
  // ones of n, one of `rest`. Where one layer in k is computed again it is a segment's last, and
  // `rest` has none.
  struct Segments {
    std::int64_t n, lead, full, rest;
    // Layers of the one that a backward pass ends with, but for the one of `rest`; others of n.
    std::int64_t ending() const { return lead > 0 ? lead : full > 0 ? n : 0; }
    std::int64_t inner() const { return lead > 0 || full == 0 ? full : full - 1; }
  };
  // Those that there are.
  struct Row : Segments {
    SegmentTime inside, last, partial;
  };
  // So many layers' gradients are reduced from here on, after a backward pass began, at the
  // earliest. None: where the pass begins.
  struct Ready {
    std::int64_t at = 0, layers = 0;
  };
  struct ChunkTime {
    std::int64_t forward = 0, backward = 0, last_backward = 0;
    std::int64_t head = 0;
    std::array<Ready, 4> ready;        // where buckets follow the layers
  };

  void add_trained(Unit& unit, std::int64_t elements, bool experts);
  void add_partial(Unit& unit, std::int64_t elements);
  void add_frozen(Unit& unit, std::int64_t elements, std::int64_t codes);
  void make_units(const UnitElements& units);
  // Copies that the backward pass of the embeddings reads, requested by the last layer before it.
  std::int64_t tail_weights(const Chunk& c) const {
    return tail_reads_ && c.first ? embeddings_.weights : 0;
  }
  // stage::Policy::root_unit
  std::int64_t root_weights() const {
    return keeps_root_ ? embeddings_.weights + tied_.weights + final_.weights : 0;
  }
  void make_spans(const Pieces& pieces);
  void make_buckets(const Pieces& pieces);
  // Both kinds: use(spans, whether of experts).
  template <class Use>
  void for_spans(Use&& use) const {
    use(spans_, false);
    if (!expert_spans_.empty()) use(expert_spans_, true);
  }
  const std::vector<cost::Place>& sharers(bool experts) const {
    return experts ? s_->experts : s_->gradients;
  }
  // That a span of the trained is divided into.
  std::int64_t parts(bool experts = false) const {
    const Strategy& s = *s_->strategy;
    if (s.sharding == Sharding::none) return 1;
    return experts ? s.shard_group / s.expert : s.shard_group;
  }
  void sum_persistent(const UnitElements& units);
  void make_runs(Shared& shared);
  void time_end();
  void time_waits();
  // Of one span of so many elements: a kernel of the device, or the host's with its copies.
  std::int64_t update_time(std::int64_t elements, std::int64_t parts, double rate,
                           const cost::Machine& machine) const;
  void count_groups();

  // stage_memory.cpp, stage_time.cpp
  std::int64_t every() const {
    return s_->strategy->checkpoint == Checkpoint::every_k ? s_->strategy->checkpoint_every : 0;
  }
  // Of each k layers one is computed again, alone (stage::Policy::one_in_k).
  bool alone() const { return one_in_k_ && every() > 0; }
  Segments segments_of(const Chunk& c) const;
  using ChunkLive = Live::Chunk;
  void chunk_live(const Forms& forms, const Chunk& c, std::int64_t micro_batches,
                  ChunkLive& live) const;
  program::LiveFootprint forward_live(const Forms& forms, const Chunk& c) const;
  program::LiveFootprint segment_live(const Forms& forms, const Chunk& c, std::int64_t n,
                                      std::int64_t open, bool final, bool recomputes) const;
  // The last buckets' staging, and later what the update copies.
  std::int64_t held_at_end() const {
    return std::max(s_->strategy->overlap && !split_ ? 0 : largest_staging_, update_copies_);
  }
  program::LiveFootprint end_live(const Forms& forms) const;
  const ChunkLive& known_live(const Forms& forms, const Chunk& c, std::size_t kind,
                              std::int64_t micro_batches, Shared& shared) const;
  program::LiveFootprint backward_live(const Forms& forms, const Chunk& c, bool buckets) const;
  void segment_time(const Clock& clock, const Chunk& c, std::int64_t n, bool final,
                    bool recomputes, SegmentTime& t) const;
  std::int64_t forward_time(const Clock& clock, const Chunk& c, const Row& row) const;
  std::int64_t head_time(const Clock& clock, const Chunk& c) const;
  std::int64_t tail_time(const Clock& clock, const Chunk& c) const;
  Row row(const Clock& clock, const Chunk& c) const;
  void chunk_time(const Forms& forms, std::size_t machine, const Chunk& c, ChunkTime& t) const;
  std::int64_t backward_time(const Clock& clock, const Chunk& c, const Row& row,
                             std::int64_t head, std::int64_t tail) const;
  std::int64_t buckets_end(std::size_t machine, const Run& run, const ChunkTime& of,
                           std::int64_t start, std::int64_t step, std::int64_t busy) const;

  const Structure* s_;
  std::vector<Chunk> chunks_;
  std::vector<Run> runs_;              // of chunks_
  std::int64_t sent_ = 0;              // messages of one pass of each kind through all chunks
  bool first_ = false, last_ = false, split_ = false;  // of all chunks
  bool equal_ = true;                  // chunks with equally many layers, alike
  bool one_in_k_ = false;
  std::int64_t layers_ = 0, versions_ = 1;
  std::int64_t experts_ = 0;           // elements of a layer's experts that lie apart
  bool copies_ = false, ahead_ = false, units_reduce_ = false, embeddings_train_ = true;
  bool staged_ = false, communicates_ = false, offloads_ = false, keeps_root_ = false;
  bool tail_reads_ = false;            // the backward pass of the embeddings, their weights
  Unit layer_, final_, tied_, embeddings_;
  Spans spans_, expert_spans_;         // buckets or units, in order of their first
  std::int64_t trained_ = 0, frozen_bytes_ = 0, shard_ = 0, scales_ = 0;
  std::int64_t persistent_ = 0, host_ = 0;
  std::int64_t update_copies_ = 0;
  // Of any bucket, of the layers', of the head's.
  std::int64_t largest_staging_ = 0, row_staging_ = 0, head_staging_ = 0;
  int groups_ = 0;
  // Picoseconds per element of all buckets, of those of experts; and so of a layer, the head, the
  // embeddings.
  std::array<double, kMachines> reduce_rate_{}, expert_rate_{};
  ByMachine layer_share_{}, head_share_{}, embeddings_share_{};
  ByMachine begin_{}, update_{}, reduce_all_{}, tied_early_{};
  std::array<Waits, kMachines> waits_{};
};

class StageForm::Shared {
 public:
  // Of another structure; of another micro-batch.
  void forget() { chunks_.clear(), live_.clear(), time_.clear(); }
  void clear() { ++now_; }

 private:
  friend class StageForm;
  // What is known since `at` clear()s.
  struct Lives { std::uint64_t at = 0; ChunkLive live; };
  struct Times { std::uint64_t at = 0; ChunkTime time; };
  std::size_t kind_of(const Chunk& c) {
    const auto at = static_cast<std::size_t>(std::ranges::find(chunks_, c) - chunks_.begin());
    if (at < chunks_.size()) return at;
    chunks_.push_back(c);
    live_.emplace_back();
    time_.resize(time_.size() + kMachines);
    return at;
  }
  std::vector<Chunk> chunks_;          // a few: an end or not, one of two numbers of layers
  std::vector<Lives> live_;            // of each
  std::vector<Times> time_;            // of each on each machine
  std::uint64_t now_ = 1;
};

}  // namespace planner::closed_form
