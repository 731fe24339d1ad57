// Units: weights that kernels read from a cast or gathered copy, and gradients that exist whole for
// one unit at a time (ZeRO-2, 3). Both copies are communication memory. Calls carry the unit as
// their layer; unit u < layers is local layer u.
#include "planner/lowering/stage_lowering.hpp"

namespace planner::lowering {

using program::Range;

void StageLowering::declare_units() {
  const int count = static_cast<int>(layout_.units.size());
  program::Buffer b;
  b.term = program::Term::communication;
  b.extent = count;
  for (const Unit& u : layout_.units) b.elements.push_back(u.elements);
  if (stage_.materialises() && layout_.trained_elements > 0 && !stage_.apart) {
    state_.unit_weights = declare_copies(b, "unit.weights", false);
    if (stage_.policy.weights_f8) state_.unit_f8 = declare_copies(b, "unit.weights.f8", true);
  }
  if (stage_.sharded_weights()) declare_gathered_frozen();
  if (stage_.offloads_params()) declare_offloaded_shards();
  if (stage_.sharded_weights() || state_.unit_weights != program::kNone) {
    gathered_ = builder_.event("gathered", count);
    may_gather_ = builder_.event("may_gather", 1);
  }
  if (stage_.sharded_gradients() && stage_.training()) {
    b.name = "unit.gradients";
    b.type = stage_.recipe.gradient;
    state_.unit_gradients = builder_.buffer(b);
  }
}

// Of the units that kernels read in 8 bits, or of the others.
std::uint16_t StageLowering::declare_copies(program::Buffer like, const char* name, bool f8) {
  like.name = name;
  like.type = stage::read_type(stage_.recipe, f8);
  for (std::size_t u = 0; u < layout_.units.size(); ++u)
    if (layout_.units[u].f8 != f8) like.elements[u] = 0;
  return builder_.buffer(std::move(like));
}

// ZeRO-3: frozen parameters are gathered like trained ones, codes as they are.
void StageLowering::declare_gathered_frozen() {
  const std::int64_t parts = stage_.parts();
  program::Buffer b;
  b.term = program::Term::communication;
  if (state_.frozen != program::kNone) {
    b.name = "unit.frozen";
    b.type = stage_.recipe.compute;
    b.extent = static_cast<int>(layout_.units.size());
    for (const Unit& u : layout_.units)
      b.elements.push_back(program::padded(u.frozen_elements, parts));
    state_.unit_frozen = builder_.buffer(b);
  }
  if (state_.quantised == program::kNone) return;
  b.name = "unit.quantised";
  b.type = core::DType::u8;
  b.extent = stage_.layers;
  b.elements.clear();
  for (int l = 0; l < stage_.layers; ++l)
    b.elements.push_back(
        program::padded(layout_.units[static_cast<std::size_t>(l)].quantised_bytes, parts));
  state_.unit_quantised = builder_.buffer(std::move(b));
}

// The gathers read shards on the device.
void StageLowering::declare_offloaded_shards() {
  const auto shard_of = [&](std::uint16_t whole, const char* name) -> std::uint16_t {
    if (whole == program::kNone) return program::kNone;
    program::Buffer b = class_.buffers[whole];
    b.name = name;
    for (std::size_t u = 0; u < b.elements.size(); ++u) {
      const int parts = stage_.parts(layout_.units[u].expert_ways);
      b.elements[u] = program::padded(b.elements[u], parts) / parts;
    }
    return builder_.buffer(std::move(b));
  };
  state_.shard_weights = shard_of(state_.unit_weights, "unit.weights.shard");
  if (state_.shard_weights != program::kNone)
    class_.buffers[state_.shard_weights].type = stage_.recipe.weight;
  state_.shard_frozen = shard_of(state_.unit_frozen, "unit.frozen.shard");
  state_.shard_quantised = shard_of(state_.unit_quantised, "unit.quantised.shard");
}

int StageLowering::copies_of(int unit) const {
  const Unit& u = layout_.units[static_cast<std::size_t>(unit)];
  int copies = 0;
  if (state_.unit_weights != program::kNone && u.elements > 0)
    copies |= u.f8 ? kF8Copy : kTrainedCopy;
  if (state_.unit_frozen != program::kNone && u.frozen_elements > 0) copies |= kFrozenCopy;
  if (state_.unit_quantised != program::kNone && u.quantised_bytes > 0) copies |= kQuantisedCopy;
  return copies;
}

// On the parameter stream, which has waited for the allocations; `last` tells that all is there.
void StageLowering::gather(View own, View copy, bool experts, bool last) {
  const program::EventRef may = single_event(may_gather_), done = layer_event(gathered_);
  const program::Transfer t =
      over(shard_group(experts), program::Collective::all_gather, program::Algorithm::ring,
           program::Traffic::parameters, class_.buffers[copy.buffer].type);
  builder_.emit({.kind = ActionKind::collective,
                 .stream = gather_stream(),
                 .args = {own, copy},
                 .op = builder_.transfer(t),
                 .waits = {{may, false}},
                 .signal = last ? &done : nullptr});
}

// Between host and device.
void StageLowering::copy(Stream stream, View from, View to, std::vector<program::Wait> waits,
                         const program::EventRef* signal) {
  const program::Transfer t =
      over(program::Group::shard, program::Collective::copy, program::Algorithm::direct,
           program::Traffic::offload, class_.buffers[to.buffer].type);
  builder_.emit({.kind = ActionKind::copy, .stream = stream, .args = {from, to},
                 .op = builder_.transfer(t), .waits = std::move(waits), .signal = signal});
}

// Where the gathers read `own`: there, or offloaded in the shard on the device, to which it is
// copied on their stream.
View StageLowering::shard_on_device(View own, std::uint16_t shard) {
  if (shard == program::kNone) return own;
  copy(gather_stream(), own, layer_view(shard), {{single_event(may_gather_), false}});
  return layer_view(shard);
}

// ZeRO-3: this rank's shard, cast where the recipe asks, then all-gathered on its own stream, which
// may start once the compute stream has come as far as the allocation. Otherwise: a cast of the
// unit's weights on the compute stream.
std::uint16_t StageLowering::materialise_block(int unit) {
  const Unit& u = layout_.units[static_cast<std::size_t>(unit)];
  const bool layer = u.layer >= 0, experts = u.expert_ways > 1;
  const int copies = copies_of(unit);
  const auto kind_of_layer = [&] { return 1 + static_cast<int>(stage_.template_of(u.layer)); };
  const int kind = stage_.sharded_weights() ? copies : layer ? kind_of_layer() : -1 - unit;
  const std::pair key{kind, experts};
  const auto [at, fresh] = materialise_blocks_.try_emplace(key, program::kNone);
  if (!fresh) return at->second;
  if (u.f8) return at->second = gather_f8_block(experts);
  const View copy = layer_view(state_.unit_weights);
  builder_.begin("materialise");
  if ((copies & kTrainedCopy) != 0) builder_.alloc(copy);
  if (!stage_.sharded_weights()) {
    const View from = ranged(constant_view(state_.weights),
                             layer ? Range::layer_parameters : Range::fixed,
                             layer ? 0 : u.offset, u.elements);
    builder_.emit({.kind = ActionKind::cast, .args = {from, copy}});
    return at->second = builder_.end();
  }
  if ((copies & kFrozenCopy) != 0) builder_.alloc(layer_view(state_.unit_frozen));
  if ((copies & kQuantisedCopy) != 0) builder_.alloc(layer_view(state_.unit_quantised));
  if (stage_.offloads_params())
    for_shards(copies, [&](std::uint16_t shard) { builder_.alloc(layer_view(shard)); });
  View own = ranged(constant_view(state_.weights), Range::span_shard);
  const bool casts =
      (copies & kTrainedCopy) != 0 && stage_.recipe.weight != stage_.recipe.compute;
  const View chunk = ranged(copy, Range::unit_chunk);
  if (casts && !stage_.offloads_params())
    builder_.emit({.kind = ActionKind::cast, .args = {own, chunk}});
  const program::EventRef may = single_event(may_gather_);
  builder_.fence(Stream::compute, {}, &may);
  if ((copies & kTrainedCopy) != 0) {
    own = shard_on_device(own, state_.shard_weights);
    if (casts && stage_.offloads_params())
      builder_.emit({.kind = ActionKind::cast, .stream = gather_stream(), .args = {own, chunk}});
    gather(casts ? chunk : own, copy, experts, copies == kTrainedCopy);
  }
  if ((copies & kFrozenCopy) != 0)
    gather(shard_on_device(layer_view(state_.frozen), state_.shard_frozen),
           layer_view(state_.unit_frozen), false, copies < kQuantisedCopy);
  if ((copies & kQuantisedCopy) != 0)
    gather(shard_on_device(layer_view(state_.quantised), state_.shard_quantised),
           layer_view(state_.unit_quantised), false, true);
  return at->second = builder_.end();
}

// The shard's codes, or those that it is cast to here.
std::uint16_t StageLowering::gather_f8_block(bool experts) {
  const View copy = layer_view(state_.unit_f8);
  const bool stored = state_.f8 != program::kNone;
  View own = ranged(constant_view(stored ? state_.f8 : state_.weights), Range::span_shard);
  builder_.begin("materialise");
  builder_.alloc(copy);
  if (!stored) {
    const View chunk = ranged(copy, Range::unit_chunk);
    builder_.emit({.kind = ActionKind::cast, .args = {own, chunk}});
    own = chunk;
  }
  const program::EventRef may = single_event(may_gather_);
  builder_.fence(Stream::compute, {}, &may);
  gather(own, copy, experts, true);
  return builder_.end();
}

std::uint16_t StageLowering::await_block() {
  const auto [at, fresh] = blocks_.try_emplace("await", program::kNone);
  if (!fresh || !stage_.sharded_weights()) return at->second;
  builder_.begin("await");
  builder_.fence(Stream::compute, {{layer_event(gathered_), false}}, nullptr);
  return at->second = builder_.end();
}

std::uint16_t StageLowering::release_block(int unit) {
  const int copies = copies_of(unit);
  const auto [at, fresh] = blocks_.try_emplace("release" + std::to_string(copies), program::kNone);
  if (!fresh) return at->second;
  builder_.begin("release");
  if ((copies & kTrainedCopy) != 0) builder_.free(layer_view(state_.unit_weights));
  if ((copies & kF8Copy) != 0) builder_.free(layer_view(state_.unit_f8));
  if ((copies & kFrozenCopy) != 0) builder_.free(layer_view(state_.unit_frozen));
  if ((copies & kQuantisedCopy) != 0) builder_.free(layer_view(state_.unit_quantised));
  if (stage_.offloads_params())
    for_shards(copies, [&](std::uint16_t shard) { builder_.free(layer_view(shard)); });
  return at->second = builder_.end();
}

std::uint16_t StageLowering::open_gradient_block() {
  const auto [at, fresh] = blocks_.try_emplace("open_gradient", program::kNone);
  if (!fresh) return at->second;
  builder_.begin("open_gradient");
  builder_.alloc(layer_view(state_.unit_gradients));
  builder_.emit({.kind = ActionKind::zero, .args = {layer_view(state_.unit_gradients)}});
  return at->second = builder_.end();
}

std::uint16_t StageLowering::close_gradient_block() {
  const auto [at, fresh] = blocks_.try_emplace("close_gradient", program::kNone);
  if (!fresh) return at->second;
  builder_.begin("close_gradient");
  builder_.fence(Stream::compute, {{layer_event(reduced_), false}}, nullptr);
  builder_.free(layer_view(state_.unit_gradients));
  if (staging_ != program::kNone) builder_.free(layer_view(staging_));
  return at->second = builder_.end();
}

// What tensor ranks store alike and have a part of the gradient of each (norms and biases under
// sequence parallelism, one side of each adapter): summed over them, once a step, or where shards
// are all that stays (ZeRO-2, 3) before each micro-batch's reduction.
std::uint16_t StageLowering::partial_block(int unit) {
  const Unit& u = layout_.units[static_cast<std::size_t>(unit)];
  if (u.partial == 0) return program::kNone;
  const bool layer = unit < stage_.layers;
  std::string key = "partial ";
  key += layer ? std::to_string(stage_.template_of(unit)) : u.name;
  const auto [at, fresh] = blocks_.try_emplace(key, program::kNone);
  if (!fresh) return at->second;
  const program::Transfer t =
      over(program::Group::tensor, program::Collective::all_reduce, program::Algorithm::ring,
           stage_.strategy->sequence_parallel ? program::Traffic::sequence
                                              : program::Traffic::tensor,
           stage_.recipe.gradient);
  const View part =
      stage_.sharded_gradients()
          ? ranged(layer_view(state_.unit_gradients), Range::fixed, 0, u.partial)
          : ranged(constant_view(state_.gradients), layer ? Range::layer_parameters : Range::fixed,
                   layer ? 0 : u.offset, u.partial);
  builder_.begin("reduce_partial");
  builder_.emit({.kind = ActionKind::collective, .args = {part}, .op = builder_.transfer(t)});
  return blocks_[key] = builder_.end();
}

}  // namespace planner::lowering
