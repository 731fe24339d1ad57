// Messages between the parts of a cut graph: a value goes to the part that reads it, its gradient
// comes back, each under a tag of its own. Both parts take operators in one order (that of the
// whole graph, and back), so what a rank waits for depends on earlier operators alone.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;
using program::EventRef;

static constexpr std::uint16_t kValue = 0, kGradient = 1;  // of a tag: 2 x number of the value

EventRef SegmentEmitter::cut_event(const std::string& name) {
  const auto [at, fresh] = cut_events_.try_emplace(name, program::kNone);
  if (fresh) at->second = builder_.event(name, 1);
  return single_event(at->second);
}

program::Transfer SegmentEmitter::cut_transfer(const Op& op, std::uint16_t what) const {
  program::Transfer t;
  t.collective = program::Collective::send;
  t.algorithm = program::Algorithm::direct;
  t.what = program::Traffic::pipeline;
  t.group = stage_.index == 0 ? program::Group::next : program::Group::previous;
  t.wire_type = stage_.recipe.activation;
  t.tag = static_cast<std::uint16_t>(2 * op.k + what);
  return t;
}

// Leaves as soon as compute has come here; what it sends stays until `sent` is waited for.
void SegmentEmitter::emit_cut_send(const Op& op, View from, std::uint16_t what) {
  const std::string name = op.name + (what == kValue ? "" : ".gradient");
  const EventRef may = cut_event("may_" + name), sent = cut_event(name);
  builder_.fence(Stream::compute, {}, &may);
  builder_.emit({.kind = ActionKind::send, .stream = Stream::send, .args = {from},
                 .op = builder_.transfer(cut_transfer(op, what)), .waits = {{may, false}},
                 .signal = &sent});
}

void SegmentEmitter::emit_cut_receive(const Op& op, View into, std::uint16_t what) {
  const std::string name = op.name + (what == kValue ? "" : ".gradient");
  const EventRef may = cut_event("may_" + name), received = cut_event(name);
  builder_.fence(Stream::compute, {}, &may);
  builder_.emit({.kind = ActionKind::receive, .stream = Stream::receive, .args = {into},
                 .op = builder_.transfer(cut_transfer(op, what)), .waits = {{may, false}},
                 .signal = &received});
  builder_.fence(Stream::compute, {{received, false}}, nullptr);
}

void SegmentEmitter::forward_cut(const Op& op) {
  if (op.kind == OpKind::cut_send)
    return emit_cut_send(op, ClassBuilder::whole(tensor_view(op.inputs[0])), kValue);
  if (op.kind == OpKind::cut_receive)
    return emit_cut_receive(op, ClassBuilder::whole(tensor_view(op.outputs[0])), kValue);
  for (auto v : order_) {  // cut_sent
    const Op& other = segment_.graph[v];
    if (other.kind == OpKind::cut_send)
      builder_.fence(Stream::compute, {{cut_event(other.name), false}}, nullptr);
  }
}

// What the other part adds to the gradient of a value that went there.
void SegmentEmitter::backward_cut_send(const Op& op) {
  const TensorIndex x = op.inputs[0];
  const bool first = storage_of(x) < 0;
  if (first) alias_gradient(x, new_storage(x));
  const View own = view_of(storage_of(x));
  if (first) return emit_cut_receive(op, own, kGradient);
  const View part =
      gradient_buffer(part_buffers_[static_cast<std::size_t>(x)], x, ".part_d_");
  builder_.alloc(part);
  emit_cut_receive(op, part, kGradient);
  builder_.emit({.kind = ActionKind::accumulate, .args = {part, own}});
  builder_.free(part);
}

void SegmentEmitter::backward_cut_receive(const Op& op) {
  const int dy = storage_of(op.outputs[0]);
  PLANNER_CHECK(dy >= 0, "a value that a part reads has a gradient");
  emit_cut_send(op, view_of(dy), kGradient);
  cut_sent_.emplace_back(cut_event(op.name + ".gradient"), dy);
}

// Gradients that went back may go once they have arrived.
void SegmentEmitter::finish_cut() {
  for (const auto& [sent, storage] : cut_sent_) {
    builder_.fence(Stream::compute, {{sent, false}}, nullptr);
    consume(storage);
  }
  cut_sent_.clear();
}

}  // namespace planner::lowering
