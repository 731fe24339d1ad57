#include "planner/lowering/stage_lowering.hpp"

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace planner::lowering {

StageLowering::StageLowering(const Stage& stage, program::RankSchedule schedule)
    : stage_(stage), layout_(lay_out(stage_)), builder_(class_) {
  PLANNER_CHECK(!stage.policy.weights_f8 ||
                    stage::can_gather_f8(stage.recipe, *stage.strategy),
                "weights in 8 bits alone have no update");
  class_.schedule = schedule;
  class_.stage = stage.index;
  class_.is_server = stage.serves;
  class_.is_worker = !stage.apart;
  class_.first_layer = stage.first_layer;
  class_.layers = stage.layers;
  class_.later_chunks.resize(stage.chunks.size() - 1);
  class_.name = stage.apart ? "server"
                            : "stage " + std::to_string(stage.index) +
                                  (stage.serves ? " and server" : "");
}

program::RankClass StageLowering::run() {
  declare_state();
  if (!stage_.apart) {
    declare_boundaries();
    declare_units();
    declare_segments();
    describe_chunks();
    declare_stash();
  }
  declare_synchronisation();
  build_begin();
  const int chunks = stage_.apart ? 0 : static_cast<int>(stage_.chunks.size());
  for (int c = 0; c < chunks; ++c) {
    build_forward(c);
    if (!stage_.training()) continue;
    for (const bool last : {false, true}) {
      build_backward(c, last);
      if (stage_.split_backward()) build_weight_gradient(c, last);
    }
  }
  build_end();
  class_.spans = std::move(layout_.spans);
  class_.layer_offset = std::move(layout_.layer_offset);
  class_.frozen_layer_offset = std::move(layout_.frozen_layer_offset);
  class_.parameters = std::move(layout_.parameters);
  class_.quantised = std::move(layout_.quantised);
  class_.trained_elements = layout_.trained_elements;
  class_.frozen_elements = layout_.frozen_elements;
  for (const Unit& u : layout_.units)
    class_.frozen_units.push_back({u.frozen_offset, u.frozen_elements});
  return std::move(class_);
}

program::PassRoutines& StageLowering::routines(int c) {
  if (c == 0) return class_;
  return class_.later_chunks[static_cast<std::size_t>(c - 1)];
}

void StageLowering::call(program::Routine& routine, std::uint16_t block, int layer) const {
  if (block != program::kNone) routine.push_back({block, static_cast<std::uint16_t>(layer), 0});
}

bool StageLowering::keeps_output(int l) const {
  return stage_.training() && l >= 0 &&
         templates_[stage_.template_of(l)]->keeps_output();
}

bool StageLowering::keeps_output_before(int l) const {
  const Chunk& own = stage_.chunk_of(l);
  const bool here = l > own.begin || taken_over(static_cast<int>(&own - stage_.chunks.data()));
  return here && keeps_output(l - 1);
}

bool StageLowering::keeps_end(const Chunk& c) const {
  return c.end > c.begin && keeps_output(c.end - 1);
}

void StageLowering::declare_segments() {
  const int slots = static_cast<int>(class_.schedule.slots());
  const models::ModelGraph& g = *stage_.graph;
  if (stage_.first)
    prologue_.emplace(builder_, stage_, g.prologue, SegmentKind::prologue, layout_.prologue, state_,
                      slots, 1);
  templates_.resize(g.templates.size());
  for (int l = 0; l < stage_.layers; ++l) {
    const std::size_t t = stage_.template_of(l);
    if (templates_[t]) continue;
    templates_[t] = std::make_unique<SegmentEmitter>(builder_, stage_, g.templates[t],
                                                     SegmentKind::layer, layout_.templates[t],
                                                     state_, slots, stage_.layers);
  }
  if (stage_.last)
    epilogue_.emplace(builder_, stage_, g.epilogue, SegmentKind::epilogue, layout_.epilogue, state_,
                      1, 1);
  d_single_ = true;
  for (const auto& t : templates_)
    if (t) d_single_ = d_single_ && t->gradient_in_place();
  if (!stage_.training()) return;
  program::Buffer d = class_.buffers[x_];
  d.name = "boundary.gradient";
  d.slots = releases_sent_late() ? static_cast<int>(class_.schedule.slots()) : 1;
  if (d_single_) d.extent = static_cast<int>(stage_.chunks.size()), d.elements.resize(1);
  d_ = builder_.buffer(std::move(d));
}

// Boundary l + c lies before local layer l of chunk c: each chunk has an end of its own.
void StageLowering::declare_boundaries() {
  const int chunks = static_cast<int>(stage_.chunks.size());
  program::Buffer x;
  x.name = "boundary";
  x.term = program::Term::activations;
  x.type = stage_.recipe.activation;
  x.extent = stage_.layers + chunks;
  x.slots = static_cast<int>(class_.schedule.slots());
  std::vector<std::int64_t> ends;
  for (const Chunk& c : stage_.chunks) {
    for (int l = c.first_layer; l <= c.first_layer + c.end - c.begin; ++l)
      x.elements.push_back(stage_.graph->boundary_elements(l) * stage_.samples);
    ends.push_back(x.elements.back());
  }
  const auto flatten = [](std::vector<std::int64_t>& all) {
    if (std::ranges::all_of(all, [&](auto n) { return n == all[0]; })) all.resize(1);
  };
  flatten(x.elements);
  flatten(ends);
  x_ = builder_.buffer(x);
  bool sends_output = false, sends_gradient = false;
  for (int c = 0; c < chunks; ++c) {
    sends_output |= sends(c, false);
    sends_gradient |= sends(c, true);
  }
  if (sends_output) {
    x.name = "pipeline.output";
    x.term = program::Term::communication;
    x.extent = chunks;
    x.elements = ends;
    stage_output_ = builder_.buffer(x);
    sent_output_ = builder_.event("sent_output", chunks, x.slots);
  }
  if (sends_gradient) sent_gradient_ = builder_.event("sent_gradient", chunks);
}

// With one gradient buffer for a chunk, a chunk that is handed on uses the next one's; otherwise
// its end is where the next one begins.
View StageLowering::d_view(int c, int l) const {
  if (!d_single_) return constant_view(d_, l + c + (hands_on(c) && l == chunk(c).end ? 1 : 0));
  return constant_view(d_, hands_on(c) ? c + 1 : c);
}

View StageLowering::x_view(int c, int l) const { return constant_view(x_, l + c); }

// Where the chunk's last layer leaves its output: the input of the head or of the next chunk, or a
// buffer that is sent away.
View StageLowering::output_view(int c) const {
  const int end = chunk(c).end;
  if (hands_on(c)) return x_view(c + 1, end);
  const bool sent_away = !chunk(c).last && !keeps_end(chunk(c));
  return sent_away ? constant_view(stage_output_, c) : x_view(c, end);
}

Boundary StageLowering::layer_boundary(const LayerKey& key) const {
  Boundary b;
  const int c = key.chunk, after = key.output == Output::next_chunk ? c + 2 : c + 1;
  b.input = layer_view(x_, c);
  b.output = key.output == Output::message ? constant_view(stage_output_, c)
                                           : layer_view(x_, after);
  b.d_input = d_single_ ? d_view(c, 0) : layer_view(d_, c);
  b.d_output = d_single_ ? d_view(c, 0) : layer_view(d_, after);
  b.free_input = key.free_input;
  b.free_output = key.free_output;
  b.input_needs_gradient = key.needs_input;
  return b;
}

std::uint16_t StageLowering::layer_block(const LayerKey& key) {
  const auto [at, fresh] = layer_blocks_.try_emplace(key, program::kNone);
  if (!fresh) return at->second;
  SegmentEmitter& emitter = *templates_[key.layer_template];
  constexpr const char* kNames[] = {"layer.forward", "layer.forward_drop", "layer.recompute",
                                    "layer.backward"};
  builder_.begin(kNames[key.kind]);
  if (key.kind != kBackward) {
    emitter.forward(static_cast<ForwardMode>(key.kind), layer_boundary(key));
    return at->second = builder_.end();
  }
  emitter.backward(layer_boundary(key));
  at->second = builder_.end();
  if (stage_.split_backward()) {
    LayerKey rest = key;
    rest.kind = kWeightGradient;
    builder_.begin("layer.weight_gradient");
    emitter.weight_gradients();
    layer_blocks_[rest] = builder_.end();
  }
  return layer_blocks_[key];
}

StageLowering::LayerKey StageLowering::forward_key(int l, ForwardMode mode,
                                                   bool free_input) const {
  LayerKey key;
  key.layer_template = stage_.template_of(l);
  key.kind = static_cast<int>(mode);
  key.free_input = free_input;
  const Chunk& own = stage_.chunk_of(l);
  key.chunk = static_cast<int>(&own - stage_.chunks.data());
  if (l == own.end - 1 && mode != ForwardMode::recompute) {
    if (hands_on(key.chunk))
      key.output = Output::next_chunk;
    else if (output_view(key.chunk).buffer == stage_output_)
      key.output = Output::message;
  }
  return key;
}

// Under memory_poor every boundary is recomputed for each layer, so each layer frees its own.
StageLowering::LayerKey StageLowering::backward_key(int l) const {
  const bool poor = stage_.strategy->checkpoint == Checkpoint::memory_poor;
  LayerKey key;
  key.layer_template = stage_.template_of(l);
  key.kind = kBackward;
  const Chunk& c = stage_.chunk_of(l);
  key.chunk = static_cast<int>(&c - stage_.chunks.data());
  key.free_input = poor || !keeps_output_before(l);
  key.free_output = keeps_output(l);
  const bool apart = !d_single_ || keeps_output(l);
  if (apart && l == c.end - 1 && hands_on(key.chunk)) key.output = Output::next_chunk;
  key.needs_input = l > c.begin || !c.first || prologue_->trains();
  return key;
}

bool StageLowering::is_root(int unit) const {
  return stage_.keeps_root() && layout_.units[static_cast<std::size_t>(unit)].layer < 0 &&
         copies_of(unit) > 0;
}

// The calls of the uses in order, each unit materialised before its use and released after it;
// consecutive uses of a unit share one copy. With overlap the next unit's copy is requested before
// the current use computes; without it, where the policy's next_unit says so, behind it.
void StageLowering::append_uses(program::Routine& routine, const std::vector<Use>& uses,
                                bool last_micro_batch) {
  const bool ahead = stage::gathers_ahead(*stage_.strategy);
  const bool at_end = stage::gathers_at_end(stage_.policy, *stage_.strategy);
  const auto reads = [&](std::size_t i, int unit) {
    return i < uses.size() && std::ranges::count(uses[i].reads, unit) > 0;
  };
  const auto trained = [&](int unit) {
    return layout_.units[static_cast<std::size_t>(unit)].elements > 0;
  };
  std::vector<bool> requested(layout_.units.size(), false);
  const auto request = [&](std::size_t i) {
    if (i >= uses.size()) return;
    for (int u : uses[i].reads)
      if (copies_of(u) > 0 && !requested[static_cast<std::size_t>(u)]) {
        requested[static_cast<std::size_t>(u)] = true;
        call(routine, materialise_block(u), u);
      }
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    request(i);
    if (ahead) request(i + 1);
    for (int u : uses[i].reads)
      if (copies_of(u) > 0 && !(i > 0 && reads(i - 1, u))) call(routine, await_block(), u);
    if (state_.unit_gradients != program::kNone)
      for (int u : uses[i].opens)
        if (trained(u)) call(routine, open_gradient_block(), u);
    routine.insert(routine.end(), uses[i].before.begin(), uses[i].before.end());
    if (uses[i].call.block != program::kNone) routine.push_back(uses[i].call);
    if (at_end) request(i + 1);
    routine.insert(routine.end(), uses[i].after.begin(), uses[i].after.end());
    for (int u : uses[i].reads)
      if (copies_of(u) > 0 && !reads(i + 1, u) && !is_root(u)) {
        call(routine, release_block(u), u);
        requested[static_cast<std::size_t>(u)] = false;
      }
    for (int u : uses[i].completes)
      if (trained(u)) append_completed(routine, u, last_micro_batch);
  }
}

void StageLowering::close_gradients(program::Routine& routine) {
  for (const int unit : open_gradients_) call(routine, close_gradient_block(), unit);
  open_gradients_.clear();
}

// Unit u's gradients of this micro-batch are complete. One is open while it is reduced, those of a
// layer together.
void StageLowering::append_completed(program::Routine& routine, int unit, bool last_micro_batch) {
  if (!communicates()) return;
  if (stage_.sharded_gradients()) {
    const auto base_of = [&](int u) {
      const int beside = layout_.units[static_cast<std::size_t>(u)].beside;
      return beside < 0 ? u : beside;
    };
    const auto is_beside = [&](int open) { return base_of(open) == base_of(unit); };
    if (!std::ranges::any_of(open_gradients_, is_beside)) close_gradients(routine);
    call(routine, partial_block(unit), unit);
    call(routine, reduce_block(holds_experts(unit)), unit);
    open_gradients_.push_back(unit);
    if (last_micro_batch && stage_.mesh.group_size(program::Group::replica) > 1) {
      const auto [at, fresh] = blocks_.try_emplace("replicas", program::kNone);
      if (fresh) at->second = replica_block();
      call(routine, at->second, unit);
    }
    if (!overlaps()) close_gradients(routine);
    return;
  }
  if (!last_micro_batch || !reduces_early()) return;
  for (std::size_t s = 0; s < layout_.spans.size(); ++s) {
    if (layout_.span_ready[s] != unit || !reduces(static_cast<int>(s))) continue;
    if (open_staging_ >= 0) call(routine, close_staging_block(), open_staging_);
    call(routine, reduce_block(holds_experts(static_cast<int>(s))), static_cast<int>(s));
    if (staging_ != program::kNone) open_staging_ = static_cast<int>(s);
  }
}

}  // namespace planner::lowering
