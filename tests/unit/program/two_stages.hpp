#pragma once
// A small sound Program by hand: two pipeline stages of two linear layers, data parallel, 1F1B. The
// checker's tests break it.

#include <string>

#include "tests/unit/program/program_builder.hpp"

namespace program_test {

using core::DType;

// One of two pipeline stages, two layers each, data parallel: forward keeps a tensor per layer,
// backward frees it; boundaries are sent and received on streams of their own; the last backward
// reduces gradients by span (one per layer) on the gradient stream; the end updates.
class StageBuilder : public Builder {
 public:
  StageBuilder(int stage_index, std::int64_t micro_batches, bool at_once = false)
      : Builder("stage " + std::to_string(stage_index), stage_index), at_once_(at_once) {
    schedule(micro_batches, 1 - stage_index);
    const int slots = static_cast<int>(k.schedule.in_flight());
    weights = buffer("weights", Term::weights, {20}, 1, 1, true, DType::bf16);
    gradients = buffer("gradients", Term::gradients, {20}, 1, 1, true, DType::bf16);
    kept = buffer("kept", Term::activations, {8}, 3, slots, false, DType::bf16);
    d = buffer("d", Term::activations, {8}, 1, 1, false, DType::bf16);
    k.spans = {{0, 10, 5, 0}, {10, 10, 5, 5}};
    k.layers = 2;
    k.layer_offset = {0, 10};
    linear = op(models::OpKind::linear);
    k.operators[linear].inputs = {0};
    k.operators[linear].parameters = {0};
    begin_and_end();
    layers();
    stage_index == 0 ? first_stage() : last_stage();
  }

  std::uint16_t weights, gradients, kept, d, linear;

 private:
  View weight() const { return ranged(weights, Range::layer_parameters, 0, 10); }
  View gradient() const { return ranged(gradients, Range::layer_parameters, 0, 10); }

  void begin_and_end() {
    ready_ = event("ready", 2);
    reduced_ = event("reduced", 2);
    const auto start = block("begin");
    act(ActionKind::zero, {whole(gradients)});
    k.begin = {call(start)};
    const auto update = block("update");
    act(ActionKind::fence, {}).wait(at_layer(reduced_));
    act(ActionKind::optimizer, {ranged(weights, Range::span), ranged(gradients, Range::span)});
    k.end = {call(update, 0), call(update, 1)};
    const auto all_reduce = transfer({Collective::all_reduce, Algorithm::ring, Traffic::gradients,
                                      Group::data, ReduceOp::sum, DType::bf16, 0});
    reduce_ = block("reduce");
    act(ActionKind::fence, {}).signal(at_layer(ready_));
    act(ActionKind::collective, {ranged(gradients, Range::span)}, Stream::gradient, all_reduce);
    wait(at_layer(ready_)).signal(at_layer(reduced_));
  }

  void layers() {
    forward_ = block("layer.forward");
    alloc(layered(kept, 1));
    act(ActionKind::forward, {layered(kept), weight(), layered(kept, 1)}, Stream::compute, linear);
    backward_ = block("layer.backward");
    act(ActionKind::weight_gradient, {whole(d), layered(kept), gradient()}, Stream::compute,
        linear);
    act(ActionKind::input_gradient, {whole(d), weight(), whole(d)}, Stream::compute, linear);
    free(layered(kept, 1));
  }

  Transfer message(Group group, int tag) const {
    return {Collective::send, Algorithm::direct, Traffic::pipeline, group,
            ReduceOp::sum,    DType::bf16,       static_cast<std::uint16_t>(tag)};
  }

  std::uint16_t receive_block(Group group, int tag, const View& into) {
    const auto may = event("may_receive"), received = event("received");
    const auto b = block("receive");
    if (sent_ != kNone) act(ActionKind::fence, {}).wait(at(sent_));  // backward frees what was sent
    alloc(into);
    act(ActionKind::fence, {}).signal(at(may));
    act(ActionKind::receive, {into}, Stream::receive, transfer(message(group, tag)));
    wait(at(may)).signal(at(received));
    act(ActionKind::fence, {}).wait(at(received));
    return b;
  }

  // `at_once`: compute waits for the message. Both stages doing so would be a deadlock: the one's
  // activations and the other's gradients wait for each other to be received.
  std::uint16_t send_block(Group group, int tag, const View& from, bool at_once) {
    const int slots = static_cast<int>(k.schedule.in_flight());
    const auto may = event("may_send"), sent = event("sent", 1, slots);
    const auto b = block("send");
    act(ActionKind::fence, {}).signal(at(may));
    act(ActionKind::send, {from}, Stream::send, transfer(message(group, tag)));
    wait(at(may)).signal(at(sent));
    if (at_once) act(ActionKind::fence, {}).wait(at(sent));
    else sent_ = sent;
    return b;
  }

  View boundary(int index) const {
    View v = whole(kept);
    v.instance = static_cast<std::uint16_t>(index);
    return v;
  }

  void passes(const Routine& before, const Routine& middle, const Routine& after) {
    k.backward = before;
    k.last_backward = before;
    for (const int layer : {1, 0}) {
      k.backward.push_back(call(backward_, layer));
      k.last_backward.push_back(call(backward_, layer));
      k.last_backward.push_back(call(reduce_, layer));
    }
    k.backward.insert(k.backward.end(), after.begin(), after.end());
    k.last_backward.insert(k.last_backward.end(), after.begin(), after.end());
    k.forward.insert(k.forward.end(), middle.begin(), middle.end());
  }

  void first_stage() {
    const auto load = block("load");
    alloc(boundary(0));
    act(ActionKind::load, {boundary(0)});
    k.forward = {call(load), call(forward_, 0), call(forward_, 1)};
    const auto drop = block("drop");
    free(boundary(0)).free(whole(d));
    const auto send = send_block(Group::next, 0, boundary(2), at_once_);
    passes({call(receive_block(Group::next, 1, whole(d)))}, {call(send)}, {call(drop)});
  }

  void last_stage() {
    k.forward = {call(receive_block(Group::previous, 0, boundary(0))), call(forward_, 0),
                 call(forward_, 1)};
    const auto loss = block("loss");
    alloc(whole(d));
    act(ActionKind::cast, {boundary(2), whole(d)});
    const auto send = send_block(Group::previous, 1, whole(d), true);
    const auto drop = block("drop");
    free(boundary(0)).free(whole(d));
    passes({call(loss)}, {}, {call(send), call(drop)});
  }

  bool at_once_;
  std::uint16_t sent_ = kNone, ready_ = 0, reduced_ = 0, reduce_ = 0, forward_ = 0, backward_ = 0;
};

}  // namespace program_test
