#include <thread>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"

namespace cli {
namespace {

constexpr std::string_view kCalibrateHostPurpose =
    "Measures this host's kernels and messages, or a GPU's kernels, and writes a profile that\n"
    "--gpu takes. It keeps each measured point beside the profile, and resumes after an\n"
    "interruption.";
constexpr std::string_view kCalibrateHostExamples =
    "  planner calibrate --backend host --out me.json\n"
    "  planner calibrate --backend cuda --out gpu.json\n"
    "  planner --model gpt2-124m --gpus 2 --gpu me.json --recipe fp32 --out plan.json";
constexpr std::int64_t kMostRanks = 256;

struct Words {
  std::optional<std::string> backend, ranks, budget, points;
};

CalibrateRequest request_of(const Words& words, const OutputOptions& output,
                            core::Problems& problems) {
  CalibrateRequest request;
  if (words.backend != "host" && words.backend != "cuda")
    problems.push_back({"--backend", "host or cuda", '"' + words.backend.value_or("") + '"', ""});
  if (words.backend == "cuda" && words.ranks)
    problems.push_back({"--ranks", "none with --backend cuda", *words.ranks, "leave it out"});
  request.ranks = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto ranks = whole_number(words.ranks, "--ranks", 1, problems);
  if (ranks && *ranks > kMostRanks)
    problems.push_back({"--ranks", "at most 256", *words.ranks, ""});
  else if (ranks)
    request.ranks = static_cast<int>(*ranks);
  if (words.budget) {
    const auto budget = core::parse_duration(*words.budget, "--budget");
    if (budget.ok() && budget->value() > 0)
      request.budget = *budget;
    else
      problems.push_back({"--budget", "a time per point", '"' + *words.budget + '"', "0.5s"});
  }
  if (words.points)
    request.points = words.points;
  else if (output.out)
    request.points = *output.out + ".points";
  if (!output.quiet && stderr_is_terminal())
    request.progress = [](const std::string& line) { write_reason(line); };
  return request;
}

// A plan of the machine that was measured.
std::string next_of(const CalibrateRequest& request, bool host, const OutputOptions& output) {
  if (!output.out)
    return next_text(
        {{core::Code::own(host ? "--out me.json" : "--out gpu.json"), "keeps the profile"}});
  const int ranks = host ? request.ranks : 1;
  return next_text({{core::code("planner --model gpt2-124m --seq 128 --global-batch {} --gpus {} "
                                "--gpu {}{} --out plan.json",
                                4 * ranks, ranks, core::Code::shell(*output.out),
                                core::Code::own(host ? " --recipe fp32" : "")),
                     "plans for what was measured; planner exec runs the plan here"}});
}

}  // namespace

int calibrate_host_verb(Arguments arguments, const HostCalibrator& calibrator, Arguments whole) {
  if (const auto other = other_binary(arguments, static_cast<bool>(calibrator)))
    return hand_over(*other, whole);
  Words words;
  OutputOptions output;
  OptionSet set("calibrate --backend NAME", kCalibrateHostPurpose, kCalibrateHostExamples);
  set.text("--backend", words.backend, "NAME", "host or cuda");
  set.text("--ranks", words.ranks, "N", "ranks that work at the same time (one per core)");
  set.text("--budget", words.budget, "TIME", "time to measure each point (0.5s)");
  set.text("--points", words.points, "FILE", "file that keeps the points (beside --out)");
  add_output_options(set, output, "the profile");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems problems;
  const CalibrateRequest request = request_of(words, output, problems);
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  if (!problems.empty()) return refuse(problems);
  const core::Result<HostCalibration> made = calibrator(request);
  if (!made.ok()) return refuse(made.problems());
  const core::Status delivered = deliver(output, hw_profiles::to_json_text(made->profile),
                                         [&] {
                                           return made->page +
                                                  next_of(request, words.backend == "host", output);
                                         });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
