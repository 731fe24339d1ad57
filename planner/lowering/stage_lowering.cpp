#include "planner/lowering/stage_lowering.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace planner::lowering {

static constexpr int kBackward = 3;    // LayerKey::kind beside the forward modes

StageLowering::StageLowering(const Stage& stage, program::Schedule schedule)
    : stage_(stage), layout_(lay_out(stage_)), builder_(class_) {
  class_.schedule = schedule;
  class_.stage = stage.index;
  class_.is_server = stage.serves;
  class_.is_worker = !stage.apart;
  class_.first_layer = stage.first_layer;
  class_.layers = stage.layers;
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
  }
  declare_synchronisation();
  build_begin();
  if (!stage_.apart) {
    build_forward();
    if (stage_.training()) {
      build_backward(false);
      build_backward(true);
    }
  }
  build_end();
  class_.spans = std::move(layout_.spans);
  class_.layer_offset = std::move(layout_.layer_offset);
  class_.frozen_layer_offset = std::move(layout_.frozen_layer_offset);
  class_.parameters = std::move(layout_.parameters);
  class_.trained_elements = layout_.trained_elements;
  class_.frozen_elements = layout_.frozen_elements;
  return std::move(class_);
}

void StageLowering::call(program::Routine& routine, std::uint16_t block, int layer) const {
  if (block != program::kNone) routine.push_back({block, static_cast<std::uint16_t>(layer), 0});
}

int StageLowering::template_of(int l) const {
  return stage_.graph->layer_template[static_cast<std::size_t>(stage_.first_layer + l)];
}

bool StageLowering::keeps_output(int l) const {
  return stage_.training() && l >= 0 &&
         templates_[static_cast<std::size_t>(template_of(l))]->keeps_output();
}

bool StageLowering::keeps_last(int l) const {
  return stage_.training() && stage_.strategy->checkpoint == Checkpoint::memory_poor &&
         stage_.mesh.pipeline == 1 && l == stage_.layers - 1;
}

void StageLowering::declare_segments() {
  const int slots = static_cast<int>(class_.schedule.in_flight());
  const models::ModelGraph& g = *stage_.graph;
  if (stage_.first)
    prologue_.emplace(builder_, stage_, g.prologue, SegmentKind::prologue, layout_.prologue, state_,
                      slots, 1);
  templates_.resize(g.templates.size());
  for (int l = 0; l < stage_.layers; ++l) {
    const auto t = static_cast<std::size_t>(template_of(l));
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
  d.slots = 1;
  if (d_single_) d.extent = 1, d.elements.resize(1);
  d_ = builder_.buffer(std::move(d));
}

void StageLowering::declare_boundaries() {
  program::Buffer x;
  x.name = "boundary";
  x.term = program::Term::activations;
  x.type = stage_.recipe.activation;
  x.extent = stage_.layers + 1;
  x.slots = static_cast<int>(class_.schedule.in_flight());
  for (int l = 0; l <= stage_.layers; ++l)
    x.elements.push_back(stage_.graph->boundary_elements(stage_.first_layer + l) * stage_.samples);
  const std::int64_t last = x.elements.back();
  if (std::ranges::all_of(x.elements, [&](auto n) { return n == last; })) x.elements = {last};
  x_ = builder_.buffer(x);
  if (!stage_.last) {
    x.name = "pipeline.output";
    x.term = program::Term::communication;
    x.extent = 1;
    x.elements = {last};
    stage_output_ = builder_.buffer(x);
    sent_output_ = builder_.event("sent_output", 1, x.slots);
  }
  if (!stage_.first) sent_gradient_ = builder_.event("sent_gradient", 1);
}

View StageLowering::d_view(int boundary) const {
  return constant_view(d_, d_single_ ? 0 : boundary);
}

// Where the stage's last layer leaves its output: the head's input, or a buffer that is sent away.
View StageLowering::output_view() const {
  const bool sent_away = !stage_.last && !keeps_output(stage_.layers - 1);
  return sent_away ? constant_view(stage_output_) : constant_view(x_, stage_.layers);
}

Boundary StageLowering::layer_boundary(const LayerKey& key) const {
  Boundary b;
  b.input = layer_view(x_);
  b.output = key.to_stage_output ? constant_view(stage_output_) : layer_view(x_, 1);
  b.d_input = d_single_ ? constant_view(d_) : layer_view(d_);
  b.d_output = d_single_ ? constant_view(d_) : layer_view(d_, 1);
  b.free_input = key.free_input;
  b.free_output = key.free_output;
  b.input_needs_gradient = key.needs_input;
  return b;
}

std::uint16_t StageLowering::layer_block(const LayerKey& key) {
  const auto [at, fresh] = layer_blocks_.try_emplace(key, program::kNone);
  if (!fresh) return at->second;
  SegmentEmitter& emitter = *templates_[static_cast<std::size_t>(key.layer_template)];
  constexpr const char* kNames[] = {"layer.forward", "layer.forward_drop", "layer.recompute",
                                    "layer.backward"};
  builder_.begin(kNames[key.kind]);
  if (key.kind == kBackward)
    emitter.backward(layer_boundary(key));
  else
    emitter.forward(static_cast<ForwardMode>(key.kind), layer_boundary(key));
  return at->second = builder_.end();
}

StageLowering::Use StageLowering::layer_forward(int l, ForwardMode mode, bool free_input) {
  LayerKey key;
  key.layer_template = template_of(l);
  key.kind = static_cast<int>(mode);
  key.free_input = free_input;
  key.to_stage_output = l == stage_.layers - 1 && mode != ForwardMode::recompute &&
                        output_view().buffer == stage_output_;
  return {{layer_block(key), static_cast<std::uint16_t>(l), 0}, {l}, {}, {}};
}

// Under memory_poor every boundary is recomputed for each layer, so each layer frees its own.
StageLowering::Use StageLowering::layer_backward(int l) {
  const bool poor = stage_.strategy->checkpoint == Checkpoint::memory_poor;
  LayerKey key;
  key.layer_template = template_of(l);
  key.kind = kBackward;
  key.free_input = poor || !keeps_output(l - 1);
  key.free_output = keeps_output(l);
  key.needs_input = l > 0 || !stage_.first || prologue_->trains();
  const bool trains = templates_[static_cast<std::size_t>(key.layer_template)]->trains();
  const std::vector<int> own = trains ? std::vector<int>{l} : std::vector<int>{};
  return {{layer_block(key), static_cast<std::uint16_t>(l), 0}, {l}, own, own};
}

std::vector<int> StageLowering::unit_list(SegmentKind kind) const {
  std::vector<int> list;
  for (std::size_t u = 0; u < layout_.units.size(); ++u)
    if (layout_.units[u].ready == kind && layout_.units[u].layer < 0 &&
        (layout_.units[u].elements > 0 || copies_of(static_cast<int>(u)) > 0))
      list.push_back(static_cast<int>(u));
  return list;
}

void StageLowering::build_forward() {
  program::Routine& routine = class_.forward;
  const auto checkpoint = stage_.training() ? stage_.strategy->checkpoint : Checkpoint::none;
  std::vector<Use> uses;
  if (!stage_.last) call(routine, release_sent_block(false, false));
  if (stage_.first) {
    builder_.begin("prologue.forward");
    Boundary b;
    b.input = b.output = constant_view(x_);
    const bool keeps = stage_.training() && prologue_->trains();
    prologue_->forward(keeps ? ForwardMode::keep : ForwardMode::drop, b);
    uses.push_back({{builder_.end(), 0, 0}, unit_list(SegmentKind::prologue), {}, {}});
  } else {
    call(routine, receive_block(false));
  }
  for (int l = 0; l < stage_.layers; ++l) {
    const bool keeps = checkpoint == Checkpoint::none || checkpoint == Checkpoint::selective;
    const bool keep = stage_.training() && (keeps || keeps_last(l));
    const std::int64_t every = stage_.strategy->checkpoint_every;
    const bool is_checkpoint = checkpoint == Checkpoint::every_k ? l % every == 0
                               : checkpoint == Checkpoint::memory_poor ? l == 0
                                                                       : false;
    uses.push_back(layer_forward(l, keep ? ForwardMode::keep : ForwardMode::drop,
                                 !keep && !is_checkpoint));
    ++class_.forward_evaluations;
  }
  if (!stage_.training() && stage_.last) {
    builder_.begin("epilogue.forward");
    Boundary b;
    b.input = constant_view(x_, stage_.layers);
    if (epilogue_->empty()) {
      builder_.free(b.input);
    } else {
      program::Buffer logits;
      logits.name = "epilogue.logits";
      logits.term = program::Term::logits;
      logits.type = stage_.recipe.activation;
      const models::Segment& head = stage_.graph->epilogue;
      logits.elements = {head.tensors[static_cast<std::size_t>(head.output)].per_sample *
                         stage_.samples};
      b.output = constant_view(builder_.buffer(std::move(logits)));
      epilogue_->forward(ForwardMode::drop, b);
      builder_.free(b.output);
    }
    uses.push_back({{builder_.end(), 0, 0}, unit_list(SegmentKind::epilogue), {}, {}});
  }
  append_uses(routine, uses, false);
  if (!stage_.last) call(routine, send_block(false));
}

// Backward of layers first..last, recomputing what the forward pass dropped.
void StageLowering::append_layer_backwards(std::vector<Use>& uses) {
  const auto recompute = [&](int l, ForwardMode mode, bool free_input) {
    Use use = layer_forward(l, mode, free_input);
    if (use.call.block == program::kNone) return;
    ++class_.forward_evaluations;
    uses.push_back(std::move(use));
  };
  switch (stage_.strategy->checkpoint) {
    case Checkpoint::every_k: {
      const int k = static_cast<int>(stage_.strategy->checkpoint_every);
      for (int a = (stage_.layers - 1) / k * k; a >= 0; a -= k) {
        const int b = std::min(a + k, stage_.layers);
        for (int l = a; l < b; ++l)
          recompute(l, l + 1 < b ? ForwardMode::keep : ForwardMode::recompute, false);
        for (int l = b - 1; l >= a; --l) uses.push_back(layer_backward(l));
      }
      return;
    }
    case Checkpoint::memory_poor:
      for (int l = stage_.layers - 1; l >= 0; --l) {
        if (!keeps_last(l)) {
          for (int j = 0; j < l; ++j) recompute(j, ForwardMode::drop, j > 0);
          recompute(l, keeps_output(l) && l + 1 < stage_.layers ? ForwardMode::keep
                                                                : ForwardMode::recompute,
                    false);
        }
        uses.push_back(layer_backward(l));
      }
      return;
    default:
      for (int l = stage_.layers - 1; l >= 0; --l) uses.push_back(layer_backward(l));
  }
}

void StageLowering::build_backward(bool last_micro_batch) {
  program::Routine& routine = last_micro_batch ? class_.last_backward : class_.backward;
  const std::int64_t evaluations = class_.forward_evaluations;
  std::vector<Use> uses;
  if (!stage_.first) call(routine, release_sent_block(true, false));
  if (stage_.last) {
    Boundary b;
    b.input = constant_view(x_, stage_.layers);
    b.d_input = d_view(stage_.layers);
    b.free_input = !keeps_output(stage_.layers - 1);
    if (blocks_.count("epilogue") == 0) {
      builder_.begin("epilogue");
      epilogue_->forward_and_backward(b);
      blocks_["epilogue"] = builder_.end();
    }
    std::vector<int> own = unit_list(SegmentKind::epilogue), reads = own, opens = own;
    if (stage_.first)  // tied weights belong to the prologue's units: their gradient opens here
      for (int u : unit_list(SegmentKind::prologue))
        if (layout_.units[static_cast<std::size_t>(u)].name == "tied")
          reads.push_back(u), opens.push_back(u);
    if (!epilogue_->trains()) own.clear(), opens.clear();
    uses.push_back({{blocks_["epilogue"], 0, 0}, reads, opens, own});
  } else {
    call(routine, receive_block(true));
  }
  append_layer_backwards(uses);
  if (stage_.first) {
    std::vector<int> own = prologue_->trains() ? unit_list(SegmentKind::prologue)
                                               : std::vector<int>{};
    std::vector<int> opens = own;
    if (stage_.last)
      std::erase_if(opens, [&](int u) {
        return layout_.units[static_cast<std::size_t>(u)].name == "tied";
      });
    std::vector<int> reads;
    if (prologue_->trains() && prologue_->backward_reads_weights())
      std::ranges::copy_if(own, std::back_inserter(reads), [&](int u) {
        return layout_.units[static_cast<std::size_t>(u)].name != "tied";
      });
    uses.push_back({{prologue_backward_block(), 0, 0}, reads, opens, own});
  }
  open_gradient_ = open_staging_ = -1;
  append_uses(routine, uses, last_micro_batch);
  if (open_gradient_ >= 0) call(routine, close_gradient_block(), open_gradient_);
  if (open_staging_ >= 0) call(routine, close_staging_block(), open_staging_);
  if (!stage_.first) call(routine, send_block(true));
  if (last_micro_batch) class_.forward_evaluations = evaluations;
}

// The calls of the uses in order, each unit materialised before its use and released after it;
// consecutive uses of a unit share one copy. With overlap the next unit's copy is requested before
// the current use computes.
void StageLowering::append_uses(program::Routine& routine, const std::vector<Use>& uses,
                                bool last_micro_batch) {
  const bool ahead = overlaps() && stage_.sharded_weights();
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
    if (uses[i].call.block != program::kNone) routine.push_back(uses[i].call);
    for (int u : uses[i].reads)
      if (copies_of(u) > 0 && !reads(i + 1, u)) {
        call(routine, release_block(u), u);
        requested[static_cast<std::size_t>(u)] = false;
      }
    for (int u : uses[i].completes)
      if (trained(u)) append_completed(routine, u, last_micro_batch);
  }
}

// Unit u's gradients of this micro-batch are complete.
void StageLowering::append_completed(program::Routine& routine, int unit, bool last_micro_batch) {
  if (!communicates()) return;
  if (stage_.sharded_gradients()) {
    if (open_gradient_ >= 0) call(routine, close_gradient_block(), open_gradient_);
    call(routine, partial_block(unit), unit);
    call(routine, reduce_block(), unit);
    open_gradient_ = unit;
    if (last_micro_batch && stage_.mesh.group_size(program::Group::replica) > 1) {
      const auto [at, fresh] = blocks_.try_emplace("replicas", program::kNone);
      if (fresh) at->second = replica_block();
      call(routine, at->second, unit);
    }
    if (!overlaps()) {
      call(routine, close_gradient_block(), unit);
      open_gradient_ = -1;
    }
    return;
  }
  if (!last_micro_batch || !overlaps()) return;
  for (std::size_t s = 0; s < layout_.spans.size(); ++s) {
    if (layout_.span_ready[s] != unit) continue;
    if (open_staging_ >= 0) call(routine, close_staging_block(), open_staging_);
    call(routine, reduce_block(), static_cast<int>(s));
    if (staging_ != program::kNone) open_staging_ = static_cast<int>(s);
  }
}

}  // namespace planner::lowering
