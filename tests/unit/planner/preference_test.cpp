// What is recommended among strategies that fit: risk first, then speed, then simplicity.
#include "planner/search/preference.hpp"

#include <algorithm>

#include "planner/evaluate/accuracy.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"
#include "tests/unit/planner/whole_space.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::all_that_fit;
using planner_test::question;
using planner_test::small_question;

namespace {

constexpr std::int64_t kShort = 4096, kLong = 131'072;

Strategy data_ranks(std::int64_t data) {
  Strategy s;
  s.data = data;
  return s;
}

Candidate candidate(const Strategy& s, double step, double share_of_usable = 0.5) {
  Candidate c;
  c.strategy = s;
  c.time.step = core::Seconds(step);
  c.memory.usable = core::gib(100);
  c.memory.worst.device =
      core::Bytes(static_cast<std::int64_t>(share_of_usable * core::gib(100).value()));
  c.uncertainty.out_of_memory =
      out_of_memory({share_of_usable, 1, memory_error(accuracy().memory_spread)});
  return c;
}

}  // namespace

TEST_CASE("classes of risk double the cap until everything that fits is in one") {
  const core::Bytes usable = core::gib(80);
  const RiskClasses classes(usable, 0.05, memory_error(0.07));
  const auto risk = [&](core::Bytes device) { return classes.probability(device); };
  CHECK(risk(classes.safe()) <= 0.05);
  CHECK(risk(classes.safe() + core::mib(1)) > 0.05);
  for (std::int64_t mebibytes = 1024; mebibytes <= 80 * 1024; mebibytes += 256) {
    const core::Bytes device = core::mib(mebibytes);
    int expected = 0;
    for (double cap = 0.05; cap < 0.9 && risk(device) > cap; cap *= 2) ++expected;
    CHECK(classes.of(device) == expected);
  }
}

TEST_CASE("a cap of 0 on the risk is one below what can be told from none") {
  const RiskClasses classes(core::gib(80), 0, memory_error(0.07));
  CHECK(classes.probability(classes.safe()) <= kNoRisk);
  CHECK(RiskClasses::of_probability(kNoRisk / 2, 0) == 0);
  CHECK(RiskClasses::of_probability(2 * kNoRisk, 0) > 0);
  Request r = question("llama3-8b", 8, "h100-sxm-80g");
  r.max_risk = 0;
  const Plan plan = pinned_plan(r);
  REQUIRE(plan.chosen);
  CHECK(plan.chosen->uncertainty.out_of_memory <= kNoRisk);
  CHECK(plan.because != Because::least_risky);
}

TEST_CASE("a bound's class is that of the least it may come to") {
  const RiskClasses classes(core::gib(80), 0.05, memory_error(0.07));
  const core::Bytes safe = classes.safe();
  CHECK(classes.of_bound(core::Bytes(static_cast<std::int64_t>(
            1.019 * static_cast<double>(safe.value())))) == 0);
  CHECK(classes.of_bound(core::Bytes(static_cast<std::int64_t>(
            1.021 * static_cast<double>(safe.value())))) == 1);
}

TEST_CASE("the order of simplicity is the documented one") {
  std::vector<Strategy> simpler_first;
  const auto add = [&](auto&& change) {
    Strategy s = data_ranks(8);
    change(s);
    simpler_first.push_back(s);
  };
  add([](Strategy&) {});
  add([](Strategy& s) { s.loss_chunks = 8; });
  add([](Strategy& s) { s.sharding = Sharding::zero1, s.shard_group = 8; });
  add([](Strategy& s) { s.sharding = Sharding::zero3, s.shard_group = 8; });
  add([](Strategy& s) { s.checkpoint = Checkpoint::every_k, s.checkpoint_every = 1; });
  add([](Strategy& s) { s.checkpoint = Checkpoint::pointwise; });
  add([](Strategy& s) { s.offload = {"optimizer"}; });
  add([](Strategy& s) { s.offload = {"params", "activations"}; });
  add([](Strategy& s) { s.tensor = 2; });
  add([](Strategy& s) { s.pipeline = 2, s.schedule = Schedule::gpipe; });
  add([](Strategy& s) { s.pipeline = 2, s.schedule = Schedule::zb_h1; });
  add([](Strategy& s) { s.pipeline = 2, s.stages = {5, 7}, s.schedule = Schedule::one_f_one_b; });
  add([](Strategy& s) {
    s.pipeline = s.virtual_stages = 2, s.schedule = Schedule::interleaved;
  });
  add([](Strategy& s) { s.context = 2; });
  add([](Strategy& s) { s.tensor = 2, s.pipeline = 2, s.schedule = Schedule::one_f_one_b; });
  for (std::size_t i = 1; i < simpler_first.size(); ++i) {
    INFO(to_text(simpler_first[i - 1]) << " before " << to_text(simpler_first[i]));
    CHECK(complexity(simpler_first[i - 1], kShort) < complexity(simpler_first[i], kShort));
  }
  // Long samples are divided by everybody.
  Strategy context = data_ranks(4), tensor = data_ranks(4);
  context.context = tensor.tensor = 2;
  CHECK(complexity(context, kLong) == complexity(tensor, kLong));
}

TEST_CASE("stages are uneven where their counts differ more than division makes them") {
  Strategy s;
  CHECK_FALSE(divides_unevenly(s));
  for (const auto& [stages, uneven] :
       {std::pair{std::vector<std::int64_t>{6, 6}, false}, {{7, 6}, false}, {{7, 5}, true},
        {{12, 13, 12, 11}, true}, {{8, 9, 9, 8}, false}, {{7, 9, 9, 7}, true}}) {
    s.stages = stages;
    CHECK(divides_unevenly(s) == uneven);
  }
}

TEST_CASE("within 2 % of the fastest the simplest is put first, and beyond it is not") {
  Request r;
  Job job;
  job.seq_len = kShort;
  Strategy exotic = data_ranks(4);
  exotic.pipeline = 2;
  exotic.schedule = Schedule::interleaved;
  const auto first = [&](double slower, double memory = 0.5) {
    std::vector<Candidate> all{candidate(exotic, 1), candidate(data_ranks(8), slower, memory)};
    const Because because = order_by_preference(all, job, r);
    return std::pair(all.front().strategy == exotic, because);
  };
  CHECK(first(1.019) == std::pair(false, Because::simplest));
  CHECK(first(1.021) == std::pair(true, Because::fastest));
  CHECK(first(0.99) == std::pair(false, Because::fastest));
  // Simplicity buys no risk that is worth a word: 0.79 of the usable bytes is 2.7 %.
  CHECK(first(1.01, 0.79) == std::pair(true, Because::fastest));
  r.simpler_within = 0;
  CHECK(first(1.001) == std::pair(true, Because::fastest));
}

TEST_CASE("of equally simple plans that are about as fast, the better known is put first") {
  Request r;
  Job job;
  job.seq_len = kShort;
  Strategy near = data_ranks(4), far = data_ranks(2);
  near.tensor = 2;
  far.tensor = 4;
  const auto ranged = [](Candidate c, double factor) {
    c.uncertainty.step_low = c.time.step / factor;
    c.uncertainty.step_high = c.time.step * factor;
    return c;
  };
  const auto first = [&](double slower, double factor) {
    std::vector<Candidate> all{ranged(candidate(far, 1), 1.3),
                               ranged(candidate(near, slower), factor)};
    const Because because = order_by_preference(all, job, r);
    return std::pair(all.front().strategy == far, because);
  };
  CHECK(first(1.01, 1.2) == std::pair(false, Because::best_known));
  CHECK(first(1.01, 1.29) == std::pair(true, Because::fastest));
  CHECK(first(1.03, 1.2) == std::pair(true, Because::fastest));
}

TEST_CASE("a split backward pass is put first where it gains more than 5 %") {
  Request r;
  r.simpler_within = 0;
  Job job;
  job.seq_len = kShort;
  Strategy split = data_ranks(4), whole = split;
  split.pipeline = whole.pipeline = 2;
  split.schedule = Schedule::zb_v;
  whole.schedule = Schedule::one_f_one_b;
  const auto puts_split_first = [&](double slower) {
    std::vector<Candidate> all{candidate(split, 1), candidate(whole, slower)};
    order_by_preference(all, job, r);
    return all.front().strategy == split;
  };
  CHECK_FALSE(puts_split_first(1.04));
  CHECK(puts_split_first(1.06));
}

TEST_CASE("weights that each layer gathers are put first where they gain more than 5 %") {
  Request r;
  Job job;
  job.seq_len = kShort;
  Strategy whole = data_ranks(8), state = whole, weights = whole;
  state.sharding = Sharding::zero1;
  weights.sharding = Sharding::zero3;
  const auto first = [&](double of_state, double of_whole, double memory = 0.5) {
    std::vector<Candidate> all{candidate(weights, 1), candidate(state, of_state, memory),
                               candidate(whole, of_whole, memory)};
    order_by_preference(all, job, r);
    return all.front().strategy.sharding;
  };
  CHECK(first(1.04, 1.045) == Sharding::none);   // these two are about as fast
  CHECK(first(1.02, 1.045) == Sharding::zero1);
  CHECK(first(1.06, 1.07) == Sharding::zero3);
  CHECK(first(1.04, 1.045, 0.79) == Sharding::zero3);  // not for a risk worth a word
  const auto margin = margin_over(job, weights, whole);
  REQUIRE(margin);
  CHECK(margin->factor == 1 + kGatheringGains);
  CHECK_FALSE(margin_over(job, state, whole));
  // Of other degrees the margin does not speak.
  Strategy divided = data_ranks(4);
  divided.tensor = 2;
  CHECK_FALSE(margin_over(job, weights, divided));
  r.simpler_within = 0;
  CHECK(first(1.001, 1.002) == Sharding::zero3);
}

TEST_CASE("nothing above the cap is put first while something below it fits, however slow") {
  Request r;
  Job job;
  job.seq_len = kShort;
  Strategy slow = data_ranks(8);
  slow.checkpoint = Checkpoint::every_k;
  slow.checkpoint_every = 1;
  std::vector<Candidate> all{candidate(data_ranks(8), 1, 0.97), candidate(slow, 3, 0.6)};
  CHECK(order_by_preference(all, job, r) == Because::fastest);
  CHECK(all.front().strategy == slow);
  r.max_risk = 1;
  order_by_preference(all, job, r);
  CHECK(all.front().strategy == data_ranks(8));
  // Nothing is below it: the least risky class, not the fastest of all.
  r.max_risk = 0.05;
  all = {candidate(data_ranks(8), 1, 0.99), candidate(slow, 1.2, 0.88)};
  CHECK(order_by_preference(all, job, r) == Because::least_risky);
  CHECK(all.front().strategy == slow);
}

TEST_CASE("no plan is recommended above the cap where the question has one below it") {
  for (const auto& [model, gpus, gpu] :
       {std::tuple{"llama3-70b", 64, "h100-sxm-80g"}, {"llama3-8b", 8, "h100-sxm-80g"},
        {"llama3-8b", 8, "a100-sxm-80g"}, {"llama2-13b", 8, "a100-sxm-40g"},
        {"gpt3-175b", 1024, "a100-sxm-80g"}, {"gpt2-1.5b", 8, "rtx3090"}}) {
    Request r = question(model, gpus, gpu);
    const Plan plan = pinned_plan(r);
    REQUIRE(plan.chosen);
    INFO(model << " on " << gpus << " x " << gpu << ": " << to_text(plan.chosen->strategy));
    CHECK(plan.chosen->uncertainty.out_of_memory <= 0.05);
    CHECK((plan.because == Because::fastest || plan.because == Because::simplest));
    r.max_risk = 1;
    r.simpler_within = 0;
    const Plan bold = pinned_plan(r);
    // What hosts can hold is asked for where the safe plans are slow: the bold one may lack it.
    CHECK((bold.chosen->time.step <= 1.001 * plan.chosen->time.step ||
           !plan.chosen->strategy.offload.empty()));
    for (const OtherMachine& other : plan.other_machines)
      if (other.candidate) CHECK(other.candidate->uncertainty.out_of_memory <= 0.05);
  }
}

// Against every strategy of small spaces, each lowered and replayed.
TEST_CASE("what an unusual part is said to earn, it earns against the whole space") {
  const Request asked = GENERATE(small_question("gpt2-1.5b", "rtx4090", 1, 16),
                                 small_question("gpt2-774m", "rtx3080", 2, 8),
                                 small_question("gpt2-355m", "rtx3080", 1, 16),
                                 small_question("gpt2-1.5b", "rtx3090", 2, 8));
  const Plan plan = pinned_plan(asked);
  REQUIRE(plan.chosen);
  INFO(plan.model.name << " on " << plan.gpus << " x " << plan.profile.gpu.id << ": "
                       << to_text(plan.chosen->strategy));
  const int risk = rank_of(plan.job, *plan.chosen, asked).risk;
  const std::vector<Candidate> all = all_that_fit(asked);
  // The recommendation itself: nothing as safe is faster by more than what simplicity may cost.
  for (const Candidate& c : all)
    if (rank_of(plan.job, c, asked).risk <= risk)
      CHECK(plan.chosen->time.step <= 1.04 * c.time.step);
  const auto parts = unusual_parts(plan.chosen->strategy, plan.job.seq_len);
  REQUIRE(parts.size() == plan.earned.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].has == &divides_unevenly) continue;  // held against the even division alone
    const Earned& earned = plan.earned[i];
    INFO(earned.part);
    for (const Candidate& c : all) {
      if (parts[i].has(c.strategy) || rank_of(plan.job, c, asked).risk > risk) continue;
      INFO("without it: " << to_text(c.strategy));
      REQUIRE(earned.without);
      CHECK(earned.step <= 1.02 * c.time.step);
    }
  }
}

TEST_CASE("nothing is recommended that the hosts do not hold, finalists' variants included") {
  Request r = question("qwen3-32b", 2, "rtx4090");
  r.job.lora_rank = 16;
  r.job.quantization = "nf4";
  const Plan plan = pinned_plan(r);
  REQUIRE(plan.chosen);
  REQUIRE(plan.profile.node.host_memory);
  const auto hosts_hold = [&](const Candidate& c) {
    INFO(to_text(c.strategy));
    CHECK(2 * c.memory.worst.host.value() <= plan.profile.node.host_memory->value());
  };
  hosts_hold(*plan.chosen);
  std::ranges::for_each(plan.alternatives, hosts_hold);
  std::ranges::for_each(plan.pareto, hosts_hold);
}
