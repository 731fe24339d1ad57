#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "core/untrusted.hpp"
#include "reports/emit/emit.hpp"

namespace cli {
namespace {

constexpr std::string_view kEmitPurpose =
    "Writes a plan in a framework's own words: a script for Megatron-LM, a job file for\n"
    "torchtitan, a configuration for DeepSpeed. What the framework cannot do is refused, with "
    "what\n"
    "to plan instead; what it does in its own way is a note on standard error.";
constexpr std::string_view kEmitExamples =
    "  planner emit plan.json --for megatron --out train.sh\n"
    "  planner emit plan.json --for torchtitan > job.toml\n"
    "  planner emit plan.json --for deepspeed --candidate 2 --out ds_config.json";

std::string emit_json(const reports::emit::Launch& launch, const std::string& framework) {
  return core::dump(core::Json::object({{"schema", "launch/1"},
                                        {"framework", framework},
                                        {"text", launch.text},
                                        {"notes", core::Json::array_of(launch.notes)}})) +
         '\n';
}

// That the plan has no such candidate.
core::Problem no_candidate(const planner::Plan& plan, std::int64_t n) {
  if (n == 0) return {"plan", "a plan with a feasible strategy", "none", "plan anew"};
  return {"--candidate",
          fmt::format("0 to {}, the plan's alternatives", plan.alternatives.size()),
          std::to_string(n), "plan with a greater --top"};
}

}  // namespace

int emit_verb(Arguments arguments) {
  std::string path;
  std::optional<std::string> framework, candidate;
  OutputOptions output;
  OptionSet set("emit", kEmitPurpose, kEmitExamples);
  set.positional("PLAN", path, "file written by planner --out");
  set.group("Launch");
  set.text("--for", framework, "NAME", "megatron, torchtitan or deepspeed");
  set.text("--candidate", candidate, "N", "0: the chosen; N: the N-th alternative");
  add_output_options(set, output, "the script or configuration");
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok())
    problems.insert(problems.end(), target.problems().begin(), target.problems().end());
  const auto known = reports::emit::frameworks();
  if (!framework || std::ranges::find(known, *framework) == known.end()) {
    const std::string_view near =
        framework ? core::nearest(*framework, {known.begin(), known.end()}) : std::string_view();
    problems.push_back({"--for", fmt::format("one of {}", fmt::join(known, ", ")),
                        framework ? fmt::format("\"{}\"", *framework) : std::string("nothing"),
                        near.empty() ? std::string() : fmt::format("did you mean {}?", near)});
  }
  const auto number = whole_number(candidate, "--candidate", 0, problems);
  if (!problems.empty()) return refuse(problems);
  const core::Result<planner::Plan> plan = read_plan(path);
  if (!plan.ok()) return refuse(plan.problems());
  const planner::Candidate* const one = planner::candidate_of(*plan, number.value_or(0));
  if (one == nullptr) return refuse({no_candidate(*plan, number.value_or(0))});
  const auto launch = reports::emit::launch_of(*plan, *one, *framework);
  if (!launch.ok()) return refuse(launch.problems());

  if (!output.quiet && !output.json)
    for (const std::string& note : launch->notes)
      fmt::print(stderr, "note: {}\n", core::visible(note));
  OutputOptions file = output;         // --out takes the launch itself
  file.json = false;
  const core::Status delivered = deliver(file, launch->text, [&] {
    if (output.json) return emit_json(*launch, *framework);
    return output.out ? std::string() : launch->text;
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
