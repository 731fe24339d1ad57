#pragma once
// Plan: the answer to a question, and the file plan/1 (design, section 10). Reading a damaged plan
// reports every problem with its position. Value type.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "models/spec.hpp"
#include "planner/evaluate/candidate.hpp"
#include "planner/evaluate/variation.hpp"
#include "planner/question/job.hpp"
#include "sim/cost/energy.hpp"

namespace planner {

// Why the chosen candidate was chosen (planner/search/preference.hpp).
enum class Because : std::uint8_t {
  fastest, simplest, best_known, least_risky, least_memory, asked
};
inline constexpr std::array<std::string_view, 6> kBecause{
    "fastest", "simplest", "best_known", "least_risky", "least_memory", "asked"};
std::string_view name(Because because);

struct Rejection {
  Strategy strategy;
  std::string limit;                   // memory | divisibility | topology | host_memory | ...
  std::int64_t needed = 0, available = 0;
  std::string fix;                     // the cheapest change that makes it fit
};
// An unusual part of the chosen strategy, and the best plan without it; empty: without it nothing
// fits as safely (preference.hpp).
struct Earned {
  std::string part;                    // "offload=optimizer"
  std::optional<Strategy> without;
  core::Seconds step{};                // of `without`
  core::Bytes device{};
};
// The same job on another machine; empty: nothing fits there.
struct OtherMachine {
  std::string gpu;
  std::optional<Candidate> candidate;
  std::optional<hw_profiles::DollarsPerHour> price{};  // to rent one GPU there
  std::string price_source{};                          // empty without a price
};
OtherMachine other_machine(const hw_profiles::Profile& profile,
                           const std::optional<Candidate>& candidate);
// The same job in another framework; empty: nothing that it runs fits there.
struct OtherFramework {
  std::string framework, recipe;
  std::optional<Candidate> candidate;
};
// The best strategy where some pins are left out (planner/search/released.hpp).
struct Released {
  enum class Scope : std::uint8_t { one, all_but_degrees, all };
  Scope scope = Scope::one;
  std::vector<std::string> keys;       // whose pins are left out
  bool helps = false;                  // its best strategy is preferred to what the pins allow
  std::optional<Strategy> best;        // empty: nothing fits there either
  core::Seconds step{};                // of `best`, as the next two
  core::Bytes device{};
  double out_of_memory = 0;
};
inline constexpr std::array<std::string_view, 3> kReleasedScopes{"one", "all_but_degrees", "all"};
struct RuleOfThumb {
  std::string name, formula;
  double value = 0;
  std::string unit, source;
};
// A walk over divisions of a graph's operators, each of which was simulated
// (planner/search/markov_chain.hpp).
struct Chain {
  std::uint64_t seed = 1;
  std::int64_t proposals = 0, accepted = 0;
  core::Seconds start{}, found{};      // steps: of data parallelism, and the shortest that it met
  core::Seconds exact{};               // of the best by the exact search
  std::vector<std::string> splits;     // of the shortest; empty: of data parallelism
};
struct SearchCounts {
  std::int64_t enumerated = 0, infeasible = 0, evaluated = 0, replayed = 0, simulated = 0;
  core::Seconds seconds{};
  std::optional<Chain> chain{};        // where asked for
};

// Begins the assumption that states a pin or a forbidden value: "asked for: pin data=8".
inline constexpr std::string_view kAskedFor = "asked for: ";
// Begin and end the assumption that names operators which this tool's executor has no kernels for.
inline constexpr std::string_view kNoKernels = "planner exec has no kernels for ",
                                  kNoKernelsWhere = " on GPUs: ";

// Slow ranks and links, at random, by which finalists are ranked (planner/search/robust.hpp).
struct RobustOptions {
  std::vector<RandomSlow> random{};    // not empty
  double quantile = 0.95;              // of the steps, that counts
  std::optional<std::int64_t> scenarios{};  // steps to play; empty: as many as are worth it
  std::uint64_t seed = 1;
};
// What these make of a candidate.
struct RobustStep {
  std::int64_t scenarios = 0, slowed = 0;  // played; those in which anybody is slow
  core::Seconds step{}, mean{};        // the quantile; the average
  // By kind of the options: one such rank, where it hurts most, makes the step longer by a share.
  struct One {
    double slowdown = 1, link_share = 1;
    double growth = 0;
  };
  std::vector<One> one_slow;
};
struct Robust {
  RobustOptions asked;
  std::vector<RobustStep> steps;       // of the chosen candidate, then of the alternatives
};

struct Plan {
  std::vector<std::string> assumptions;
  models::ModelSpec model;
  std::int64_t parameters = 0;         // total, unpadded
  std::int64_t gpus = 1, gpus_per_node = 1, nodes = 1;
  hw_profiles::Profile profile;
  Job job;
  SearchCounts search;
  double max_risk = 0.05;              // cap on the probability of running out of memory
  std::optional<Candidate> chosen;
  Because because = Because::fastest;
  std::vector<Earned> earned;          // by the chosen candidate
  std::optional<cost::Training> training;  // what --tokens asks for, by the chosen candidate
  std::vector<Candidate> alternatives, pareto;
  std::vector<Rejection> rejected;
  std::map<std::string, std::int64_t> rejected_per_limit;
  std::vector<OtherMachine> other_machines;
  std::vector<OtherFramework> other_frameworks;
  std::vector<Released> released;      // where anything is pinned
  std::optional<Robust> robust;        // where asked for
  std::vector<RuleOfThumb> rules_of_thumb;
};

// 0: the chosen candidate; n: the n-th alternative, from 1. Null where the plan has none.
const Candidate* candidate_of(const Plan& plan, std::int64_t n);

std::string to_json_text(const Plan& plan);
core::Result<Plan> parse_plan(std::string_view text, std::string_view source_name);

}  // namespace planner
