// Persistent state of a stage: the buffers that stage/state.hpp states, and what of the layout they
// follow instance by instance.
#include "planner/lowering/stage_lowering.hpp"
#include "planner/stage/state.hpp"

namespace planner::lowering {

using stage::StateKind;

// Of the ranks that divide the frozen parameters.
static std::int64_t frozen_parts(const Stage& stage) {
  return stage.sharded_weights() ? stage.parts() : 1;
}

static stage::StateSizes sizes_of(const StageLayout& layout, std::int64_t parts) {
  stage::StateSizes sizes;
  for (const Unit& u : layout.units) sizes.add_unit(u.sizes(), parts);
  for (std::size_t s = 0; s < layout.spans.size(); ++s)
    sizes.add_span(layout.spans[s].shard_elements, layout.in_f8(static_cast<int>(s)));
  return sizes;
}

// Elements by instance: of frozen parameters that are sharded each unit's own, of quantised ones
// each layer's, of gradients that an offloaded unit sends to the host each span's.
std::vector<std::int64_t> StageLowering::instances_of(const stage::StateBuffer& b) const {
  const std::int64_t parts = frozen_parts(stage_);
  std::vector<std::int64_t> elements;
  if (b.kind == StateKind::frozen && stage_.sharded_weights())
    for (const Unit& u : layout_.units)
      elements.push_back(stage::shard_of(u.frozen_elements, parts));
  else if (b.kind == StateKind::quantised)
    for (int l = 0; l < stage_.layers; ++l)
      elements.push_back(stage::shard_of(
          layout_.units[static_cast<std::size_t>(l)].quantised_bytes, parts));
  else if (b.kind == StateKind::host_gradients && stage_.offloads_params())
    for (const program::Span& s : layout_.spans) elements.push_back(s.shard_elements);
  return elements;
}

void StageLowering::declare_state() {
  class_.sharded_weights = stage_.sharded_weights() || stage_.apart;
  class_.sharded_frozen = stage_.sharded_weights() && !stage_.apart;
  const stage::State state = state_of(stage::StateQuestion{
      .policy = stage_.policy, .recipe = stage_.recipe, .optimizer = stage_.optimizer,
      .strategy = *stage_.strategy, .reduce = stage_.reduce_type(),
      .sizes = sizes_of(layout_, frozen_parts(stage_)), .layers = stage_.layers,
      .boundary = stage_.graph->boundary_elements(0) * stage_.samples,
      .training = stage_.training(), .last = stage_.last, .serves = stage_.serves,
      .apart = stage_.apart, .norm = takes_norm(*stage_.job),
      .scales_loss = scales_loss(*stage_.job)});
  for (const stage::StateBuffer& b : state) declare(b);
  class_.weights_buffer = state_.weights;
  class_.frozen_buffer = state_.frozen;
  class_.quantised_buffer = state_.quantised;
  class_.loss_buffer = state_.loss;
  class_.master_buffer = master_;
}

void StageLowering::declare(const stage::StateBuffer& of) {
  program::Buffer b;
  b.name = name_of(of);
  b.term = of.term;
  b.type = of.type;
  b.persistent = true;
  b.host = of.host;
  b.elements = instances_of(of);
  if (b.elements.empty())
    b.elements = {of.elements};
  else
    b.extent = static_cast<int>(b.elements.size());
  if (const program::RankSchedule& s = class_.schedule;
      of.kind == StateKind::weights && s.delay > 0) {
    b.slots = static_cast<int>(s.delay) + 1;
    b.share = s.micro_batches;
  }
  if (of.kind == StateKind::weights_f8)
    b.base = stage_.sharded_weights() ? layout_.f8_shard_offset : layout_.f8_offset;
  const std::uint16_t at = builder_.buffer(std::move(b));
  switch (of.kind) {
    case StateKind::weights: state_.weights = at; break;
    case StateKind::weights_f8: state_.f8 = at; break;
    case StateKind::frozen: state_.frozen = at; break;
    case StateKind::quantised: state_.quantised = at; break;
    case StateKind::gradients: state_.gradients = at; break;
    case StateKind::loss: state_.loss = at; break;
    case StateKind::norm: norm_ = at; break;
    case StateKind::loss_scale: class_.scale_buffer = at; break;
    case StateKind::server_weights: class_.server_weights_buffer = at; break;
    case StateKind::master: master_ = at; break;
    case StateKind::moment: slot_buffers_.push_back(at); break;
    case StateKind::moment_scales: scale_buffers_.push_back(at); break;
    case StateKind::host_weights: host_weights_ = at; break;
    case StateKind::host_gradients: host_gradients_ = at; break;
    // Held, and read by no action.
    case StateKind::other_order:
    case StateKind::frozen_ends:
    case StateKind::others_constants:
    case StateKind::stand_ins:
    case StateKind::wide_gradients:
    case StateKind::gradient_copies:
    case StateKind::held_inputs: break;
  }
}

}  // namespace planner::lowering
