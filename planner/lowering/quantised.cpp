// Frozen matrices that are stored as codes: decoded into the compute type right before the action
// that reads them, released right after it.
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

void SegmentEmitter::declare_decoded() {
  decoded_.assign(segment_.parameters.size(), program::kNone);
  for (std::size_t i = 0; i < decoded_.size(); ++i) {
    if (!places_[i].quantised) continue;
    program::Buffer b;
    b.name = segment_.name + "." + segment_.parameters[i].name + ".decoded";
    b.term = program::Term::communication;
    b.type = stage_.recipe.compute;
    b.elements = {segment_.parameters[i].elements};
    decoded_[i] = builder_.buffer(std::move(b));
  }
}

View SegmentEmitter::decoded_view(models::ParameterIndex p) const {
  return constant_view(decoded_[static_cast<std::size_t>(p)]);
}

void SegmentEmitter::decode(const Op& op) {
  for (const models::ParameterIndex p : op.parameters) {
    if (!quantised(p)) continue;
    const auto& shape = segment_.parameters[static_cast<std::size_t>(p)].shape;
    const View codes = ranged(
        layer_view(stage_.sharded_weights() ? state_.unit_quantised : state_.quantised),
        program::Range::fixed, places_[static_cast<std::size_t>(p)].offset,
        quantised_bytes(stage_.quantization, shape).value());
    builder_.alloc(decoded_view(p));
    builder_.emit({.kind = ActionKind::dequantise, .args = {codes, decoded_view(p)}});
  }
}

void SegmentEmitter::release_decoded(const Op& op) {
  for (const models::ParameterIndex p : op.parameters)
    if (quantised(p)) builder_.free(decoded_view(p));
}

}  // namespace planner::lowering
