#include "sim/program/collective.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"

using namespace program;
using core::Bytes;
using core::DType;

namespace {

constexpr Algorithm kReducing[] = {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce,
                                   Algorithm::parameter_server};

// Follows an order on expressions instead of numbers: "((a+b)+c)".
std::string spelled(const ReductionOrder& order, int group) {
  std::vector<std::string> acc;
  for (int i = 0; i < group; ++i) acc.emplace_back(1, static_cast<char>('a' + i));
  for (const ReductionStep& s : order.steps) {
    acc[s.into] = "(" + acc[s.into] + "+" + acc[s.from] + ")";
  }
  return acc[order.result];
}

std::string spelled(Algorithm a, int group, int chunk) {
  return spelled(reduction_order(a, group, chunk), group);
}

Bytes all_reduce_wire(Algorithm a, int group, int index, std::int64_t n) {
  return wire_bytes(Collective::all_reduce, a, group, index, n, DType::f32);
}

}  // namespace

TEST_CASE("naive all-reduce sends d(K-1) per rank") {
  // 1000 floats, K = 4: 1000 * 4 B * 3 = 12000 B
  for (int i = 0; i < 4; ++i) {
    CHECK(all_reduce_wire(Algorithm::naive_all_reduce, 4, i, 1000) == Bytes(12000));
  }
}

TEST_CASE("ring all-reduce sends 2d(K-1)/K per rank, and padding counts") {
  // 1000 floats, K = 4: 2 * 4000 B * 3/4 = 6000 B
  CHECK(all_reduce_wire(Algorithm::ring, 4, 3, 1000) == Bytes(6000));
  // 10 floats, K = 4, padded to 12: 2 * 48 B * 3/4 = 72 B
  CHECK(all_reduce_wire(Algorithm::ring, 4, 0, 10) == Bytes(72));
  CHECK(payload_bytes(Collective::all_reduce, Algorithm::ring, 4, 0, 10, DType::f32) == Bytes(48));
  // One element over 8 ranks is padded to 8: 2 * 32 B * 7/8 = 56 B
  CHECK(all_reduce_wire(Algorithm::ring, 8, 5, 1) == Bytes(56));
}

TEST_CASE("an exchange sends S(K-1)/K, chunk by chunk, and adds nothing up") {
  // 1000 floats, K = 4: 4000 B x 3/4 = 3000 B
  for (int i = 0; i < 4; ++i)
    CHECK(wire_bytes(Collective::exchange, Algorithm::pairwise, 4, i, 1000, DType::f32) ==
          Bytes(3000));
  CHECK(payload_bytes(Collective::exchange, Algorithm::pairwise, 4, 1, 1000, DType::f32) ==
        Bytes(4000));
  CHECK(wire_bytes(Collective::exchange, Algorithm::pairwise, 1, 0, 1000, DType::f32) == Bytes(0));
  CHECK(name(Collective::exchange) == "exchange");
  CHECK(algorithm_from_name("pairwise") == Algorithm::pairwise);
  CHECK(name(Traffic::expert) == "expert");
}

TEST_CASE("a ring of sends moves each rank's whole vector to the next, as sendrecv of nccl-tests") {
  for (int i = 0; i < 3; ++i)          // 10 floats, not padded to 12
    CHECK(wire_bytes(Collective::send, Algorithm::ring, 3, i, 10, DType::f32) == Bytes(40));
  CHECK(payload_bytes(Collective::send, Algorithm::ring, 3, 1, 10, DType::f32) == Bytes(40));
  CHECK(wire_bytes(Collective::send, Algorithm::ring, 1, 0, 10, DType::f32) == Bytes(0));
  CHECK(wire_bytes(Collective::send, Algorithm::direct, 2, 1, 10, DType::f32) == Bytes(0));
}

TEST_CASE("ring all-reduce volume tends to 2d and stays below it") {
  const std::int64_t n = 1 << 20;  // divisible by every group below
  for (int k = 2; k <= 1024; k *= 2) {
    const Bytes wire = all_reduce_wire(Algorithm::ring, k, 0, n);
    CHECK(wire < Bytes(8 * n));
    CHECK(wire == Bytes(8 * n - 8 * n / k));
  }
}

TEST_CASE("an all-reduce is a reduce-scatter and an all-gather") {
  for (int k = 1; k <= 9; ++k) {
    for (std::int64_t n : {0, 1, 7, 64, 1001}) {
      const Bytes scatter =
          wire_bytes(Collective::reduce_scatter, Algorithm::ring, k, 0, n, DType::bf16);
      const Bytes gather =
          wire_bytes(Collective::all_gather, Algorithm::ring, k, 0, n, DType::bf16);
      CHECK(scatter + gather ==
            wire_bytes(Collective::all_reduce, Algorithm::ring, k, 0, n, DType::bf16));
    }
  }
}

TEST_CASE("a tree sends the vector up once and down once per child") {
  // K = 6: 0 has children 1, 2; 1 has 3, 4; 2 has 5. 100 floats = 400 B a message.
  const std::int64_t messages[] = {2, 1 + 2, 1 + 1, 1, 1, 1};
  for (int i = 0; i < 6; ++i) {
    CHECK(all_reduce_wire(Algorithm::tree, 6, i, 100) == Bytes(400 * messages[i]));
  }
  for (int k = 1; k <= 17; ++k) {  // K-1 edges, each crossed twice
    Bytes total{0};
    for (int i = 0; i < k; ++i) total += all_reduce_wire(Algorithm::tree, k, i, 3);
    CHECK(total == Bytes(12 * 2 * (k - 1)));
  }
}

TEST_CASE("broadcast and send load index 0 alone") {
  const auto wire = [](Collective c, int index) {
    return wire_bytes(c, Algorithm::direct, 4, index, 10, DType::f16);
  };
  CHECK(wire(Collective::broadcast, 0) == Bytes(60));
  CHECK(wire(Collective::broadcast, 2) == Bytes(0));
  CHECK(wire(Collective::send, 0) == Bytes(20));
  CHECK(wire(Collective::send, 1) == Bytes(0));
}

TEST_CASE("a group of one sends nothing and pads nothing") {
  for (Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce}) {
    CHECK(all_reduce_wire(a, 1, 0, 1001) == Bytes(0));
    CHECK(payload_bytes(Collective::all_reduce, a, 1, 0, 1001, DType::f32) == Bytes(4004));
    CHECK(spelled(a, 1, 0) == "a");
  }
  CHECK(wire_bytes(Collective::broadcast, Algorithm::direct, 1, 0, 5, DType::f32) == Bytes(0));
}

TEST_CASE("one server apart receives d from each worker and sends dK") {
  // 1000 elements, K = 4; gradients bf16, weights f32
  const ServerTraffic t = server_traffic(4, 1, false, 2, 1000, DType::bf16, DType::f32);
  CHECK(t.push_per_worker == Bytes(2000));
  CHECK(t.reply_per_server == Bytes(4 * 4000));
}

TEST_CASE("M servers apart send dK/M each, colocated ones d(K-1)/M") {
  // K = 4, M = 2: 4000 B * 4/2 = 8000 B; colocated 4000 B * 3/2 = 6000 B
  CHECK(server_traffic(4, 2, false, 0, 1000, DType::f32, DType::f32).reply_per_server ==
        Bytes(8000));
  CHECK(server_traffic(4, 2, true, 0, 1000, DType::f32, DType::f32).reply_per_server ==
        Bytes(6000));
  // A server that works keeps its own half of the 4000 B; a plain worker sends both.
  CHECK(server_traffic(4, 2, true, 1, 1000, DType::f32, DType::f32).push_per_worker == Bytes(2000));
  CHECK(server_traffic(4, 2, true, 2, 1000, DType::f32, DType::f32).push_per_worker == Bytes(4000));
}

TEST_CASE("a server on every worker moves what a ring moves") {
  // Push d(K-1)/K and reply d(K-1)/K: together the 2d(K-1)/K of the ring.
  for (int k = 1; k <= 8; ++k) {
    const ServerTraffic t = server_traffic(k, k, true, 0, 1001, DType::f32, DType::f32);
    CHECK(t.push_per_worker + t.reply_per_server == all_reduce_wire(Algorithm::ring, k, 0, 1001));
  }
}

TEST_CASE("servers pad the vector to a multiple of their number") {
  // 10 floats over 4 servers: chunks of 3, padded to 12
  CHECK(payload_bytes(Collective::parameter_server, Algorithm::parameter_server, 2, 4, 10,
                      DType::f32) == Bytes(48));
  CHECK(server_traffic(2, 4, false, 0, 10, DType::f32, DType::f32).push_per_worker == Bytes(48));
}

TEST_CASE("reduction orders are those worked by hand for K = 2, 3, 4") {
  CHECK(spelled(Algorithm::ring, 2, 0) == "(b+a)");
  CHECK(spelled(Algorithm::ring, 2, 1) == "(a+b)");
  CHECK(spelled(Algorithm::ring, 3, 0) == "((b+c)+a)");
  CHECK(spelled(Algorithm::ring, 3, 1) == "((c+a)+b)");
  CHECK(spelled(Algorithm::ring, 3, 2) == "((a+b)+c)");
  CHECK(spelled(Algorithm::ring, 4, 1) == "(((c+d)+a)+b)");
  CHECK(spelled(Algorithm::naive_all_reduce, 4, 2) == "(((a+b)+c)+d)");
  CHECK(spelled(Algorithm::parameter_server, 3, 0) == "((a+b)+c)");
  CHECK(spelled(Algorithm::tree, 2, 0) == "(a+b)");
  CHECK(spelled(Algorithm::tree, 3, 1) == "((a+b)+c)");
  CHECK(spelled(Algorithm::tree, 4, 0) == "((a+(b+d))+c)");
}

TEST_CASE("every order sums each contribution exactly once") {
  for (Algorithm a : kReducing) {
    for (int group = 1; group <= 26; ++group) {
      for (int chunk = 0; chunk < group; ++chunk) {
        const std::string text = spelled(a, group, chunk);
        INFO(name(a) << " K=" << group << " chunk " << chunk << ": " << text);
        for (int i = 0; i < group; ++i) {
          const char letter = static_cast<char>('a' + i);
          CHECK(text.find(letter) != std::string::npos);
          CHECK(text.find(letter) == text.rfind(letter));
        }
      }
    }
  }
}

TEST_CASE("algorithm names are read back") {
  for (Algorithm a : kReducing) CHECK(algorithm_from_name(name(a)) == a);
  CHECK_FALSE(algorithm_from_name("rings").has_value());
  CHECK(name(Collective::parameter_server) == "parameter_server");
  CHECK(name(Traffic::norm) == "norm");
}
