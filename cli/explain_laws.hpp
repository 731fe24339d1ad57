#pragma once
// `planner explain laws`: the laws C1 to C5 for K GPUs and M servers, and with --measure the
// counters of real runs of a small chain beside them.

#include <optional>
#include <string>

#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/verbs.hpp"

namespace cli {

struct LawOptions {
  std::optional<std::string> servers;
  bool measure = false;
};

// runner is needed with --measure alone.
int explain_laws(PlanOptions plan, const LawOptions& laws, const OutputOptions& output,
                 const Runner& runner);

}  // namespace cli
