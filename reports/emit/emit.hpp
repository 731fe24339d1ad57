#pragma once
// A plan in a framework's own words: what to start there to train as the plan says. What the
// framework cannot do is a problem, each with what to plan instead; what it does in its own way is
// a note. Pure; thread-safe.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace reports::emit {

struct Launch {
  std::string text;                    // a script or a configuration file, newline at the end
  std::vector<std::string> notes;
};

// megatron: a script around Megatron-LM's pretrain_gpt.py on random tokens; torchtitan: its TOML
// file; deepspeed: its JSON file. slurm, kubernetes: a launch of `planner exec` itself.
std::span<const std::string_view> frameworks();

// Of a framework whose behaviour is modelled (--framework), its name among frameworks(): fsdp2 is
// torchtitan's. Empty: nothing is written for it.
std::string_view name_of(std::string_view modelled);

// REQUIRES: framework is one of frameworks().
core::Result<Launch> launch_of(const planner::Plan& plan, const planner::Candidate& candidate,
                               std::string_view framework);

}  // namespace reports::emit
