// The founding laws of communication, from the counters and the clock of whole simulated steps.
#include <deque>

#include "hw_profiles/load.hpp"
#include "sim/cost/machine.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/message_plan.hpp"
#include "sim/engine/sweep.hpp"
#include "sim/engine/wires.hpp"
#include "sim/program/traffic.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Outcome;
using engine::Scene;
using engine_test::Lowered;
using engine_test::Space;

namespace {

constexpr int kWorkers = 4;

Outcome played(const program::Program& p, const cost::Machine& machine) {
  const Scene scene(p, machine, {.unfold = true});
  return engine::run(scene, {.steps = 1, .flows = engine::FlowOptions{}, .machine = &machine});
}

// The step of a strategy whose gradients travel once, and its counters without what is no gradient
// and no weight (the loss, norms).
struct Step {
  double d = 0;                        // gradient elements, and as chunks of so many parts
  double chunked(int parts) const {
    double all = 0;
    for (const program::Span& s : spans)
      all += static_cast<double>(program::padded(s.elements, parts));
    return all;
  }
  std::vector<program::Span> spans;
  std::vector<double> sent, received;
  std::int64_t makespan = 0;
};

Step step_of(std::vector<const char*> pins, int gpus, double latency = 0,
             std::int64_t batch = 2 * kWorkers) {
  pins.push_back("checkpoint=none");
  pins.push_back("micro_batch=2");
  Step s;
  engine_test::each_candidate({"gpt2-124m", "rtx3090", gpus, 128, batch, pins},
                              [&](const Lowered& c) {
    cost::Machine machine = c.question.machine;
    if (latency > 0) {
      machine.link_latency = core::Seconds{latency};
      if (machine.fabric) machine.fabric->hop = core::Seconds{latency};
    }
    const Outcome o = played(c.program, machine);
    s.makespan = o.makespan();
    s.sent = o.wire_sent;
    s.received = o.wire_received;
    s.spans = c.program.classes.front().spans;
    for (const program::Span& span : s.spans) s.d += static_cast<double>(span.elements);
    for (int rank = 0; rank < c.program.mesh.ranks(); ++rank)
      for (const program::TrafficEntry& e : program::rank_traffic(c.program, rank))
        if (e.what != program::Traffic::gradients && e.what != program::Traffic::parameters)
          s.sent[static_cast<std::size_t>(rank)] -= static_cast<double>(e.wire.value());
  });
  REQUIRE(s.makespan > 0);
  return s;
}

constexpr double kBytes = 2;           // of a gradient and of a weight, in 16 bits

}  // namespace

TEST_CASE("C1: a naive all-reduce sends d to each of K-1 others") {
  const Step s = step_of({"grad_sync=naive_all_reduce", "data=4"}, kWorkers);
  for (const double bytes : s.sent) CHECK(bytes == kBytes * s.d * (kWorkers - 1));
}

TEST_CASE("C2: with one server a worker sends d, the server d K") {
  const Step s = step_of({"grad_sync=parameter_server", "servers=1", "servers_colocated=false"},
                         kWorkers + 1);
  for (int worker = 0; worker < kWorkers; ++worker)
    CHECK(s.sent[static_cast<std::size_t>(worker)] == kBytes * s.d);
  CHECK(s.sent[kWorkers] == kBytes * s.d * kWorkers);
}

TEST_CASE("C3: each of M servers sends d/M to K workers, to K-1 where it is one of them") {
  const Step apart = step_of({"grad_sync=parameter_server", "servers=2", "servers_colocated=false"},
                             kWorkers + 2);
  for (const int server : {kWorkers, kWorkers + 1})
    CHECK(apart.sent[static_cast<std::size_t>(server)] == kBytes * apart.chunked(2) / 2 * kWorkers);
  const Step among = step_of({"grad_sync=parameter_server", "servers=2", "data=4"}, kWorkers);
  const double part = kBytes * among.chunked(2) / 2;
  for (int rank = 0; rank < kWorkers; ++rank) {
    const bool serves = rank < 2;      // pushes to the other server, replies to K-1 workers
    CHECK(among.sent[static_cast<std::size_t>(rank)] == (serves ? 1 + (kWorkers - 1) : 2) * part);
  }
}

TEST_CASE("C4: a ring sends 2 d (K-1)/K from every rank") {
  const Step s = step_of({"grad_sync=ring", "data=4", "sharding=none"}, kWorkers);
  for (const double bytes : s.sent)
    CHECK(bytes == 2 * kBytes * s.chunked(kWorkers) / kWorkers * (kWorkers - 1));
}

TEST_CASE("servers and ring cross over where incast says") {
  // K workers, M of them servers, ports of B, latency a. All pushes of a part meet at its server's
  // port, and its replies leave by it: 2 (a + (K-1) d / (M B)). The ring: 2 (K-1) (a + d / (K B)).
  // They are equal at d = a B K M (K-2) / ((K-1) (K-M)): below it servers win, above it the ring;
  // M = K servers never lose.
  cost::Machine machine = engine_test::unit_machine();  // B = 1 byte a picosecond
  const double a = 60'000;
  machine.link_latency = core::Seconds{a * 1e-12};
  const auto ring = [&](int k, std::int64_t d) {
    const engine::Topology topology(k, machine, {});
    engine::Wires wires(topology, engine::Sharing::shared);
    std::vector<int> members;
    for (int r = 0; r < k; ++r) members.push_back(r);
    const engine::MessagePlan plan = engine::message_plan(
        program::Collective::all_reduce, program::Algorithm::ring, k, d, core::DType::u8);
    const engine::Cast cast = wires.cast(plan, members);
    wires.start(0, plan, cast, 0);
    std::vector<engine::Wires::Done> done;
    std::int64_t last = 0;
    while (wires.next() != engine::Network::kNever) wires.advance(last = wires.next(), done);
    return last;
  };
  const auto servers = [&](int k, int m, std::int64_t d) {
    const engine::Topology topology(k, machine, {});
    engine::Wires wires(topology, engine::Sharing::shared);
    engine::MessagePlan one;
    one.messages.push_back({0, 1, static_cast<double>(d) / m});
    std::deque<engine::Cast> casts;
    std::vector<engine::Wires::Done> done;
    std::int64_t last = 0;
    for (const bool replies : {false, true}) {
      for (int s = 0; s < m; ++s)
        for (int w = 0; w < k; ++w)
          if (w != s)
            wires.start(0, one,
                        casts.emplace_back(wires.cast(
                            one, replies ? std::vector{s, w} : std::vector{w, s})),
                        last);
      while (wires.next() != engine::Network::kNever) wires.advance(last = wires.next(), done);
    }
    return last;
  };
  for (const int k : {3, 4, 8})
    for (const int m : {1, 2, k - 1, k}) {
      INFO(k << " workers, " << m << " servers");
      if (m == k) {
        for (const std::int64_t d : {1000 * k, 100'000'000 * k})
          CHECK(servers(k, m, d) <= ring(k, d));
        continue;
      }
      const double equal = a * k * m * (k - 2) / ((k - 1.0) * (k - m));
      const auto at = [&](double share) {
        return static_cast<std::int64_t>(equal * share / (k * m)) * k * m;
      };
      CHECK(servers(k, m, at(0.98)) < ring(k, at(0.98)));
      CHECK(servers(k, m, at(1.02)) > ring(k, at(1.02)));
    }
}

TEST_CASE("whole steps cross over, too: servers win by latency, the ring by bandwidth") {
  const auto step = [](const char* servers, double latency) {
    return step_of({"grad_sync=parameter_server", servers, "data=8"}, 8, latency, 16).makespan;
  };
  const auto ring = [](double latency) {
    return step_of({"grad_sync=ring", "sharding=none", "data=8"}, 8, latency, 16).makespan;
  };
  const double slow = 20e-3;           // a ring of 8 waits for 14 of these, a server for 2
  CHECK(step("servers=1", 0) > ring(0));
  CHECK(step("servers=1", slow) < ring(slow));
  CHECK(step("servers=4", slow) < step("servers=1", slow));
}

TEST_CASE("C6: through the host's memory a step takes longer than from GPU to GPU") {
  hw_profiles::Profile peer = hw_profiles::find_profile("rtx-a5000").value();
  hw_profiles::Profile staged = peer;
  REQUIRE(hw_profiles::use_node(staged, "geforce-box", "test").ok());
  const cost::Machine near = cost::make_machine(peer, {}), far = cost::make_machine(staged, {});
  const Space space{"gpt2-124m", "rtx-a5000", kWorkers, 128, 8,
                    {"data=4", "sharding=none", "checkpoint=none"}};
  const int visited = engine_test::each_candidate(space, [&](const Lowered& c) {
    INFO(to_text(c.strategy));
    const auto timed = [&](const cost::Machine& m) {
      return engine::critical_terms(engine::sweep(Scene(c.program, m)));
    };
    CHECK(timed(far).period > timed(near).period);
    CHECK(timed(far).exposed_communication > timed(near).exposed_communication);
    CHECK(timed(far).compute == timed(near).compute);
    CHECK(played(c.program, far).makespan() > played(c.program, near).makespan());
  });
  CHECK(visited > 0);
}
