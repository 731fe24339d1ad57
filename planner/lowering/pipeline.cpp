// Messages between pipeline stages, and the two ends of the backward pass.
#include "planner/lowering/stage_lowering.hpp"

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::lowering {

using program::EventRef;

static std::string named(const char* name, int chunk) {
  return chunk == 0 ? name : name + std::string(".") + std::to_string(chunk);
}

static EventRef of_chunk(std::uint16_t event, int chunk) {
  return {.event = event, .instance = static_cast<std::uint16_t>(chunk)};
}

// The bottom of the V: chunk 1 of the last rank follows its chunk 0.
bool StageLowering::hands_on(int c) const {
  return in_v(stage_.strategy->schedule) && c == 0 &&
         stage_.index == stage_.mesh.pipeline - 1;
}
bool StageLowering::taken_over(int c) const { return c > 0 && hands_on(c - 1); }

bool StageLowering::releases_sent_late() const {
  return stage_.training() && releases_late(*stage_.strategy);
}

bool StageLowering::sends(int c, bool gradient) const {
  if (stage_.cut) return false;        // its operators do
  if (gradient) return stage_.training() && !chunk(c).first && !taken_over(c);
  return !chunk(c).last && !hands_on(c);
}

// The arms of the V meet in opposite orders on neighbouring ranks: each has streams of its own, and
// so is a pipeline of its own.
Stream StageLowering::message_stream(int c, bool sends) const {
  if (arm(c) == 0) return sends ? Stream::send : Stream::receive;
  return sends ? Stream::send_back : Stream::receive_back;
}

// What a chunk exchanges with the one after it (its output, and that one's gradient) or before it.
program::Transfer StageLowering::message(int c, bool gradient, bool sends) const {
  const bool after = gradient != sends, upwards = arm(c) == 1;
  const int receiver = chunk(c).place + (after ? 1 : 0);  // of the activations
  program::Transfer t;
  t.collective = program::Collective::send;
  t.algorithm = program::Algorithm::direct;
  t.what = program::Traffic::pipeline;
  t.group = after != upwards ? program::Group::next : program::Group::previous;
  t.wire_type = stage_.recipe.activation;
  t.tag = static_cast<std::uint16_t>(2 * (receiver / stage_.mesh.pipeline) + (gradient ? 1 : 0));
  return t;
}

// One buffer for what a pass of this kind receives next, of any chunk of an arm (declared at the
// first need). A message into it waits for the pass before to have copied its own out, and for
// nothing that the pass allocates: so it travels while that pass computes.
View StageLowering::landing_view(int c, bool gradient, View into) {
  std::uint16_t& landing = landing_[landing_index(c, gradient)];
  const std::int64_t elements = program::resolve(class_, into, {}, 0).elements;
  if (landing == program::kNone) {
    program::Buffer b;
    b.name = named(gradient ? "pipeline.landing_gradient" : "pipeline.landing", arm(c));
    b.term = program::Term::communication;
    b.type = stage_.recipe.activation;
    b.elements = {elements};
    b.persistent = true;
    landing = builder_.buffer(std::move(b));
    landed_[landing_index(c, gradient)] =
        builder_.event(named(gradient ? "landed_gradient" : "landed", arm(c)), 1);
  }
  std::int64_t& most = class_.buffers[landing].elements[0];
  most = std::max(most, elements);
  return ranged(constant_view(landing), program::Range::fixed, 0, elements);
}

// Activations from the chunk before, or their gradients from the one after, on the receive stream:
// by way of the landing buffer, or (a single pass, or ranks that take turns) into the pass's own
// storage once compute has come to its allocation.
std::uint16_t StageLowering::receive_block(int c, bool gradient) {
  const std::string name = named(gradient ? "receive_gradient" : "receive_input", c);
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  const int end = chunk(c).end;
  const View into = gradient ? d_view(c, end) : x_view(c, chunk(c).begin);
  const EventRef received = single_event(builder_.event(name, 1));
  const bool ahead = receives_ahead(*stage_.strategy);
  const View from = ahead ? landing_view(c, gradient, into) : into;
  const EventRef may = single_event(ahead ? landed_[landing_index(c, gradient)]
                                          : builder_.event("may_" + name, 1));
  const auto receive = [&] {
    builder_.emit({.kind = ActionKind::receive, .stream = message_stream(c, false), .args = {from},
                   .op = builder_.transfer(message(c, gradient, false)),
                   .waits = {{may, ahead}}, .signal = &received});
  };
  builder_.begin(name);
  if (ahead) receive();
  if (gradient && keeps_end(chunk(c)))  // backward frees what was sent
    builder_.fence(Stream::compute, {{of_chunk(sent_output_, c), false}}, nullptr);
  builder_.alloc(into);
  if (ahead) {
    builder_.emit({.kind = ActionKind::cast, .args = {from, into}, .waits = {{received, false}},
                   .signal = &may});
  } else {
    builder_.fence(Stream::compute, {}, &may);
    receive();
    builder_.fence(Stream::compute, {{received, false}}, nullptr);
  }
  return blocks_[name] = builder_.end();
}

std::uint16_t StageLowering::send_block(int c, bool gradient) {
  const std::string name = named(gradient ? "send_gradient" : "send_output", c);
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  const View from = gradient ? d_view(c, chunk(c).begin) : output_view(c);
  const EventRef may = single_event(builder_.event("may_" + name, 1));
  const EventRef sent = of_chunk(gradient ? sent_gradient_ : sent_output_, c);
  builder_.begin(name);
  builder_.fence(Stream::compute, {}, &may);
  builder_.emit({.kind = ActionKind::send, .stream = message_stream(c, true), .args = {from},
                 .op = builder_.transfer(message(c, gradient, true)),
                 .waits = {{may, false}}, .signal = &sent});
  return blocks_[name] = builder_.end();
}

// What was sent stays until the chunk's next pass of its kind begins (releases_sent_late: has
// computed), so that the message overlaps the compute between; `final`: the last micro-batch's,
// when the step ends.
std::uint16_t StageLowering::release_sent_block(int c, bool gradient, bool final) {
  if (!gradient && output_view(c).buffer != stage_output_) return program::kNone;
  const std::string name = named(gradient ? "release_gradient" : "release_output", c) +
                           (final ? "_last" : "");
  const auto [at, fresh] = blocks_.try_emplace(name, program::kNone);
  if (!fresh) return at->second;
  View sent = gradient ? d_view(c, chunk(c).begin) : output_view(c);
  EventRef event = of_chunk(gradient ? sent_gradient_ : sent_output_, c);
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
  b.d_output = d_view(0, 0);
  if (prologue_->trains()) prologue_->backward(b);  // frozen: layer 0 made no gradient
  else if (chunk(0).end == 0) builder_.free(b.d_output);  // another rank's layer 0 did
  return blocks_["prologue.backward"] = builder_.end();
}

}  // namespace planner::lowering
