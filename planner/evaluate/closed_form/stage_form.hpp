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
#include <utility>
#include <vector>

#include "planner/evaluate/closed_form/tape.hpp"
#include "planner/evaluate/closed_form/pieces.hpp"
#include "planner/evaluate/closed_form/transfer_times.hpp"
#include "planner/evaluate/schedule_algebra.hpp"
#include "planner/stage/policy.hpp"
#include "planner/stage/state.hpp"
#include "sim/cost/link.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

// What every stage of a structure shares.
struct Structure {
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;  // resolved
  stage::Policy policy;
  Recipe recipe;
  Optimizer optimizer;
  std::vector<const cost::Machine*> machines;
  TransferTimes* transfers = nullptr;
  // Groups, by machine.
  std::vector<cost::Place> gradients, replicas, embedding, tensor, pipeline;
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
  std::int64_t joined = 0;             // of `end`, what comes when all ranks know the norm
  std::int64_t embeddings = 0;         // of the period, what the model's first chunk takes more
                                       // than the rank's others do (interleaved)
  std::int64_t period() const { return forward + backward + weight_gradient; }
  PassTimes passes() const { return {forward, backward, weight_gradient}; }
  // Of a step, over a period for each micro-batch.
  std::int64_t beside_periods() const { return begin + end + last_backward - backward; }
};

class StageForm {
 public:
  using Live = program::RoutineFootprints<program::LiveFootprint>;
  // Equal chunks are alike on every rank of a structure: what is known of them at one micro-batch
  // and number of micro-batches.
  class Shared;

  // chunks: in the order of the model, at least one. versions: of the weights (without flush: one
  // more than the steps that they are behind).
  // rows: has those of the chunks. shared: of this structure.
  StageForm(const Structure& structure, const Pieces& pieces, const KindRows& rows,
            std::vector<stage::ChunkShape> chunks, Shared& shared, std::int64_t versions = 1);
  // Before anything is asked of its passes, and whenever what they recompute changed.
  void record_passes(Shared& shared);

  bool is_of(const std::vector<stage::ChunkShape>& chunks, std::int64_t versions) const {
    return versions_ == versions && chunks_ == chunks;
  }
  std::int64_t persistent() const { return persistent_; }
  std::int64_t host_bytes() const { return host_; }
  std::int64_t layers() const { return layers_; }
  // Whether memory is bounded within 2 %: staging buffers of buckets are counted at their greatest,
  // which is more than they hold at the peak.
  bool is_tight() const { return 100 * row_staging_ <= persistent_; }
  // Communicator groups of more than one rank.
  program::GroupSet groups() const { return groups_; }

  // Written to `live`, whose storage is used again.
  void live(const Forms& forms, std::int64_t micro_batches, Live& live, Shared& shared) const;
  // The live peak of a step over the persistent bytes, exact.
  std::int64_t peak(const Live& live, const program::RankSchedule& schedule) const;
  // Interleaved passes: of chunks with equally many layers small differences count at their
  // greatest. `live` is where it is written to otherwise.
  std::int64_t interleaved_peak(const Forms& forms, const program::RankSchedule& schedule,
                                Live& live, Shared& shared) const;
  // Kinds of messages that the rank receives: activations, gradients.
  std::int64_t neighbours() const {
    return 2 - (first_ && chunks_.size() == 1) - (last_ && chunks_.size() == 1);
  }
  // `lands`: messages come by way of landing buffers (receives_ahead).
  StageTime time(const Forms& forms, std::size_t machine, bool lands, Shared& shared) const;
  // Of each chunk's passes, written to `passes`. REQUIRES: time() was asked the same before.
  void chunk_passes(const Forms& forms, std::size_t machine, bool lands, const Shared& shared,
                    std::vector<PassTimes>& passes) const;

 private:
  using Unit = UnitForm;
  // Equal chunks, one behind the other.
  struct Run {
    stage::ChunkShape chunk;
    std::size_t kind = 0;              // among those of the structure (Shared)
    std::int64_t count = 0;
  };
  struct Passes { Tape forward, backward; };  // of a kind of chunk
  struct ChunkTime {
    std::int64_t forward = 0, backward = 0, last_backward = 0;
  };

  const Manner& manner() const { return units_.manner; }
  const Unit& unit(UnitKind of) const { return units_.of(of); }
  // visit(kind, layers): layers alike that follow each other, from the last layer to the first.
  template <class Visit>
  void each_run(Visit&& visit) const;
  void count_layers();
  void add_trained(Unit& unit, std::int64_t elements, UnitGroup group);
  void add_partial(Unit& unit, std::int64_t elements);
  void add_frozen(Unit& unit, std::int64_t elements, std::int64_t codes);
  void make_units(const Pieces& pieces);
  // stage::Policy::root_unit
  std::int64_t root_weights() const {
    if (!manner().keeps_root) return 0;
    return unit(UnitKind::embeddings).weights + unit(UnitKind::tied).weights +
           unit(UnitKind::final).weights;
  }
  void make_spans(const Pieces& pieces);
  void make_buckets(const Pieces& pieces);
  // use(spans, their group).
  template <class Use>
  void for_spans(Use&& use) const {
    for (std::size_t g = 0; g < kUnitGroups.size(); ++g)
      if (g == 0 || !spans_[g].empty()) use(spans_[g], kUnitGroups[g]);
  }
  const std::vector<cost::Place>& sharers(bool experts) const {
    return experts ? s_->experts : s_->gradients;
  }
  // That a span of the trained is divided into.
  std::int64_t parts(bool experts = false) const {
    const Strategy& s = *s_->strategy;
    if (s.sharding == Sharding::none) return 1;
    return experts ? s.shard_group / s.expert_data_ranks() : s.shard_group;
  }
  void sum_state(const Pieces& pieces);
  void make_runs(Shared& shared);
  void time_end();
  std::int64_t norm_time(std::size_t machine) const;
  void share_buckets();
  // Bytes that updates move, of all spans of a kind: those that are cast from their master copy, or
  // the others.
  std::int64_t updated_bytes(bool casts) const;
  // Of one span of so many elements: a kernel of the device, or the host's with its copies.
  std::int64_t update_time(std::int64_t elements, std::int64_t parts, double rate, bool casts,
                           const cost::Machine& machine) const;
  void count_groups();

  // In its last backward passes buckets are reduced as their layers complete.
  bool reduces_early() const {
    return !manner().reduces && communicates_ && s_->strategy->overlap && !split_;
  }
  bool stages_early() const { return reduces_early() && largest_staging_ > 0; }

  // stage_memory.cpp, stage_time.cpp
  using ChunkLive = Live::Chunk;
  program::LiveFootprint backward_live(const Forms& forms, const stage::ChunkShape& c,
                                       const Tape& pass) const;
  program::LiveFootprint weight_gradients(const Forms& forms, const stage::ChunkShape& c) const;
  void chunk_live(const Forms& forms, std::size_t run, std::int64_t micro_batches,
                  const Passes& passes, ChunkLive& live) const;
  // The last buckets' staging, and later what the update copies.
  std::int64_t held_at_end() const {
    return std::max(s_->strategy->overlap && !split_ ? 0 : largest_staging_, update_copies_);
  }
  program::LiveFootprint end_live(const Forms& forms) const;
  const ChunkLive& known_live(const Forms& forms, std::size_t run, std::int64_t micro_batches,
                              Shared& shared) const;
  void chunk_time(const Clock& clock, const Passes& passes, ChunkTime& t) const;
  std::int64_t last_passes(const Clock& clock, std::int64_t landing,
                           const Shared& shared) const;

  const Structure* s_;
  const KindRows* rows_;
  std::vector<stage::ChunkShape> chunks_;
  std::vector<Run> runs_;              // of chunks_
  std::int64_t sent_ = 0;              // messages of one pass of each kind through all chunks
  bool first_ = false, last_ = false, split_ = false;  // of all chunks
  bool equal_ = true;                  // chunks with equally many layers, alike
  std::int64_t layers_ = 0, versions_ = 1;
  std::array<std::int64_t, kMostKinds> layers_of_{};  // by kind
  // Elements of a layer's units, by kind; experts that lie apart of the epilogue, and of all.
  std::array<ByGroup<std::int64_t>, kMostKinds> layer_elements_{};
  std::int64_t final_experts_ = 0;
  std::int64_t experts_ = 0;
  bool exchanges_ = false;             // rows with expert ranks
  bool staged_ = false, communicates_ = false, offloads_ = false;
  bool embeddings_train_ = true;
  bool embeddings_read_ = false;       // by their backward pass, weights of their own
  StageUnits units_;
  std::vector<Tape> last_backward_;    // of each run, where stages_early()
  ByGroup<Spans> spans_;               // buckets or units, in order of their first
  stage::StateSizes sizes_;
  std::int64_t persistent_ = 0, host_ = 0;
  std::int64_t update_copies_ = 0;
  // Of any bucket, of the layers', of the head's.
  std::int64_t largest_staging_ = 0, row_staging_ = 0, head_staging_ = 0;
  program::GroupSet groups_;
  ByGroup<std::array<double, kMachines>> reduce_rate_{};  // picoseconds per element of all buckets
  ByMachine begin_{}, update_{}, reduce_all_{}, tied_early_{}, joined_{};
};

template <class Visit>
void StageForm::each_run(Visit&& visit) const {
  std::size_t kind = 0;
  std::int64_t layers = 0;             // of this kind, not visited yet
  const auto add = [&](std::size_t next, std::int64_t count) {
    if (next != kind && layers > 0) visit(kind, std::exchange(layers, 0));
    kind = next;
    layers += count;
  };
  for (std::size_t c = chunks_.size(); c-- > 0;) {
    const KindRows::Kinds& kinds = rows_->kinds(chunks_[c].kinds);
    if (kinds.empty()) add(0, chunks_[c].layers);
    for (std::size_t l = kinds.size(); l-- > 0;) add(kinds[l], 1);
  }
  if (layers > 0) visit(kind, layers);
}

class StageForm::Shared {
 public:
  // Of another structure; of other passes; of another micro-batch.
  void forget() { ++structure_, chunks_.clear(), forget_passes(); }
  void forget_passes() { ++latest_, clear(); }
  void clear() { ++now_; }

 private:
  friend class StageForm;
  // What is known since the `at`-th clear(), or forget_passes(), of the `structure`-th one.
  struct Recorded { std::uint64_t at = 0, structure = 0; Passes passes; };
  struct Lives { std::uint64_t at = 0; ChunkLive live; };
  struct Times { std::uint64_t at = 0; ChunkTime time; };
  std::size_t kind_of(const stage::ChunkShape& c) {
    const auto at = static_cast<std::size_t>(std::ranges::find(chunks_, c) - chunks_.begin());
    if (at < chunks_.size()) return at;
    chunks_.push_back(c);
    if (at == passes_.size()) {        // else the storage of another structure's
      passes_.emplace_back();
      live_.emplace_back();
      time_.resize(time_.size() + kMachines);
    }
    return at;
  }
  std::vector<stage::ChunkShape> chunks_;  // a few: an end or not, one of two numbers of layers
  std::vector<Recorded> passes_;       // of each
  std::vector<Lives> live_;            // of each
  std::vector<Times> time_;            // of each on each machine
  Outlines outlines_;
  std::uint64_t now_ = 1, latest_ = 1, structure_ = 1;
};

}  // namespace planner::closed_form
