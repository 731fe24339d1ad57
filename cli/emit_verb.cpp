#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "core/untrusted.hpp"
#include "reports/emit/emit.hpp"

namespace cli {
namespace {

constexpr std::string_view kEmitPurpose =
    "Writes the file that starts a plan elsewhere: a script for Megatron-LM, torchtitan's job\n"
    "file (releases up to 0.2) or its configuration in Python (since 2026), a configuration for\n"
    "DeepSpeed, axolotl, LLaMA-Factory, nanotron or accelerate, a script for llm.c; or what\n"
    "starts `planner exec` under Slurm or Kubernetes.\n"
    "A plan that the framework cannot run is refused, with what to plan instead.\n"
    "What it does in its own way is noted on standard error, and so is what a plan made for\n"
    "another framework is predicted to take in this one. With --launcher, the file starts\n"
    "the framework's training command on all nodes of the plan, and holds its configuration.";
constexpr std::string_view kEmitExamples =
    "  planner emit plan.json --for megatron --out train.sh\n"
    "  planner emit plan.json --for torchtitan > job.toml\n"
    "  planner emit plan.json --for deepspeed --candidate 2 --out ds_config.json\n"
    "  planner emit plan.json --for slurm --out run.sbatch && sbatch run.sbatch plan.json\n"
    "  planner emit plan.json --for megatron --launcher slurm --out train.sbatch\n"
    "  planner emit plan.json --for torchtitan --launcher jobset --image registry/titan:0.2 \\\n"
    "    --workdir /opt/torchtitan > job.yaml";

struct EmitOptions {
  std::optional<std::string> framework, launcher, candidate;
  reports::emit::Place place;
};

std::string emit_json(const reports::emit::Launch& launch, const EmitOptions& options) {
  return core::dump(core::Json::object({{"schema", "launch/1"},
                                        {"framework", *options.framework},
                                        {"launcher", options.launcher},
                                        {"text", launch.text.text()},
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

// How what was written is started. word, plan: files, as a shell reads them.
reports::NextStep start_of(const core::Code& word, const core::Code& plan,
                           const EmitOptions& options, std::int64_t per_node) {
  const std::string launcher = options.launcher.value_or("");
  if (options.framework == "slurm")
    return {core::code("sbatch {} {}", word, plan), "where nodes have planner in PATH"};
  if (options.framework == "kubernetes")
    return {"kubectl apply -f " + word, "once its first comment is followed"};
  if (launcher == "torchrun") return {"bash " + word, "where its second comment says"};
  if (launcher == "slurm") return {"sbatch " + word, "where its comment says"};
  if (launcher == "skypilot") return {"sky launch " + word, "once placeholders are filled in"};
  if (!launcher.empty())
    return {"kubectl apply -f " + word, "once placeholders are filled in"};
  if (options.framework == "megatron") return {"bash " + word, "in a Megatron-LM checkout"};
  if (options.framework == "megatron_bridge")
    return {core::code("torchrun --nproc_per_node {} {}", per_node, word),
            "where Megatron-Bridge is installed"};
  if (options.framework == "torchtitan")
    return {"CONFIG_FILE=" + word + " ./run_train.sh", "in a torchtitan checkout"};
  if (options.framework == "torchtitan_0.3")
    return {core::code("torchrun --nproc_per_node {} -m torchtitan.train --module planned --config "
                       "planned",
                       per_node),
            "with torchtitan 0.3.0, in the folder of planned.py"};
  if (options.framework == "torchtitan_python")
    return {"MODULE=planned CONFIG=planned ./run_train.sh",
            "in a torchtitan checkout, with the file there as planned.py"};
  if (options.framework == "llmc") return {"bash " + word, "in a checkout of llm.c"};
  if (options.framework == "nanotron")
    return {
        core::code("torchrun --nproc_per_node {} run_train.py --config-file {}", per_node, word),
        "in a checkout of nanotron"};
  if (options.framework == "accelerate")
    return {"accelerate launch --config_file " + word + " train.py",
            "with a training script of yours"};
  if (options.framework == "axolotl") return {"axolotl train " + word, "once it names your data"};
  if (options.framework == "llama_factory")
    return {"llamafactory-cli train " + word, "once it names your data"};
  return {"deepspeed train.py --deepspeed_config " + word, "with a training script of yours"};
}

std::string next_of(const std::string& file, const EmitOptions& options,
                    const planner::Plan& plan, const std::string& plan_file) {
  const core::Code again = core::Code::shell(plan_file);
  const reports::NextStep start =
      start_of(core::Code::shell(file), again, options, std::min(plan.gpus, plan.gpus_per_node));
  return next_text(
      {start, plan.job.framework == "native"
                  ? reports::NextStep{"planner exec " + again + " --scale-down",
                                      "runs a small job of it here"}
                  : reports::NextStep{"planner simulate " + again, "plays a step in time"}});
}

// One of the names, or a problem with the nearest.
bool one_of(const std::optional<std::string>& given, std::string_view option,
            std::span<const std::string_view> names, core::Problems& problems) {
  if (given && std::ranges::find(names, *given) != names.end()) return true;
  const std::string_view near =
      given ? core::nearest(*given, {names.begin(), names.end()}) : std::string_view();
  problems.push_back({std::string(option), fmt::format("one of {}", fmt::join(names, ", ")),
                      given ? fmt::format("\"{}\"", *given) : std::string("nothing"),
                      near.empty() ? std::string() : fmt::format("did you mean {}?", near)});
  return false;
}

// What has no effect without such a launcher, or is no such text, is refused.
void check_place(const EmitOptions& o, core::Problems& problems) {
  const std::string launcher = o.launcher.value_or("");
  const auto check = [&](const std::optional<std::string>& value, std::string_view option,
                         bool taken, std::string_view takers) {
    if (!value) return;
    if (!taken)
      problems.push_back({std::string(option), fmt::format("{} beside it", takers),
                          launcher.empty() ? "no --launcher" : "--launcher " + launcher,
                          "leave it out"});
    const std::optional<std::string> hidden = core::hidden_in(*value);
    if (value->empty() || hidden)
      problems.push_back({std::string(option), "a text without control characters",
                          hidden.value_or("an empty text"), ""});
  };
  check(o.place.image, "--image", reports::emit::takes_image(launcher),
        "--launcher jobset, pytorchjob or mpijob");
  check(o.place.workdir, "--workdir", reports::emit::takes_workdir(launcher),
        "--launcher jobset, pytorchjob, mpijob or skypilot");
  check(o.place.script, "--script", o.framework == "deepspeed" && !launcher.empty(),
        "--for deepspeed and a --launcher");
  constexpr std::string_view kOfImages =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
  if (o.place.image && o.place.image->find_first_not_of(kOfImages) != std::string::npos)
    problems.push_back({"--image", "the name of a container image: letters, digits and ._-/:@",
                        fmt::format("\"{}\"", *o.place.image), ""});
}

void check_emit(const EmitOptions& o, core::Problems& problems) {
  if (!one_of(o.framework, "--for", reports::emit::frameworks(), problems)) return;
  if (o.launcher && one_of(o.launcher, "--launcher", reports::emit::launchers(), problems) &&
      !reports::emit::has_launchers(*o.framework))
    problems.push_back({"--launcher", "--for a framework that torchrun starts",
                        "--for " + *o.framework, "its file starts all nodes by itself"});
  check_place(o, problems);
}

}  // namespace

int emit_verb(Arguments arguments) {
  std::string path;
  EmitOptions o;
  OutputOptions output;
  OptionSet set("emit", kEmitPurpose, kEmitExamples);
  set.positional("PLAN", path, "file written by planner --out");
  set.group("Launch");
  set.text("--for", o.framework, "NAME",
           "megatron, megatron_bridge, torchtitan, torchtitan_0.3, torchtitan_python, deepspeed, "
           "axolotl, llama_factory, llmc, nanotron, accelerate, slurm or kubernetes");
  set.text("--candidate", o.candidate, "N", "0: the chosen; N: the N-th alternative");
  set.text("--launcher", o.launcher, "NAME",
           "what starts it on all nodes: torchrun, slurm, jobset, pytorchjob, mpijob, skypilot");
  set.text("--image", o.place.image, "NAME", "container image, for launchers on Kubernetes");
  set.text("--workdir", o.place.workdir, "FOLDER",
           "folder to start in: in the image, or for skypilot the one that it brings along");
  set.text("--script", o.place.script, "FILE", "your training script, for deepspeed");
  add_output_options(set, output, "the script or configuration");
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  check_emit(o, problems);
  const auto number = whole_number(o.candidate, "--candidate", 0, problems);
  if (!problems.empty()) return refuse(problems);
  const core::Result<planner::Plan> plan = read_plan(path);
  if (!plan.ok()) return refuse(plan.problems());
  const planner::Candidate* const one = planner::candidate_of(*plan, number.value_or(0));
  if (one == nullptr) return refuse({no_candidate(*plan, number.value_or(0))});
  const auto launch =
      o.launcher ? reports::emit::launcher_of(*plan, *one, *o.framework, *o.launcher, o.place)
                 : reports::emit::launch_of(*plan, *one, *o.framework);
  if (!launch.ok()) return refuse(launch.problems());

  if (!output.quiet && !output.json)
    for (const std::string& note : launch->notes)
      write_note(note);
  OutputOptions file = output;         // --out takes the launch itself
  file.json = false;
  const core::Status delivered = deliver(file, launch->text.text(), [&] {
    if (output.json) return emit_json(*launch, o);
    return output.out ? next_of(*output.out, o, *plan, path) : launch->text.text();
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
