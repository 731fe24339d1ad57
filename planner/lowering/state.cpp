// Persistent state of a stage: weights, gradients, optimizer, the loss scalar.
#include <algorithm>

#include "planner/lowering/stage_lowering.hpp"

namespace planner::lowering {

std::uint16_t StageLowering::state_buffer(const char* name, program::Term term, core::DType type,
                                          std::int64_t elements, bool host) {
  if (elements == 0) return program::kNone;
  program::Buffer b;
  b.name = name;
  b.term = term;
  b.type = type;
  b.elements = {elements};
  b.persistent = true;
  b.host = host;
  return builder_.buffer(std::move(b));
}

// Frozen parameters whole, or under ZeRO-3 this rank's shard of each unit; quantised ones per
// layer.
void StageLowering::declare_frozen() {
  using program::Term;
  const bool sharded = stage_.sharded_weights();
  program::Buffer b;
  b.term = Term::weights;
  b.persistent = true;
  b.host = stage_.offloads_params();
  if (!sharded) {
    state_.frozen =
        state_buffer("frozen", Term::weights, stage_.recipe.compute, layout_.frozen_elements);
  } else if (layout_.frozen_elements > 0) {
    b.name = "frozen";
    b.type = stage_.recipe.compute;
    b.extent = static_cast<int>(layout_.units.size());
    for (const Unit& u : layout_.units)
      b.elements.push_back(program::padded(u.frozen_elements, stage_.parts()) / stage_.parts());
    state_.frozen = builder_.buffer(b);
  }
  class_.sharded_frozen = sharded;
  if (stage_.quantization == Quantization::none) return;
  b.name = "quantised";
  b.type = core::DType::u8;
  b.extent = stage_.layers;
  b.elements.clear();
  const std::int64_t parts = sharded ? stage_.parts() : 1;
  for (int l = 0; l < stage_.layers; ++l)
    b.elements.push_back(
        program::padded(layout_.units[static_cast<std::size_t>(l)].quantised_bytes, parts) / parts);
  class_.quantised_buffer = state_.quantised = builder_.buffer(std::move(b));
  if (!stage::keeps_whole_scales(stage_.policy, *stage_.strategy)) return;
  std::int64_t beside = 0;             // the shards of all others
  for (const Unit& u : layout_.units) beside += u.decoding_bytes - u.decoding_bytes / parts;
  state_buffer("quantised.scales", Term::weights, core::DType::u8, beside);
}

std::int64_t StageLowering::stand_in_elements() const {
  std::int64_t layer = 0, other = 0;
  std::int64_t experts = 0;
  for (const Unit& u : layout_.units) {
    std::int64_t& most = u.expert_ways > 1 ? experts : u.layer >= 0 ? layer : other;
    most = std::max(most, u.elements);
  }
  return stage::stand_in_elements(layer, experts, other, stage_.last);
}

// What the framework's reducer, passes and tensor ranks hold all the time; trained: elements.
void StageLowering::declare_held(std::int64_t trained) {
  using program::Term;
  const Strategy& s = *stage_.strategy;
  if (const std::int64_t copies = stage::gradient_copies(stage_.policy, s); copies > 0)
    state_buffer("gradients.copies", Term::gradients, stage_.recipe.weight, copies * trained);
  if (const std::int64_t held = stage::inputs_held(stage_.policy, s, stage_.layers); held > 0)
    state_buffer("inputs.held", Term::activations, stage_.recipe.activation,
                 held * stage_.graph->boundary_elements(0) * stage_.samples);
}

void StageLowering::declare_state() {
  using program::Term;
  const Recipe& r = stage_.recipe;
  const std::int64_t all = layout_.trained_elements, shard = layout_.shard_elements;
  const bool weight_shard = stage_.sharded_weights() || stage_.apart;
  state_.weights = state_buffer("weights", Term::weights, r.weight, weight_shard ? shard : all,
                                stage_.offloads_params());
  if (!stage_.apart) declare_frozen();
  class_.weights_buffer = state_.weights;
  if (const program::Schedule& s = class_.schedule; s.delay > 0 && all > 0) {
    class_.buffers[state_.weights].slots = static_cast<int>(s.delay) + 1;
    class_.buffers[state_.weights].share = s.micro_batches;
  }
  class_.frozen_buffer = state_.frozen;
  class_.sharded_weights = weight_shard;
  if (!stage_.training()) return;
  if (stage_.policy.stand_ins)
    state_buffer("stand_ins", Term::gradients, r.compute, stand_in_elements());
  if (stage::keeps_wide_gradients(stage_.policy, *stage_.strategy) && !stage_.apart)
    state_buffer(program::kWideGradients, Term::gradients, core::DType::f32, all);
  if (!stage_.apart) declare_held(all);
  if (!stage_.apart)
    state_.gradients = state_buffer("gradients", Term::gradients, r.gradient,
                                    stage_.sharded_gradients() ? shard : all,
                                    stage_.offloads_params());
  if (stage_.last && !stage_.apart)
    state_.loss = state_buffer("loss", Term::logits, core::DType::f64, 1);
  class_.loss_buffer = state_.loss;
  if (stage_.servers() && !stage_.serves) return;  // the servers keep the optimizer [C5]
  if (serves_beside())
    class_.server_weights_buffer =
        state_buffer("server.weights", Term::weights, r.weight, shard);

  const bool host = stage_.offloads_optimizer();
  if (r.has_master)
    master_ = state_buffer("optimizer.master", Term::optimizer, r.master, shard, host);
  class_.master_buffer = master_;
  const Optimizer& o = stage_.optimizer;
  for (int i = 0; i < o.first_moments + o.second_moments && shard > 0; ++i) {
    const bool first = i < o.first_moments;
    const std::string slot = (first ? "optimizer.m" : "optimizer.v") +
                             std::to_string(first ? i : i - o.first_moments);
    const core::DType type = o.quantised ? core::DType::u8
                             : first     ? r.first_moment
                                         : r.second_moment;
    slot_buffers_.push_back(state_buffer(slot.c_str(), Term::optimizer, type, shard, host));
    if (o.quantised)
      scale_buffers_.push_back(state_buffer((slot + ".scale").c_str(), Term::optimizer,
                                            core::DType::f32, layout_.scale_elements, host));
  }
}

// What the host's update reads and writes: of an offloaded optimizer the shards of gradients and
// weights; of offloaded parameters each unit's gradient as it arrives, before it is added.
void StageLowering::declare_offloaded() {
  if (!stage_.training() || !stage_.offloads_optimizer() || layout_.shard_elements == 0) return;
  const Recipe& r = stage_.recipe;
  if (!stage_.offloads_params()) {
    host_weights_ = state_buffer("offload.weights", program::Term::weights, r.weight,
                                 layout_.shard_elements, true);
    host_gradients_ = state_buffer("offload.gradients", program::Term::gradients, r.gradient,
                                   layout_.shard_elements, true);
    return;
  }
  program::Buffer b;
  b.name = "offload.gradients";
  b.term = program::Term::gradients;
  b.type = stage_.reduce_type();
  b.extent = static_cast<int>(layout_.spans.size());
  for (const program::Span& s : layout_.spans) b.elements.push_back(s.shard_elements);
  b.persistent = b.host = true;
  host_gradients_ = builder_.buffer(std::move(b));
}

}  // namespace planner::lowering
