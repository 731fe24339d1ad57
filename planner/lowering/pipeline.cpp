// Messages between pipeline stages, and the two ends of the backward pass.
#include "planner/lowering/stage_lowering.hpp"

namespace planner::lowering {

using program::EventRef;

static constexpr std::uint16_t kForwardTag = 0, kBackwardTag = 1;

static program::Transfer message(program::Group peer, std::uint16_t tag, core::DType type) {
  program::Transfer t;
  t.collective = program::Collective::send;
  t.algorithm = program::Algorithm::direct;
  t.what = program::Traffic::pipeline;
  t.group = peer;
  t.wire_type = type;
  t.tag = tag;
  return t;
}

// Activations from the previous stage, or their gradients from the next one: into new storage, on
// the receive stream, once compute has come to the allocation.
std::uint16_t StageLowering::receive_block(bool gradient) {
  const char* name = gradient ? "receive_gradient" : "receive_input";
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  const View into = gradient ? d_view(stage_.layers) : constant_view(x_);
  const EventRef may = single_event(builder_.event(std::string("may_") + name, 1));
  const EventRef received = single_event(builder_.event(name, 1));
  const auto peer = gradient ? program::Group::next : program::Group::previous;
  builder_.begin(name);
  if (gradient && keeps_output(stage_.layers - 1))  // backward frees what was sent
    builder_.fence(Stream::compute, {{single_event(sent_output_), false}}, nullptr);
  builder_.alloc(into);
  builder_.fence(Stream::compute, {}, &may);
  builder_.emit({.kind = ActionKind::receive, .stream = Stream::receive, .args = {into},
                 .op = builder_.transfer(message(peer, gradient ? kBackwardTag : kForwardTag,
                                                 stage_.recipe.activation)),
                 .waits = {{may, false}}, .signal = &received});
  builder_.fence(Stream::compute, {{received, false}}, nullptr);
  return blocks_[name] = builder_.end();
}

std::uint16_t StageLowering::send_block(bool gradient) {
  const char* name = gradient ? "send_gradient" : "send_output";
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  const View from = gradient ? d_view(0) : output_view();
  const EventRef may = single_event(builder_.event(std::string("may_") + name, 1));
  const EventRef sent = single_event(gradient ? sent_gradient_ : sent_output_);
  const auto peer = gradient ? program::Group::previous : program::Group::next;
  builder_.begin(name);
  builder_.fence(Stream::compute, {}, &may);
  builder_.emit({.kind = ActionKind::send, .stream = Stream::send, .args = {from},
                 .op = builder_.transfer(message(peer, gradient ? kBackwardTag : kForwardTag,
                                                 stage_.recipe.activation)),
                 .waits = {{may, false}}, .signal = &sent});
  return blocks_[name] = builder_.end();
}

// What was sent stays until the next pass of its kind begins, so that the message overlaps the
// compute between; `final`: the last micro-batch's, when the step ends.
std::uint16_t StageLowering::release_sent_block(bool gradient, bool final) {
  if (!gradient && output_view().buffer != stage_output_) return program::kNone;
  const std::string name = std::string(gradient ? "release_gradient" : "release_output") +
                           (final ? "_last" : "");
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  View sent = gradient ? d_view(0) : output_view();
  EventRef event = single_event(gradient ? sent_gradient_ : sent_output_);
  const auto flags = static_cast<std::uint8_t>(final ? 0 : program::kSkipFirstMicroBatch);
  if (!final) {
    sent = previous_micro_batch(sent);
    event.micro_batch_shift = -1;
  }
  builder_.begin(name);
  builder_.fence(Stream::compute, {{event, false}}, nullptr, flags);
  builder_.free(sent, flags);
  return blocks_[name] = builder_.end();
}

std::uint16_t StageLowering::prologue_backward_block() {
  const auto [at, fresh] = blocks_.try_emplace("prologue.backward", program::kNone);
  if (!fresh) return at->second;
  builder_.begin("prologue.backward");
  Boundary b;
  b.input = b.output = constant_view(x_);
  b.d_output = d_view(0);
  if (prologue_->trains()) prologue_->backward(b);  // frozen: layer 0 made no gradient
  return blocks_["prologue.backward"] = builder_.end();
}

}  // namespace planner::lowering
