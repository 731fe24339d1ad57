// GPUs of several kinds: shares of micro-batches, stages of different paces, the closed form
// against the lowering, and what is chosen.
#include <algorithm>
#include <map>

#include "core/random.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/stages.hpp"
#include "planner/search/uneven.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::question;

namespace {

Request on_kinds(const std::string& model,
                 const std::vector<std::pair<std::int64_t, std::string>>& kinds) {
  std::vector<hw_profiles::CountedProfile> counted;
  std::int64_t gpus = 0;
  for (const auto& [count, name] : kinds) {
    counted.push_back({count, hw_profiles::find_profile(name).value()});
    gpus += count;
  }
  Request r = question(model, gpus, kinds.front().second);
  r.profile = hw_profiles::mixed(std::move(counted), false, "test").value();
  return r;
}

Request on_h100_and_a100(const std::string& model) {
  Request r = on_kinds(model, {{8, "h100-sxm-80g"}, {8, "a100-sxm-80g"}});
  r.gpu_given = true;
  return r;
}

core::Seconds longest(const std::vector<Pace>& paces, const std::vector<std::int64_t>& shares) {
  core::Seconds most{};
  for (std::size_t k = 0; k < paces.size(); ++k)
    most = std::max(most, paces[k].fixed + paces[k].each * static_cast<double>(shares[k]));
  return most;
}

// The least over all whole numbers.
core::Seconds least_of_all(const std::vector<Pace>& paces, std::int64_t all,
                           std::vector<std::int64_t> shares = {}) {
  const std::size_t k = shares.size();
  core::Seconds least{1e300};
  if (k + 1 == paces.size()) {
    if (all % paces[k].ranks != 0 || all < paces[k].ranks) return least;
    shares.push_back(all / paces[k].ranks);
    return longest(paces, shares);
  }
  for (std::int64_t m = 1; m * paces[k].ranks < all; ++m) {
    std::vector<std::int64_t> next = shares;
    next.push_back(m);
    least = std::min(least, least_of_all(paces, all - m * paces[k].ranks, next));
  }
  return least;
}

std::int64_t paced_time(const StageLoads& loads, const StageLimits& limits,
                        const std::vector<std::int64_t>& stages) {
  double most = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::int64_t time = (i == 0 ? loads.embeddings.time : 0) +
                        (i + 1 == stages.size() ? loads.head.time : 0);
    for (std::int64_t l = first; l < first + stages[i]; ++l)
      time += loads.layers[loads.repeat > 1 ? 0 : static_cast<std::size_t>(l)].time;
    first += stages[i];
    most = std::max(most, static_cast<double>(time) * limits.paces[i].slowness);
  }
  return static_cast<std::int64_t>(most + 0.5);
}

// Over all divisions of the layers over the stages that hold in memory.
std::int64_t least_paced(const StageLoads& loads, const StageLimits& limits,
                         std::vector<std::int64_t> stages = {}, std::int64_t taken = 0) {
  const std::int64_t left = loads.count() - taken;
  const auto r = static_cast<std::int64_t>(stages.size());
  if (r + 1 == limits.stages) {
    stages.push_back(left);
    return fits(loads, limits, stages) ? paced_time(loads, limits, stages) : INT64_MAX;
  }
  std::int64_t least = INT64_MAX;
  for (std::int64_t n = 1; n <= left - (limits.stages - r - 1); ++n) {
    std::vector<std::int64_t> next = stages;
    next.push_back(n);
    least = std::min(least, least_paced(loads, limits, next, taken + n));
  }
  return least;
}

}  // namespace

TEST_CASE("shares end the step as early as any whole numbers of micro-batches do") {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const core::Random random(7, seed);
    const auto pick = [&](std::uint64_t i, int low, int high) {
      return low + static_cast<int>(random.uniform(i) * (high - low + 1));
    };
    std::vector<Pace> paces;
    const int kinds = pick(0, 2, 3);
    for (int k = 0; k < kinds; ++k) {
      const auto at = static_cast<std::uint64_t>(k);
      paces.push_back({pick(10 + at, 1, 6), core::Seconds(random.uniform(20 + at) * 0.5),
                       core::Seconds(0.05 + random.uniform(30 + at))});
    }
    const std::int64_t all = pick(1, 8, 90);
    const std::vector<std::int64_t> shares = best_shares(paces, all);
    const core::Seconds least = least_of_all(paces, all);
    INFO("seed " << seed << ", " << all << " micro-batches");
    if (shares.empty()) {
      CHECK(least.value() > 1e299);
      continue;
    }
    ++found;
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < paces.size(); ++k) sum += shares[k] * paces[k].ranks;
    CHECK(sum == all);
    CHECK(longest(paces, shares).value() == Approx(least.value()).epsilon(1e-12));
  }
  CHECK(found > 150);
}

TEST_CASE("stages of different paces are as fast as any division is") {
  int divided = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const core::Random random(11, seed);
    const auto pick = [&](std::uint64_t i, int low, int high) {
      return low + static_cast<int>(random.uniform(i) * (high - low + 1));
    };
    StageLoads loads;
    const int layers = pick(0, 4, 10), p = pick(1, 2, 4);
    const bool alike = random.uniform(2) < 0.5;
    for (int l = 0; l < layers; ++l)
      loads.layers.push_back({1000 * pick(alike ? 3 : 100 + static_cast<std::uint64_t>(l), 1, 9),
                              10 * pick(4, 1, 3), 4});
    if (alike) {
      loads.repeat = layers;
      loads.layers.resize(1);
    }
    loads.embeddings = {1000 * pick(5, 0, 5), 20, 1};
    loads.head = {1000 * pick(6, 0, 5), 20, 1};
    StageLimits limits{.stages = p};
    for (int r = 0; r < p; ++r) limits.in_flight.push_back(p - r);
    for (int r = 0; r < p; ++r)
      limits.paces.push_back({1 + pick(7, 0, 3) * (2 * r >= p ? 1.0 : 0.0),
                              random.uniform(8) < 0.5 ? INT64_MAX : 60 + 10 * pick(9, 0, 12)});
    INFO("seed " << seed);
    const auto stages = divide(loads, limits);
    const std::int64_t least = least_paced(loads, limits);
    CHECK(stages.has_value() == (least < INT64_MAX));
    if (!stages || least == INT64_MAX) continue;
    ++divided;
    CHECK(fits(loads, limits, *stages));
    CHECK(paced_time(loads, limits, *stages) == least);
  }
  CHECK(divided > 100);
}

TEST_CASE("on GPUs of two kinds the closed form is the lowering's") {
  const Request r = on_h100_and_a100("gpt2-1.5b");
  Job job = r.job;
  job.seq_len = 1024;
  job.global_batch = 128;
  const Question q = make_question(r.model, job, r.profile, r.gpus).value();
  Explorer explorer({q}, 0.05);
  const Constraints none;
  explorer.explore(structures(job, {16, 8, q.model.layers, 0}, none), none);
  explorer.explore_also(uneven_structures(explorer.structures(), q, none));
  std::vector<double> errors;
  int shared = 0, crossing = 0;
  const std::vector<Entry>& entries = explorer.entries(0);
  for (std::size_t i = 0; i < entries.size(); i += 101) {
    const Strategy s = explorer.strategy(entries[i]);
    INFO(to_text(s) << " stages " << stages_text(s.stages));
    shared += !s.shares.empty();
    crossing += s.pipeline > 1 && s.shares.empty();
    const auto graph =
        models::build_graph(q.model, graph_options(job, s, q.profile.framework)).value();
    const program::Program program = lower(graph, job, s, policy_of(q));
    const double step = step_time(program, q.machine, s.schedule).step.value();
    errors.push_back(std::abs(entries[i].step.value() / step - 1));
    CHECK(errors.back() < 0.12);
    const Memory memory = memory_of(program, q.profile, false);
    const double share = static_cast<double>(memory.worst.device.value()) /
                         static_cast<double>(memory.usable.value());
    const double bound = static_cast<double>(entries[i].device.value()) /
                         static_cast<double>(q.profile.gpu.usable.value());
    CHECK(bound >= share * (1 - 1e-9));
    CHECK(bound <= share * 1.02);
  }
  std::ranges::sort(errors);
  CHECK(shared > 5);
  CHECK(crossing > 5);
  CHECK(errors[errors.size() / 2] < 0.02);
}

TEST_CASE("two kinds of GPUs are faster together than either alone") {
  const Plan both = pinned_plan(on_h100_and_a100("gpt2-1.5b"));
  REQUIRE(both.chosen);
  CHECK_FALSE(both.chosen->strategy.shares.empty());
  for (const char* name : {"h100-sxm-80g", "a100-sxm-80g"}) {
    Request one = question("gpt2-1.5b", 8, name);
    one.gpu_given = true;
    one.job = both.job;
    CHECK(pinned_plan(one).chosen->time.step > both.chosen->time.step);
  }
  // Without shares, the faster GPUs wait for the slower ones.
  const Plan equal = pinned_plan(on_h100_and_a100("gpt2-1.5b"), {"shares=auto", "pipeline=1"});
  CHECK(equal.chosen->strategy.shares.empty());
  CHECK(equal.chosen->time.step > 1.3 * both.chosen->time.step);
}

TEST_CASE("a model that has to be divided has more layers on the faster GPUs") {
  const Plan plan = pinned_plan(on_h100_and_a100("gpt2-1.5b"),
                                {"pipeline=2", "schedule=1f1b", "shares=auto"});
  REQUIRE(plan.chosen);
  const std::vector<std::int64_t>& stages = plan.chosen->strategy.stages;
  REQUIRE(stages.size() == 2);
  CHECK(stages[0] > 2 * stages[1]);
}

TEST_CASE("shares are tried in frameworks that can run them") {
  Request r = on_h100_and_a100("gpt2-1.5b");
  REQUIRE(hw_profiles::use_framework(r.profile, "megatron_core", "test").ok());
  r.job.framework = "megatron_core";
  const Plan plan = pinned_plan(r);
  REQUIRE(plan.chosen);
  CHECK(plan.chosen->strategy.shares.empty());
}

TEST_CASE("each rank's memory is held to its own GPU's") {
  // 24 GB cards beside 80 GB cards: what fits the larger need not fit the smaller.
  const Plan plan = pinned_plan(on_kinds("gpt2-1.5b", {{2, "a100-pcie-80g"}, {2, "rtx4090"}}));
  REQUIRE(plan.chosen);
  const core::Bytes small = hw_profiles::find_profile("rtx4090")->gpu.usable;
  CHECK(plan.chosen->memory.usable == small);
  CHECK(plan.chosen->memory.worst.device <= small);
}
