#include "planner/plan/robust_json.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/evaluate/candidate_json.hpp"

namespace planner {
namespace {

using core::Json;
using core::JsonReader;
using core::NumberRange;

constexpr NumberRange kLikely{0, 1, false}, kSlowdown{1, 1e6}, kShare{0, 1}, kGrowth{-1, 1e9};

Json step_json(const RobustStep& s) {
  Json one = Json::array();
  for (const RobustStep::One& o : s.one_slow)
    one.push_back(Json::object({{"slowdown", o.slowdown},
                                {"link_share", o.link_share},
                                {"growth", o.growth}}));
  return Json::object({{"step", s.step.value()},
                       {"mean", s.mean.value()},
                       {"slowed_scenarios", s.slowed},
                       {"one_slow", std::move(one)}});
}

RobustStep read_step(JsonReader& r, std::int64_t scenarios) {
  RobustStep s;
  s.scenarios = scenarios;
  r.required("step", s.step, kFileSeconds);
  r.required("mean", s.mean, kFileSeconds);
  r.required("slowed_scenarios", s.slowed, kFileCount);
  for (JsonReader& one : r.objects("one_slow")) {
    RobustStep::One o;
    one.required("slowdown", o.slowdown, kSlowdown);
    one.required("link_share", o.link_share, kShare);
    one.required("growth", o.growth, kGrowth);
    s.one_slow.push_back(o);
  }
  return s;
}

}  // namespace

Json random_json(const std::vector<RandomSlow>& random) {
  Json array = Json::array();
  for (const RandomSlow& r : random)
    array.push_back(Json::object({{"probability", r.probability},
                                  {"slowdown", r.slowdown},
                                  {"link_share", r.link_share},
                                  {"steps", r.steps}}));
  return array;
}

Json robust_json(const Robust& robust) {
  Json candidates = Json::array();
  for (const RobustStep& s : robust.steps) candidates.push_back(step_json(s));
  return Json::object(
      {{"random", random_json(robust.asked.random)},
       {"quantile", robust.asked.quantile},
       {"scenarios", robust.steps.empty() ? std::int64_t{0} : robust.steps.front().scenarios},
       {"seed", static_cast<std::int64_t>(robust.asked.seed)},
       {"candidates", std::move(candidates)}});
}

Robust read_robust(JsonReader& reader, std::size_t candidates) {
  Robust robust;
  std::int64_t scenarios = 0, seed = 0;
  reader.required("quantile", robust.asked.quantile, kLikely);
  reader.required("scenarios", scenarios, kFileCount);
  reader.required("seed", seed, kFileCount);
  robust.asked.scenarios = scenarios;
  robust.asked.seed = static_cast<std::uint64_t>(seed);
  for (JsonReader& r : reader.objects("random")) {
    RandomSlow kind;
    r.required("probability", kind.probability, kLikely);
    r.required("slowdown", kind.slowdown, kSlowdown);
    r.required("link_share", kind.link_share, kShare);
    r.required("steps", kind.steps, core::IntRange{1, std::int64_t{1} << 40});
    robust.asked.random.push_back(kind);
  }
  for (JsonReader& r : reader.objects("candidates"))
    robust.steps.push_back(read_step(r, scenarios));
  const auto wrong = [&](const RobustStep& s) {
    return s.one_slow.size() != robust.asked.random.size();
  };
  if (robust.steps.size() != candidates || std::ranges::any_of(robust.steps, wrong))
    reader.problem("candidates",
                   fmt::format("{} of them, each with {} in one_slow", candidates,
                               robust.asked.random.size()),
                   fmt::format("{}", robust.steps.size()), "plan again");
  return robust;
}

}  // namespace planner
