#pragma once
// Internal: from evaluated entries to what a plan prints. Every printed candidate is replayed and
// checked against the device. Not thread-safe (Explorer).

#include <vector>

#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"
#include "planner/search/short_of_memory.hpp"

namespace planner {

// Entries of one machine, best first: the safest class of risk (any, of Objective::memory), then by
// the objective (a step as counted_step counts it), then less memory, then simpler, then in order
// of enumeration. Taken one by one: few are asked for.
// O(entries) once, O(log entries) each.
class Ranking {
 public:
  Ranking(const Explorer& explorer, std::size_t machine, Objective objective);
  const Entry* next();                 // null after the last

 private:
  bool before(std::uint32_t a, std::uint32_t b) const;

  const Explorer& explorer_;
  const std::vector<Entry>& entries_;
  const std::size_t machine_;
  const Objective objective_;
  std::vector<std::uint32_t> order_;   // a heap, the best on top
};

// The best on one machine that fits by replay, in the safest class of risk that has one. After a
// few whose bound leaves a doubt, one whose bound leaves none.
std::optional<Candidate> best_on(Explorer& explorer, std::size_t machine, const Request& request);

// Fills chosen, alternatives and pareto. Alternatives differ from each other and from the choice in
// data, tensor, pipeline, sharding or checkpoint. memory looks once more where replays say so.
void choose(Explorer& explorer, const Request& request, ShortOfMemory& memory, Plan& plan);

// What each unusual part of the chosen strategy gains. REQUIRES: plan.chosen.
std::vector<Earned> earned_by(Explorer& explorer, const Request& request, const Plan& plan);

// Fills rejected and rejected_per_limit: plain data parallelism first, then the simplest; each
// with the cheapest single change that fits.
void explain_rejections(Explorer& explorer, Plan& plan);

}  // namespace planner
