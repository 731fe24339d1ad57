// Parameter servers [C2, C3, C5, C9]: what workers push and pull, and what servers do between.
#include "planner/lowering/stage_lowering.hpp"

namespace planner::lowering {

using program::Collective;
using program::EventRef;
using program::Range;
using program::Traffic;
using program::Transfer;
using program::Wait;

// A worker's push and pull of one span, and on servers that wait for all of their workers the sum,
// the update and the replies between.
std::uint16_t StageLowering::server_reduce_block() {
  const Wait ready{layer_event(ready_), false};
  const EventRef pulled = layer_event(pulled_);
  const View gradients = ranged(constant_view(state_.gradients), Range::span);
  const int turn = asynchronous() ? 1 : 0;
  const std::uint16_t up = builder_.transfer(served(Traffic::gradients, turn));
  const std::uint16_t down = builder_.transfer(served(Traffic::parameters, turn));
  // All on one stream, in this order: pushes are buffered, so no rank waits for one that waits for
  // it.
  const bool serves = stage_.serves && !asynchronous();
  if (serves) builder_.alloc(layer_view(sum_));
  builder_.emit({.kind = ActionKind::push,
                 .stream = Stream::gradient,
                 .args = {gradients},
                 .op = up,
                 .waits = {ready}});
  if (serves) {
    builder_.emit({.kind = ActionKind::serve_push, .stream = Stream::gradient,
                   .args = {gradients, layer_view(sum_)}, .op = up});
    emit_update(Stream::gradient, layer_view(sum_));
    builder_.emit({.kind = ActionKind::serve_pull, .stream = Stream::gradient,
                   .args = {weight_range()}, .op = down});
  }
  builder_.emit({.kind = ActionKind::pull, .stream = Stream::gradient,
                 .args = {ranged(constant_view(state_.weights), Range::span)}, .op = down,
                 .signal = &pulled});
  return builder_.end();
}

// Pushes carry gradients, replies weights. turn: Transfer::tag (sim/program/turns.hpp).
Transfer StageLowering::served(Traffic what, int turn) const {
  const bool gradients = what == Traffic::gradients;
  Transfer t = over(program::Group::data, Collective::parameter_server,
                    program::Algorithm::parameter_server, what,
                    gradients ? stage_.recipe.gradient : stage_.recipe.weight);
  t.tag = static_cast<std::uint16_t>(turn);
  return t;
}

// A server apart from what workers do: a span of all of them, or of the worker whose turn it is.
std::uint16_t StageLowering::server_step_block(Stream stream, int turn) {
  const bool lasts = serves_beside();
  const View sum = lasts ? constant_view(sum_) : layer_view(sum_);
  builder_.begin(turn > 0 ? "server_turn" : "server_step");
  if (!lasts) builder_.alloc(sum);
  builder_.emit({.kind = ActionKind::serve_push, .stream = stream, .args = {sum},
                 .op = builder_.transfer(served(Traffic::gradients, turn))});
  emit_update(stream, sum);
  builder_.emit({.kind = ActionKind::serve_pull, .stream = stream, .args = {weight_range()},
                 .op = builder_.transfer(served(Traffic::parameters, turn))});
  if (!lasts) builder_.free(sum);
  return builder_.end();
}

// All that a server answers in a step: span by span, of each worker in turn or of all at once.
void StageLowering::build_turns(program::Routine& routine, Stream stream) {
  std::vector<std::uint16_t> turns;
  const int first = asynchronous() ? 1 : 0, last = asynchronous() ? stage_.mesh.data : 0;
  for (int turn = first; turn <= last; ++turn) turns.push_back(server_step_block(stream, turn));
  for (int s = 0; s < static_cast<int>(layout_.spans.size()); ++s)
    if (layout_.spans[static_cast<std::size_t>(s)].elements > 0)
      for (const std::uint16_t turn : turns) call(routine, turn, s);
}

}  // namespace planner::lowering
