#pragma once
// Links that a run on one machine emulates: the plan's own, so that its prediction can be held
// against a step that really waits for them, or one kind for all pairs. Pure.

#include <optional>
#include <string>
#include <vector>

#include "exec/communicator/local.hpp"
#include "planner/plan/plan.hpp"

namespace exec {

struct Paced {
  std::optional<Link> every;           // nothing: those of the plan's machine
};

// What paces the ranks of this plan. Between nodes a rank has its share of its node's network.
LocalOptions paced_links(const Paced& paced, const planner::Plan& plan, int ranks);

// Where the plan's machine has GPUs of several kinds: by rank, how many times as long as those of
// the fastest kind its kernels take, by what a matrix product does. Empty: ranks are alike.
std::vector<double> paced_kernels(const planner::Plan& plan, int ranks);

// "1.00 GB/s, 50.0 us" or "the plan's", for records.
std::string to_text(const Paced& paced);

}  // namespace exec
