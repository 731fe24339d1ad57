#pragma once
// StageLowering: one pipeline stage (or one parameter server that stands apart) as a RankClass:
// persistent state, blocks of its layers, and the routines that call them, with the communication
// of data parallelism, sharding and the pipeline between.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/lowering/class_builder.hpp"
#include "planner/lowering/segment_emitter.hpp"
#include "planner/stage/layout.hpp"
#include "planner/stage/script.hpp"
#include "planner/stage/state.hpp"

namespace planner::lowering {

class StageLowering {
 public:
  StageLowering(const Stage& stage, program::RankSchedule schedule);
  program::RankClass run();

 private:
  // state.cpp: what persists.
  void declare_state();
  void declare(const stage::StateBuffer& buffer);
  std::vector<std::int64_t> instances_of(const stage::StateBuffer& buffer) const;

  // units.cpp: materialised weights and unit gradients.
  void declare_units();
  std::uint16_t declare_copies(program::Buffer like, const char* name, bool f8);
  void declare_gathered_frozen();
  void declare_offloaded_shards();
  // visit(buffer): each shard of offloaded parameters that `copies` has.
  template <class Visit>
  void for_shards(int copies, Visit&& visit) const {
    if ((copies & kTrainedCopy) != 0) visit(state_.shard_weights);
    if ((copies & kFrozenCopy) != 0) visit(state_.shard_frozen);
    if ((copies & kQuantisedCopy) != 0) visit(state_.shard_quantised);
  }
  Stream gather_stream() const { return overlaps() ? Stream::parameter : Stream::compute; }
  enum Copied : int { kTrainedCopy = 1, kFrozenCopy = 2, kQuantisedCopy = 4, kF8Copy = 8 };
  int copies_of(int unit) const;       // what kernels read of the unit that is not stored so
  void gather(View own, View copy, bool experts, bool last);
  View shard_on_device(View own, std::uint16_t shard);
  void copy(Stream stream, View from, View to, std::vector<program::Wait> waits = {},
            const program::EventRef* signal = nullptr);
  std::uint16_t materialise_block(int unit);
  std::uint16_t gather_f8_block(bool experts);
  std::uint16_t await_block();
  std::uint16_t release_block(int unit);
  std::uint16_t open_gradient_block();
  std::uint16_t close_gradient_block();

  // synchronise.cpp: gradients over ranks, optimizer. servers.cpp: parameter servers.
  void declare_synchronisation();
  // Whether the span's gradients travel: experts that one rank alone holds stay there.
  bool reduces(int span) const;
  bool regathers(bool experts) const;
  bool holds_experts(int span) const {
    return layout_.spans[static_cast<std::size_t>(span)].expert_ways > 1;
  }
  program::Group shard_group(bool experts) const {
    return experts ? program::Group::expert_shard : program::Group::shard;
  }
  std::uint16_t reduce_block(bool experts);
  std::uint16_t all_reduce_block(bool experts);
  std::uint16_t unit_reduce_block(bool experts);
  std::uint16_t server_reduce_block();
  std::uint16_t replica_block();
  std::uint16_t tied_block();
  bool reduces_tied_early() const;
  std::uint16_t join_tied_block();
  void build_norm(program::Routine& routine);
  std::uint16_t update_block(bool experts, bool f8);
  std::uint16_t close_staging_block();
  std::uint16_t partial_block(int unit);
  std::uint16_t join_block();
  std::uint16_t join_gather_block();
  bool asynchronous() const { return stage_.strategy->server_mode == ServerMode::async; }
  // A server that takes its turns while the worker of its rank computes.
  bool serves_beside() const { return stage_.serves && !stage_.apart && asynchronous(); }
  void build_turns(program::Routine& routine, Stream stream);
  program::Transfer served(program::Traffic what, int turn) const;
  std::uint16_t server_step_block(Stream stream, int turn);
  void emit_update(Stream stream, View gradient, bool f8 = false);
  View weight_range(bool f8 = false) const;
  View gradient_range() const;
  void build_begin();
  void build_end();

  // stage_lowering.cpp: layers, boundaries, routines.
  // Where a layer's forward pass leaves its output: for the next layer, for the message to the next
  // rank, or (in a V, last rank) for the next chunk.
  enum class Output : std::uint8_t { boundary, message, next_chunk };
  static constexpr int kBackward = 3, kWeightGradient = 4;  // LayerKey::kind beside ForwardMode
  struct LayerKey {
    std::size_t layer_template = 0;
    int kind = 0;                      // ForwardMode, or kBackward, kWeightGradient
    int chunk = 0;
    Output output = Output::boundary;
    bool free_input = true, free_output = false, needs_input = true;
    friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
  };
  // A call that computes, with the units that it reads, opens and completes, and the calls that
  // move offloaded activations right before and after it.
  struct Use {
    program::Call call;
    std::vector<int> reads, opens, completes;
    program::Routine before{}, after{};
  };
  // stash.cpp: offload=activations.
  void declare_stash();
  bool stays(int l) const;             // although offloaded layers before it leave
  bool stashes(int l) const;
  // What layer l keeps, on the device and on the host, and the block that moves it.
  struct Stashed { std::uint16_t device, host; };
  std::span<const Stashed> stash_of(int l) const;  // of those, what layer l has
  View stashed_view(const Stashed& s, int chunk) const;
  std::uint16_t stash_block(int l);
  std::uint16_t drop_block(int l);
  std::uint16_t fetch_block(int l);
  std::uint16_t await_fetched_block();
  void stash_after(std::vector<Use>& uses, const Chunk& chunk, std::size_t first_layer);
  void fetch_before(std::vector<Use>& uses, std::size_t first_layer, std::size_t end);
  void declare_boundaries();
  void declare_segments();
  // passes.cpp: the script, expanded.
  void describe_chunks();
  std::vector<int> indices(const stage::Units& units, int layer) const;
  Use use_of(const stage::Use& use, std::uint16_t block, int layer) const;
  std::uint16_t prologue_forward_block(int chunk);
  std::uint16_t epilogue_forward_block(int chunk);
  std::uint16_t epilogue_block(int chunk);
  std::uint16_t piece_block(stage::Piece piece, int chunk, int layer, bool again);
  std::vector<Use> expand(const stage::Pass& pass, int chunk, bool backward);
  void build_forward(int chunk);
  void build_backward(int chunk, bool last_micro_batch);
  void build_weight_gradient(int chunk, bool last_micro_batch);
  program::PassRoutines& routines(int chunk);
  void append_uses(program::Routine& routine, const std::vector<Use>& uses, bool last_micro_batch);
  void append_completed(program::Routine& routine, int unit, bool last_micro_batch);
  // Gathered with the embeddings and released when the backward pass is over.
  bool is_root(int unit) const;
  void close_gradients(program::Routine& routine);
  LayerKey forward_key(int l, ForwardMode mode, bool free_input) const;
  LayerKey backward_key(int l) const;
  std::uint16_t layer_block(const LayerKey& key);
  Boundary layer_boundary(const LayerKey& key) const;
  bool keeps_output(int l) const;      // layer l's backward reads its output
  bool keeps_output_before(int l) const;  // the same of the layer before it in its chunk
  bool keeps_end(const Chunk& c) const;   // the same of its last layer, if it has one
  int chunk_index(int l) const {
    return static_cast<int>(&stage_.chunk_of(l) - stage_.chunks.data());
  }
  const Chunk& chunk(int index) const { return stage_.chunks[static_cast<std::size_t>(index)]; }
  View d_view(int chunk, int layer) const;  // gradient of the input of a local layer (or the end)
  View x_view(int chunk, int layer) const;
  View output_view(int chunk) const;
  // pipeline.cpp
  bool hands_on(int chunk) const;      // its output stays on this rank, for the next chunk
  bool taken_over(int chunk) const;    // its input comes from the chunk before it on this rank
  bool sends(int chunk, bool gradient) const;
  program::Transfer message(int chunk, bool gradient, bool sends) const;
  // 0: the chunk's activations go to the next rank; 1: to the previous one.
  int arm(int chunk) const { return runs_upwards(stage_.strategy->schedule, chunk) ? 1 : 0; }
  program::Stream message_stream(int chunk, bool sends) const;
  std::size_t landing_index(int chunk, bool gradient) const {
    return static_cast<std::size_t>(2 * arm(chunk) + (gradient ? 1 : 0));
  }
  View landing_view(int chunk, bool gradient, View into);
  std::uint16_t receive_block(int chunk, bool gradient);
  std::uint16_t send_block(int chunk, bool gradient);
  std::uint16_t release_sent_block(int chunk, bool gradient, bool final);
  std::uint16_t prologue_backward_block();
  void call(program::Routine& routine, std::uint16_t block, int layer = 0) const;
  bool overlaps() const { return stage_.strategy->overlap; }
  // Reductions begin within the last backward pass. Split passes complete layers after the
  // embeddings, out of the buckets' order, so theirs begin when all is done.
  bool reduces_early() const { return overlaps() && !stage_.split_backward(); }
  bool communicates() const { return stage_.communicates(); }
  // In inference one buffer is sent from, whatever the schedule: it holds one micro-batch.
  bool releases_sent_late() const;

  const Stage stage_;
  StageLayout layout_;  // moved into the class when it is complete
  program::RankClass class_;
  ClassBuilder builder_;
  StateBuffers state_;
  const bool divides_experts_ = stage_.divides_experts();
  const int unit_groups_ = stage_.unit_groups();
  std::vector<stage::ChunkScript> scripts_;  // of each chunk
  std::optional<SegmentEmitter> prologue_, epilogue_;
  std::vector<std::unique_ptr<SegmentEmitter>> templates_;
  std::map<LayerKey, std::uint16_t> layer_blocks_;
  std::map<std::pair<int, bool>, std::uint16_t>
      materialise_blocks_;                           // template or -1 - unit, experts
  std::map<std::string, std::uint16_t> blocks_;      // one-off blocks by name
  std::vector<std::uint16_t> slot_buffers_, scale_buffers_;
  std::uint16_t update_copies_ = program::kNone, norm_ = program::kNone;
  std::uint16_t x_ = program::kNone, d_ = program::kNone, stage_output_ = program::kNone;
  std::uint16_t staging_ = program::kNone, sum_ = program::kNone, master_ = program::kNone;
  std::uint16_t ready_ = program::kNone, reduced_ = program::kNone, gathered_ = program::kNone;
  std::uint16_t updated_ = program::kNone, may_gather_ = program::kNone, pulled_ = program::kNone;
  std::uint16_t regathered_ = program::kNone, tied_summed_ = program::kNone;
  std::uint16_t host_weights_ = program::kNone, host_gradients_ = program::kNone;
  std::vector<Stashed> stash_;         // the layers' inputs first
  std::uint16_t stashed_ = program::kNone, fetched_ = program::kNone;
  std::uint16_t may_stash_ = program::kNone, may_fetch_ = program::kNone;
  std::uint16_t sent_output_ = program::kNone, sent_gradient_ = program::kNone;
  // Of activations and of gradients, by arm: where messages arrive, and when they are copied out.
  std::array<std::uint16_t, 4> landing_{program::kNone, program::kNone, program::kNone,
                                        program::kNone},
      landed_{};
  bool d_single_ = true;               // one gradient buffer from the loss to the embeddings
  std::vector<int> open_gradients_;    // units whose gradient buffers await their reductions
  int open_staging_ = -1;              // span whose staging buffer awaits its reduction
};

}  // namespace planner::lowering
