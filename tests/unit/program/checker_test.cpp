#include "sim/program/checker.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "core/result.hpp"
#include "tests/catch.hpp"
#include "tests/unit/program/two_stages.hpp"

using namespace program_test;
using core::DType;

namespace {

Program sound(std::int64_t micro_batches = 5, int data = 2, bool at_once = false) {
  Mesh mesh;
  mesh.data = data;
  mesh.pipeline = 2;
  return program_of(
      {StageBuilder(0, micro_batches, at_once).k, StageBuilder(1, micro_batches).k}, mesh);
}

// The n-th action of a kind in a class.
Action& nth(Program& p, std::size_t c, ActionKind kind, int n = 0) {
  for (Action& a : p.classes[c].actions)
    if (a.kind == kind && n-- == 0) return a;
  FAIL("no such action");
  return p.classes[c].actions[0];
}
void drop(Action& a) {  // it stays in its place and does nothing
  a.kind = ActionKind::fence;
  a.arg_count = a.wait_count = 0;
  a.signal = kNone;
}
std::uint16_t block_named(const RankClass& k, const std::string& name) {
  for (std::size_t b = 0; b < k.blocks.size(); ++b)
    if (k.blocks[b].name == name) return static_cast<std::uint16_t>(b);
  FAIL("no such block");
  return kNone;
}
void erase_call(Routine& routine, std::uint16_t block, int layer) {
  const auto found = std::find_if(routine.begin(), routine.end(), [&](const Call& c) {
    return c.block == block && c.layer == layer;
  });
  REQUIRE(found != routine.end());
  routine.erase(found);
}

// The broken program is rejected, and one problem says all of `words`.
void rejects(const Program& p, std::initializer_list<const char*> words) {
  const core::Problems problems = check(p);
  CAPTURE(core::to_text(problems));
  const bool said = std::any_of(problems.begin(), problems.end(), [&](const auto& problem) {
    const std::string text = core::to_text(problem);
    return std::all_of(words.begin(), words.end(), [&](const char* word) {
      return text.find(word) != std::string::npos;
    });
  });
  CHECK(said);
}

}  // namespace

TEST_CASE("a pipeline of two data-parallel stages is sound") {
  for (const int data : {1, 2, 4, 40, 1000}) {
    for (const std::int64_t m : {1, 2, 3, 5, 1'000'000}) {
      CAPTURE(data, m, core::to_text(check(sound(m, data))));
      CHECK(check(sound(m, data)).empty());
    }
  }
}

TEST_CASE("a wait without an earlier signal is rejected, unless it may precede") {
  Program p = sound();
  nth(p, 0, ActionKind::fence, 1).signal = kNone;  // of `ready`
  rejects(p, {"stage 0, last_backward, reduce", "(collective)", "a signal of ready"});
  for (Wait& w : p.classes[0].waits) w.may_precede = true;
  for (const core::Problem& problem : check(p))
    CHECK(problem.expected.find("signal of") == std::string::npos);
}

TEST_CASE("a use before the alloc, after the free, a double free and a leak are rejected") {
  Program p = sound();
  drop(nth(p, 0, ActionKind::alloc));  // kept, in layer.forward
  rejects(p, {"stage 0, forward, layer.forward, layer 0, micro-batch 0", "(forward)",
              "before its alloc"});
  p = sound();
  drop(nth(p, 1, ActionKind::free));   // kept, in layer.backward
  rejects(p, {"stage 1", "(alloc)", "still allocated"});
  p = sound(1);
  drop(nth(p, 1, ActionKind::free));
  rejects(p, {"stage 1", "a free of kept", "none"});
  p = sound();
  RankClass& k = p.classes[0];
  k.backward.push_back(k.backward.back());
  rejects(p, {"stage 0, backward, drop", "micro-batch 0", "(free)", "freed already"});
  p = sound();
  auto& calls = p.classes[1].backward;  // drop before the message that it drops
  std::swap(calls[calls.size() - 1], calls[calls.size() - 2]);
  rejects(p, {"stage 1, backward, send", "(send)", "a use after its free"});
}

TEST_CASE("a view outside its instance is rejected") {
  Program p = sound();
  p.classes[1].layer_offset[1] = 11;
  rejects(p, {"stage 1", "layer 1", "(forward)", "10 elements at 11"});
}

TEST_CASE("a slot too few is rejected") {
  Program p = sound();
  for (Buffer& b : p.classes[0].buffers) b.slots = 1;
  rejects(p, {"stage 0, forward, load", "micro-batch 1", "(alloc)", "still allocated"});
}

TEST_CASE("dropped waits between streams are rejected") {
  const auto without_wait = [](std::size_t c, const std::function<bool(const Action&)>& which) {
    Program p = sound();
    for (Action& a : p.classes[c].actions)
      if (a.wait_count > 0 && which(a)) a.wait_count = 0;
    return p;
  };
  const auto kind = [](ActionKind k) { return [k](const Action& a) { return a.kind == k; }; };
  // The collective would read gradients that compute still writes.
  rejects(without_wait(0, kind(ActionKind::collective)),
          {"stage 0, last_backward, reduce", "(collective)", "last write", "stream compute"});
  // The message would be written before the buffer is there, or sent before it is computed.
  rejects(without_wait(1, kind(ActionKind::receive)), {"stage 1", "(receive)", "the allocation"});
  rejects(without_wait(1, kind(ActionKind::send)), {"stage 1", "(send)", "stream compute"});
  // Compute would read what is still being received, update what is still being reduced, and free
  // what is still being sent.
  const Program p = without_wait(1, kind(ActionKind::fence));
  rejects(p, {"stage 1", "layer.forward, layer 0", "(forward)", "stream receive"});
  rejects(p, {"stage 1, end, update", "(optimizer)", "stream gradient"});
  rejects(p, {"stage 1", "drop", "(free)", "a use on stream send not waited for"});
}

TEST_CASE("each wait of the sound program is needed") {
  const Program whole_program = sound();
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < whole_program.classes[c].actions.size(); ++i) {
      Program p = whole_program;
      if (p.classes[c].actions[i].wait_count == 0) continue;
      p.classes[c].actions[i].wait_count = 0;
      CAPTURE(c, i);
      CHECK_FALSE(check(p).empty());
    }
  }
}

TEST_CASE("each action but the begin's zero and the update is needed") {
  const Program whole_program = sound();
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t i = 0; i < whole_program.classes[c].actions.size(); ++i) {
      Program p = whole_program;
      Action& a = p.classes[c].actions[i];
      const bool local = a.kind == ActionKind::zero || a.kind == ActionKind::optimizer ||
                         a.kind == ActionKind::load || a.kind == ActionKind::cast;
      if (local) continue;  // values, not order: the reference trainer's business
      if (a.kind == ActionKind::weight_gradient || a.kind == ActionKind::input_gradient) continue;
      CAPTURE(c, i, std::string(name(a.kind)));
      drop(a);
      if (whole_program.classes[c].actions[i].kind == ActionKind::forward)
        rejects(p, {"a forward of this operator"});
      else
        CHECK_FALSE(check(p).empty());
    }
  }
}

TEST_CASE("a missing receive names the sender's action and the other rank") {
  Program p = sound();
  drop(nth(p, 1, ActionKind::receive));
  rejects(p, {"rank 0 (stage 0), forward, send", "(send)", "a counterpart on rank 2 (stage 1)"});
}

TEST_CASE("messages of another size or type are rejected") {
  Program p = sound();
  nth(p, 1, ActionKind::receive);
  for (Transfer& t : p.classes[1].transfers)
    if (t.group == Group::previous) t.wire_type = DType::f32;
  rejects(p, {"(stage 1)", "(receive)", "the transfer of rank 0 (stage 0)"});
}

TEST_CASE("a message to a stage that does not exist is rejected") {
  Program p = sound();
  for (Transfer& t : p.classes[1].transfers)
    if (t.group == Group::previous) t.group = Group::next;
  rejects(p, {"(stage 1)", "a stage on that side"});
}

namespace {

// Colocated server class and worker class call the same ring over data: the members of one group
// are in different classes, so their order can differ.
Program two_orders(bool swapped) {
  std::vector<RankClass> classes;
  for (const bool server : {true, false}) {
    Builder b(server ? "server" : "worker");
    b.k.is_server = server;
    const auto x = b.buffer("x", Term::gradients, {4, 6}, 2, 1, true, DType::f32);
    const auto ring = b.transfer({Collective::all_reduce, Algorithm::ring, Traffic::gradients,
                                  Group::data, ReduceOp::sum, DType::f32, 0});
    const auto reduce = b.block("reduce");
    b.act(ActionKind::collective, {layered(x)}, Stream::gradient, ring);
    b.k.end = {b.call(reduce, 0), b.call(reduce, 1)};
    if (swapped && !server) std::swap(b.k.end[0], b.k.end[1]);
    classes.push_back(b.k);
  }
  Mesh mesh;
  mesh.data = 3;
  Program p = program_of(std::move(classes), mesh);
  p.servers = 1;
  return p;
}

}  // namespace

TEST_CASE("collectives in another order on one member of the group are rejected") {
  CHECK(check(two_orders(false)).empty());
  rejects(two_orders(true),
          {"rank 1 (worker), end, reduce, layer 1", "(collective)", "rank 0 (server)"});
}

TEST_CASE("a collective that one member does not call is rejected") {
  Program p = two_orders(false);
  p.classes[1].end.pop_back();
  rejects(p, {"rank 0 (server), end, reduce, layer 1", "a counterpart on rank 1", "1 of them"});
}

TEST_CASE("a missing, a doubled and a skipped backward are rejected") {
  Program p = sound();
  RankClass& k = p.classes[0];
  erase_call(k.backward, block_named(k, "layer.backward"), 1);
  rejects(p, {"stage 0, last_backward, layer.backward, layer 1", "this backward in backward"});
  p = sound();
  for (Routine* r : {&p.classes[1].backward, &p.classes[1].last_backward})
    erase_call(*r, block_named(p.classes[1], "layer.backward"), 0);
  rejects(p, {"stage 1, forward, layer.forward, layer 0", "a backward of this layer"});
  p = sound();
  nth(p, 0, ActionKind::weight_gradient).flags |= kSkipFirstMicroBatch;
  rejects(p, {"stage 0", "(weight_gradient)", "a backward in every micro-batch"});
  p = sound();
  auto& calls = p.classes[0].last_backward;
  calls.insert(calls.begin() + 1, calls[1]);
  rejects(p, {"stage 0, last_backward, layer.backward", "one backward per layer", "two"});
}

TEST_CASE("gradients that are added out of order are rejected") {
  Program p = sound();
  RankClass& k = p.classes[0];
  // Forward of micro-batch i + 1 adds something before backward of micro-batch i does.
  Action extra = nth(p, 0, ActionKind::zero);
  extra.kind = ActionKind::accumulate;
  extra.arg_count = 2;
  extra.first_arg = static_cast<std::uint32_t>(k.views.size());
  k.views.push_back(whole(0));
  k.views.push_back(whole(1));
  k.actions.push_back(extra);
  const auto at = static_cast<std::uint32_t>(k.actions.size() - 1);
  k.blocks.push_back({"extra", at, at + 1});
  k.forward.push_back({static_cast<std::uint16_t>(k.blocks.size() - 1), 0, 0});
  rejects(p, {"stage 0", "backward", "(weight_gradient)", "ascending", "0 after 1"});
}

TEST_CASE("two stages that both receive before they send are a deadlock, named as a cycle") {
  std::vector<RankClass> classes;
  for (const int stage : {0, 1}) {
    Builder b("stage " + std::to_string(stage), stage);
    const auto x = b.buffer("x", Term::weights, {4}, 2, 1, true, DType::f32);
    const Group peer = stage == 0 ? Group::next : Group::previous;
    const auto op = b.transfer({Collective::send, Algorithm::direct, Traffic::pipeline, peer,
                                ReduceOp::sum, DType::f32, 0});
    const auto both = b.block("exchange");
    View in = whole(x), out = whole(x);
    out.instance = 1;
    b.act(ActionKind::receive, {in}, Stream::compute, op);
    b.act(ActionKind::send, {out}, Stream::compute, op);
    b.k.end = {b.call(both)};
    classes.push_back(b.k);
  }
  Mesh mesh;
  mesh.pipeline = 2;
  Program p = program_of(classes, mesh);
  rejects(p, {"a deadlock", "rank 0 (stage 0), end, exchange", "rank 1 (stage 1), end, exchange",
              "action 0 (receive)"});
  std::swap(p.classes[1].actions[0], p.classes[1].actions[1]);
  CHECK(check(p).empty());
}

TEST_CASE("one forward one backward with blocking messages both ways is a deadlock") {
  rejects(sound(5, 2, true),
          {"a deadlock", "(stage 0), forward, send", "(stage 1), backward, send"});
  CHECK(check(sound(1, 2, true)).empty());  // one micro-batch: no message meets another
}

TEST_CASE("pushes are buffered, so a colocated server serves in line, but not before its own") {
  const auto servers = [](bool push_first) {
    std::vector<RankClass> classes;
    for (const bool server : {true, false}) {
      Builder b(server ? "server" : "worker");
      b.k.is_server = server;
      const auto g = b.buffer("gradients", Term::gradients, {4}, 1, 1, true, DType::f32);
      const auto sum = b.buffer("sum", Term::communication, {2}, 1, 1, true, DType::f32);
      const auto op = b.transfer({Collective::parameter_server, Algorithm::parameter_server,
                                  Traffic::gradients, Group::data, ReduceOp::sum, DType::f32, 0});
      b.k.spans = {{0, 4, 2, 0}};
      const auto push = b.block("push");
      b.act(ActionKind::push, {ranged(g, Range::span)}, Stream::gradient, op);
      const auto serve = b.block("serve");
      b.act(ActionKind::serve_push, {ranged(g, Range::span), whole(sum)}, Stream::gradient, op);
      b.k.end = {b.call(push), b.call(serve)};
      if (!push_first) std::swap(b.k.end[0], b.k.end[1]);
      if (!server) b.k.end = {b.call(push)};
      classes.push_back(b.k);
    }
    Mesh mesh;
    mesh.data = 4;
    Program p = program_of(classes, mesh);
    p.servers = 2;
    return p;
  };
  CHECK(check(servers(true)).empty());
  rejects(servers(false), {"a deadlock", "(server)", "(serve_push)", "(push)"});
}
