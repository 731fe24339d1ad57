#include "sim/program/traffic.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "sim/program/cursor.hpp"
#include "sim/program/library_calls.hpp"
#include "tests/catch.hpp"
#include "tests/unit/program/program_builder.hpp"

using namespace program_test;
using core::Bytes;
using core::DType;

namespace {

const Transfer kRing{Collective::all_reduce, Algorithm::ring, Traffic::gradients, Group::data,
                     ReduceOp::sum, DType::bf16, 0};

Transfer with(Collective c, Algorithm a, Traffic what, Group g) {
  return {c, a, what, g, ReduceOp::sum, DType::bf16, 0};
}

// One call in `routine`, of one action over the spans {10, 6} elements.
RankClass spans_class(const Transfer& t, ActionKind kind = ActionKind::collective) {
  Builder b;
  const auto gradients = b.buffer("gradients", Term::gradients, {16}, 1, 1, true, DType::bf16);
  b.k.spans = {{0, 10, 3, 0}, {10, 6, 2, 3}};
  const auto op = b.transfer(t);
  const auto reduce = b.block("reduce");
  b.act(kind, {ranged(gradients, Range::span)}, Stream::gradient, op);
  b.k.last_backward = {b.call(reduce, 0), b.call(reduce, 1)};
  return b.k;
}

Mesh mesh(int tensor, int data, int pipeline = 1, int shard_group = 1) {
  Mesh m;
  m.tensor = tensor;
  m.data = data;
  m.pipeline = pipeline;
  m.shard_group = shard_group;
  return m;
}

}  // namespace

TEST_CASE("a ring all-reduce of two spans counts once per span and step, padded") {
  // K = 4, bf16: spans of 10 -> 12 and 6 -> 8 elements: payload 24 + 16 B, wire 2 x 3/4 of it.
  RankClass k = spans_class(kRing);
  k.schedule = {7, 2};
  const auto t = traffic(program_of({k}, mesh(2, 4)));
  REQUIRE(t.size() == 1);
  CHECK(t[0].what == Traffic::gradients);
  CHECK(t[0].collective == "all_reduce");
  CHECK(t[0].algorithm == Algorithm::ring);
  CHECK(t[0].group_size == 4);
  CHECK(t[0].busiest_rank == 0);
  CHECK(t[0].count == 2);
  CHECK(t[0].payload == Bytes(40));
  CHECK(t[0].wire == Bytes(60));
}

TEST_CASE("a group of one leaves no entry") {
  CHECK(traffic(program_of({spans_class(kRing)}, mesh(8, 1))).empty());
}

TEST_CASE("the busiest rank of a tree is an inner one") {
  // 5 ranks: the root sends to 2 children; rank 1 sends up and to 2 children: 3 x S.
  const auto tree = with(Collective::all_reduce, Algorithm::tree, Traffic::loss, Group::data);
  const auto p = program_of({spans_class(tree)}, mesh(1, 5));
  const auto t = traffic(p);
  REQUIRE(t.size() == 1);
  CHECK(t[0].busiest_rank == 1);
  CHECK(t[0].wire == Bytes(3 * 2 * (10 + 6)));
  CHECK(rank_traffic(p, 0)[0].wire == Bytes(2 * 2 * 16));
  CHECK(rank_traffic(p, 4)[0].wire == Bytes(1 * 2 * 16));
}

TEST_CASE("a broadcast is counted at its root alone") {
  const auto broadcast =
      with(Collective::broadcast, Algorithm::direct, Traffic::parameters, Group::data);
  const auto p = program_of({spans_class(broadcast)}, mesh(1, 3));
  CHECK(rank_traffic(p, 2).empty());
  CHECK(rank_traffic(p, 0)[0].wire == Bytes(2 * 2 * 16));
}

TEST_CASE("micro-batches multiply, and a skipped first one does not count") {
  Builder b;
  const auto x = b.buffer("x", Term::activations, {100}, 1, 1, false, DType::f32);
  const auto op = b.transfer({Collective::send, Algorithm::direct, Traffic::pipeline, Group::next,
                              ReduceOp::sum, DType::f32, 0});
  const auto reduce = b.transfer(kRing);
  const auto send = b.block("send");
  b.act(ActionKind::send, {whole(x)}, Stream::send, op);
  const auto skipped = b.block("skipped");
  b.act(ActionKind::collective, {whole(x)}, Stream::gradient, reduce).flag(kSkipFirstMicroBatch);
  b.k.forward = {b.call(send)};
  b.k.backward = b.k.last_backward = {b.call(skipped)};
  Builder last("stage 1", 1);
  for (const auto& [micro_batches, reductions] : {std::pair{6, 5}, {1, 0}}) {
    b.schedule(micro_batches, 1);
    const auto t = traffic(program_of({b.k, last.k}, mesh(1, 2, 2)));
    REQUIRE(t.size() == (reductions > 0 ? 2 : 1));
    CHECK(t.back().collective == "send");
    CHECK(t.back().count == micro_batches);
    CHECK(t.back().wire == Bytes(400 * micro_batches));
    CHECK(t.back().group_size == 2);
    if (reductions > 0) CHECK(t.front().count == reductions);
  }
}

TEST_CASE("gathers count the full vector and replica stages the shard") {
  Builder b;
  const auto full = b.buffer("full", Term::communication, {10}, 1, 1, false, DType::bf16);
  const auto shard = b.buffer("shard", Term::weights, {3}, 1, 1, true, DType::bf16);
  b.k.spans = {{0, 10, 3, 0}};
  const auto gather = b.transfer(
      with(Collective::all_gather, Algorithm::ring, Traffic::parameters, Group::shard));
  const auto across = b.transfer(
      with(Collective::all_reduce, Algorithm::ring, Traffic::gradients, Group::replica));
  const auto block = b.block("both");
  b.act(ActionKind::collective, {ranged(shard, Range::span_shard), ranged(full, Range::span)},
        Stream::parameter, gather);
  b.act(ActionKind::collective, {ranged(shard, Range::span_shard)}, Stream::gradient, across);
  b.k.end = {b.call(block)};
  const auto t = traffic(program_of({b.k}, mesh(1, 8, 1, 4)));
  REQUIRE(t.size() == 2);
  // Replicas 2: 3 -> 4 elements, 8 B x 2 x 1/2. Shards 4: 10 -> 12 elements, 24 B x 3/4.
  CHECK(t[0].wire == Bytes(8));
  CHECK(t[0].group_size == 2);
  CHECK(t[1].wire == Bytes(18));
  CHECK(t[1].payload == Bytes(24));
}

namespace {

Program server_program(bool colocated) {
  const auto push = with(Collective::parameter_server, Algorithm::parameter_server,
                         Traffic::gradients, Group::data);
  auto reply = push;
  reply.what = Traffic::parameters;
  reply.wire_type = DType::f32;
  const auto serve = [&](RankClass k) {
    k.transfers.push_back(reply);
    Action a = k.actions[0];
    a.kind = ActionKind::serve_pull;
    a.first_arg = static_cast<std::uint32_t>(k.views.size());
    k.views.push_back(ranged(0, Range::span_chunk));
    a.op = static_cast<std::uint16_t>(k.transfers.size() - 1);
    k.actions.push_back(a);
    k.blocks.push_back({"reply", 1, 2});
    k.end = {{1, 0, 0}, {1, 1, 0}};
    return k;
  };
  const RankClass worker = spans_class(push, ActionKind::push);
  RankClass server = serve(worker);
  server.name = "server";
  server.is_server = true;
  if (!colocated) {
    server.is_worker = false;
    server.last_backward.clear();
  }
  Mesh m = mesh(1, 4);
  m.separate_servers = colocated ? 0 : 2;
  Program p = program_of({server, worker}, m);
  p.servers = 2;
  p.servers_colocated = colocated;
  return p;
}

}  // namespace

TEST_CASE("a push goes to the other servers and a reply to the other workers") {
  // K = 4 workers, M = 2 of them serve; spans 10 and 6: parts of 5 and 3 elements.
  const Program p = server_program(true);
  const auto t = traffic(p);
  REQUIRE(t.size() == 2);
  // A worker that does not serve pushes both spans, both parts of each: 2 x 16 B = 32 B.
  CHECK(t[0].collective == "parameter_server");
  CHECK(t[0].busiest_rank == 2);
  CHECK(t[0].count == 2);
  CHECK(t[0].payload == Bytes(32));
  CHECK(t[0].wire == Bytes(32));
  // A server answers 3 workers in each span's reply: 2 replies, 3 x (5 + 3) x 4 B = 96 B.
  CHECK(t[1].collective == "parameter_server.server");
  CHECK(t[1].what == Traffic::parameters);
  CHECK(t[1].busiest_rank == 0);
  CHECK(t[1].count == 2);
  CHECK(t[1].wire == Bytes(96));
  CHECK(t[1].payload == Bytes(64));
  // A serving worker pushes to the other server alone.
  CHECK(rank_traffic(p, 1)[0].count == 2);
  CHECK(rank_traffic(p, 1)[0].wire == Bytes(16));
  CHECK(rank_traffic(p, 1)[0].payload == Bytes(32));
}

TEST_CASE("servers apart receive from and answer all workers") {
  const Program p = server_program(false);
  const auto t = traffic(p);
  REQUIRE(t.size() == 2);
  CHECK(t[0].busiest_rank == 0);
  CHECK(t[0].wire == Bytes(32));
  CHECK(t[1].busiest_rank == 4);
  CHECK(t[1].count == 2);
  CHECK(t[1].wire == Bytes(4 * 8 * 4));
}

TEST_CASE("traffic is the maximum over all ranks of what each rank sends") {
  const unsigned seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr Group kGroups[] = {Group::tensor, Group::data, Group::shard, Group::replica};
  constexpr Algorithm kKinds[] = {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce};
  for (int i = 0; i < 60; ++i) {
    Builder b;
    const auto x = b.buffer("x", Term::gradients, {static_cast<std::int64_t>(random() % 50)}, 1, 1,
                            true, DType::f32);
    const auto block = b.block("all");
    for (int c = 0; c < 4; ++c) {
      const auto op = b.transfer(with(Collective::all_reduce, kKinds[random() % 3],
                                      Traffic::gradients, kGroups[random() % 4]));
      b.act(ActionKind::collective, {whole(x)}, Stream::gradient, op);
    }
    b.k.end = {b.call(block)};
    const int shard = static_cast<int>(random() % 4) + 1;
    const int tensor = static_cast<int>(random() % 6) + 1;
    Mesh m = mesh(tensor, shard * (static_cast<int>(random() % 4) + 1), 1, shard);
    if (random() % 2 == 0) m.order = {Axis::data, Axis::tensor, Axis::pipeline};
    const Program p = program_of({b.k}, m);
    std::map<std::tuple<Algorithm, int>, TrafficEntry> busiest;
    for (int rank = 0; rank < m.ranks(); ++rank) {
      for (const TrafficEntry& e : rank_traffic(p, rank)) {
        auto& kept = busiest[{e.algorithm, e.group_size}];
        if (kept.count == 0 || e.wire > kept.wire) kept = e;
      }
    }
    const auto all = traffic(p);
    REQUIRE(all.size() == busiest.size());
    for (const TrafficEntry& e : all) {
      const auto& expected = busiest[{e.algorithm, e.group_size}];
      REQUIRE(e.busiest_rank == expected.busiest_rank);
      REQUIRE(e.wire == expected.wire);
      REQUIRE(e.count == expected.count);
      REQUIRE(e.payload == expected.payload);
    }
  }
}

TEST_CASE("the sizes of an entry's calls sum to its count, in elements without padding") {
  Program p;
  p.classes = {spans_class(kRing)};
  p.mesh = mesh(1, 4);
  const std::vector<TrafficEntry> all = traffic(p);
  REQUIRE(all.size() == 1);
  // Spans of 10 and of 6 elements, each in one call.
  REQUIRE(all[0].sizes.size() == 2);
  CHECK(all[0].sizes[0].elements == 6);
  CHECK(all[0].sizes[1].elements == 10);
  for (const CallSize& size : all[0].sizes) {
    CHECK(size.group == Group::data);
    CHECK(size.type == DType::bf16);
    CHECK(size.count == 1);
  }
  CHECK(all[0].count == 2);
}

TEST_CASE("a library is given equal chunks to gather, and a vector to reduce as it is") {
  CHECK(library_bytes(Collective::all_gather, 4, 10, DType::bf16) == Bytes(24));
  CHECK(library_bytes(Collective::reduce_scatter, 4, 10, DType::bf16) == Bytes(24));
  CHECK(library_bytes(Collective::all_reduce, 4, 10, DType::bf16) == Bytes(20));
}

TEST_CASE("a library's calls of one algorithm, protocol and number of channels are one entry") {
  std::vector<LibraryCalls> all;
  add_calls(all, {"ring", "ll", 2, 3, Bytes(30), Bytes(10), Bytes(10)});
  add_calls(all, {"ring", "ll", 4, 1, Bytes(50), Bytes(50), Bytes(50)});
  add_calls(all, {"ring", "ll", 2, 1, Bytes(8), Bytes(8), Bytes(8)});
  REQUIRE(all.size() == 2);
  CHECK(all[0] == LibraryCalls{"ring", "ll", 2, 4, Bytes(38), Bytes(8), Bytes(10)});
  CHECK(all[1].channels == 4);
}
