#include <algorithm>
#include <array>
#include <vector>

#include "tests/catch.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using core::DType;
using program::Algorithm;
using program::Collective;
using program::ReduceOp;
using program::Traffic;
using Floats = std::vector<float>;

namespace {

// What one training step leaves behind: weights per worker and totals per group index.
struct Outcome {
  std::vector<std::vector<double>> weights;
  std::vector<TrafficTotals> worker, server;
};

float gradient_of(int worker, std::int64_t i) {
  return 1.0f / static_cast<float>(3 + worker * 7 + i);  // sums round
}

TrafficTotals entry(const Communicator& c, bool server) {
  const TrafficKey key{Traffic::gradients, Collective::parameter_server,
                       Algorithm::parameter_server, c.size(), server};
  const auto found = c.statistics().entries.find(key);
  return found == c.statistics().entries.end() ? TrafficTotals{} : found->second;
}

// The server's update here is: weight = the sum, as f64 (pushes and replies of different types).
Outcome step(const ServerLayout& layout, std::int64_t n) {
  const int ranks = layout.workers + (layout.colocated ? 0 : layout.servers);
  const auto size = static_cast<std::size_t>(ranks);
  Outcome out{std::vector(size, std::vector<double>(static_cast<std::size_t>(n), -1)),
              std::vector<TrafficTotals>(size), std::vector<TrafficTotals>(size)};
  run_group(ranks, [&](Communicator& c) {
    c.use_servers(layout);
    const bool worker = c.index() < layout.workers;
    const int m = c.index() - (layout.colocated ? 0 : layout.workers);
    if (worker) {
      Floats gradient;
      for (std::int64_t i = 0; i < n; ++i) gradient.push_back(gradient_of(c.index(), i));
      c.push(3, gradient.data(), n, DType::f32, Traffic::gradients);
    }
    if (m >= 0 && m < layout.servers) {
      Floats sum(static_cast<std::size_t>(program::padded(n, layout.servers) / layout.servers));
      c.collect(3, sum.data(), n, DType::f32, ReduceOp::sum, Traffic::gradients);
      const std::vector<double> weights(sum.begin(), sum.end());
      c.reply(3, weights.data(), n, DType::f64, Traffic::gradients);
    }
    if (worker) c.pull(3, out.weights[c.index()].data(), n, DType::f64, Traffic::gradients);
    out.worker[c.index()] = entry(c, false);
    out.server[c.index()] = entry(c, true);
  });
  return out;
}

void check_step(const ServerLayout& layout, std::int64_t n) {
  INFO("K=" << layout.workers << " M=" << layout.servers << " colocated " << layout.colocated
            << " n=" << n);
  const Outcome out = step(layout, n);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < n; ++i) {
    float sum = gradient_of(0, i);
    for (int w = 1; w < layout.workers; ++w) sum += gradient_of(w, i);
    expected.push_back(sum);
  }
  for (int w = 0; w < layout.workers; ++w) {
    const auto stated = program::server_traffic(layout.workers, layout.servers, layout.colocated, w,
                                                n, DType::f32, DType::f64);
    CHECK(out.weights[w] == expected);
    CHECK(out.worker[w].wire == stated.push_per_worker);
  }
  const auto stated = program::server_traffic(layout.workers, layout.servers, layout.colocated, 0,
                                              n, DType::f32, DType::f64);
  for (int m = 0; m < layout.servers; ++m) {
    CHECK(out.server[layout.index_of_server(m)].wire == stated.reply_per_server);
  }
}

}  // namespace

TEST_CASE("servers fold ascending and move what server_traffic states") {
  for (int workers = 1; workers <= 6; ++workers) {
    for (int servers : {1, 2, 3, 5}) {
      for (std::int64_t n : {1, 12, 13}) {
        if (workers + servers > 1) check_step({workers, servers, false}, n);
        if (servers <= workers && workers > 1) check_step({workers, servers, true}, n);
      }
    }
  }
}

TEST_CASE("a worker's push and a server's reply are separate entries of one call each") {
  // K = 2, M = 1 apart, n = 12: push 12 * 4 B; reply 2 * 12 * 8 B, payload 12 * 8 B
  const Outcome out = step({2, 1, false}, 12);
  CHECK(out.worker[0].calls == 1);
  CHECK(out.worker[0].payload == core::Bytes(48));
  CHECK(out.worker[0].wire == core::Bytes(48));
  CHECK(out.server[2].calls == 1);
  CHECK(out.server[2].payload == core::Bytes(96));
  CHECK(out.server[2].wire == core::Bytes(192));
  CHECK(out.server[0].calls == 0);
  TrafficKey key;
  key.collective = Collective::parameter_server;
  key.server = true;
  CHECK(collective_name(key) == "parameter_server.server");
}

TEST_CASE("an asynchronous server answers each worker as it comes") {
  constexpr int kWorkers = 3, kSteps = 20;
  Floats finished(kWorkers);
  float weight = 0;
  std::array<int, kWorkers> pushes{};
  run_group(kWorkers + 1, [&](Communicator& c) {
    c.use_servers({kWorkers, 1, false});
    const float one = 1;
    if (c.index() < kWorkers) {
      for (int s = 0; s < kSteps; ++s) {
        c.push(0, &one, 1, DType::f32, Traffic::gradients);
        c.pull(0, &finished[c.index()], 1, DType::f32, Traffic::gradients);
      }
      return;
    }
    for (int i = 0; i < kWorkers * kSteps; ++i) {
      const PendingPush push = c.next_push();
      float gradient = 0;
      c.take_push(push, &gradient, Traffic::gradients);
      weight += gradient;
      ++pushes[push.worker];
      c.reply_to(push.worker, push.key, &weight, 1, DType::f32, Traffic::gradients);
    }
  });
  CHECK(weight == kWorkers * kSteps);
  CHECK(pushes == std::array<int, kWorkers>{kSteps, kSteps, kSteps});
  // The last reply of all carries every push; no reply carries fewer than the worker's own.
  CHECK(*std::max_element(finished.begin(), finished.end()) == kWorkers * kSteps);
  CHECK(*std::min_element(finished.begin(), finished.end()) >= kSteps);
}
