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
    "Writes the file that starts a plan elsewhere: a script for Megatron-LM, a job file for\n"
    "torchtitan, a configuration for DeepSpeed; or what starts `planner exec` under Slurm or\n"
    "Kubernetes. A plan that the framework cannot run is refused, with what to plan instead.\n"
    "What it does in its own way is noted on standard error.";
constexpr std::string_view kEmitExamples =
    "  planner emit plan.json --for megatron --out train.sh\n"
    "  planner emit plan.json --for torchtitan > job.toml\n"
    "  planner emit plan.json --for deepspeed --candidate 2 --out ds_config.json\n"
    "  planner emit plan.json --for slurm --out run.sbatch && sbatch run.sbatch plan.json";

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

// How what was written is started.
std::string next_of(const std::string& file, std::string_view framework, const planner::Plan& plan,
                    const std::string& plan_file) {
  const std::string word = core::shell_word(file);
  const reports::NextStep start =
      framework == "megatron"     ? reports::NextStep{"bash " + word, "in a Megatron-LM checkout"}
      : framework == "torchtitan" ? reports::NextStep{"CONFIG_FILE=" + word + " ./run_train.sh",
                                                      "in a torchtitan checkout"}
                                  : reports::NextStep{"deepspeed train.py --deepspeed_config " +
                                                          word,
                                                      "with a training script of yours"};
  const std::string again = core::shell_word(plan_file);
  return next_text(
      {start, plan.job.framework == "native"
                  ? reports::NextStep{"planner exec " + again + " --scale-down",
                                      "runs a small job of it here"}
                  : reports::NextStep{"planner simulate " + again, "plays a step in time"}});
}

}  // namespace

int emit_verb(Arguments arguments) {
  std::string path;
  std::optional<std::string> framework, candidate;
  OutputOptions output;
  OptionSet set("emit", kEmitPurpose, kEmitExamples);
  set.positional("PLAN", path, "file written by planner --out");
  set.group("Launch");
  set.text("--for", framework, "NAME", "megatron, torchtitan, deepspeed, slurm or kubernetes");
  set.text("--candidate", candidate, "N", "0: the chosen; N: the N-th alternative");
  add_output_options(set, output, "the script or configuration");
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
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
      write_note(note);
  OutputOptions file = output;         // --out takes the launch itself
  file.json = false;
  const core::Status delivered = deliver(file, launch->text, [&] {
    if (output.json) return emit_json(*launch, *framework);
    return output.out ? next_of(*output.out, *framework, *plan, path) : launch->text;
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
