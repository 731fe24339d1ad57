#include <fmt/format.h>

#include "cli/log_files.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/untrusted.hpp"
#include "hw_profiles/load.hpp"
#include "planner/plan/plan.hpp"
#include "reports/fit/site_links.hpp"
#include "reports/validate/calibrate.hpp"
#include "reports/validate/collective_row.hpp"
#include "reports/validate/nccl_tests.hpp"

namespace cli {
namespace {

constexpr std::string_view kCalibratePurpose =
    "Learns from a few runs of your site how much faster or slower its GPUs, hosts and links\n"
    "are than the shipped profiles, and from the output of nccl-tests how fast its links are. A\n"
    "run is a row of a CSV, or a plan and what the framework that ran it printed. With --site\n"
    "FILE, plans and predictions use that; runs also narrow their interval. For a GPU that no\n"
    "run used, only the host and the network are known.\n"
    "With --backend host it measures this host instead: planner calibrate --backend host --help.";
constexpr std::string_view kCalibrateExamples =
    "  planner calibrate --from my-runs.csv --out site.json\n"
    "  planner calibrate --plan plan.json --log train.log --out site.json\n"
    "  all_reduce_perf -b 8 -e 4G -f 2 -g 8 > all_reduce.txt\n"
    "  planner calibrate --busbw all_reduce.txt --busbw all_gather.txt --out site.json\n"
    "  planner calibrate --backend host --out me.json\n"
    "  planner --model gpt2-1.5b --gpus 8 --site site.json";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

using reports::validation::SiteLearner;

struct SiteSources {
  std::optional<std::string> runs, gpu, node;
  std::vector<std::string> collectives, plans, logs;
  bool runs_too() const { return runs || !logs.empty(); }
};

std::string next_of(const hw_profiles::SiteFile& site, const SiteSources& sources,
                    const std::string& gpu, const OutputOptions& output) {
  const std::optional<std::string>& runs = sources.runs;
  if (!output.out) return next_text({{"--out site.json", "keeps the site"}});
  const core::Code file = core::Code::shell(*output.out);
  const core::Code named = !gpu.empty()         ? " --gpu " + core::Code::shell(gpu)
                           : !site.gpus.empty() ? " --gpu " + core::Code::shell(site.gpus[0].gpu)
                                                : core::Code();
  std::vector<reports::NextStep> steps{
      {core::code("planner --model gpt2-1.5b --gpus 8{} --site {}", named, file),
       "plans for your site"}};
  if (runs)
    steps.push_back({core::code("planner validate {} --site {}", core::Code::shell(*runs), file),
                     "what the site's runs are predicted as now"});
  else if (sources.logs.empty())
    steps.push_back({"--from my-runs.csv", "also learns from runs, and narrows the interval"});
  return next_text(steps);
}

// All of one GPU.
core::Result<reports::validation::TimedCollectives> read_all(
    const std::vector<std::string>& files) {
  reports::validation::TimedCollectives all;
  core::Problems problems;
  for (const std::string& file : files) {
    const core::Result<std::string> text = core::read_file(file, kMaxBytes);
    if (!text.ok()) return text.problems();
    auto read = reports::validation::read_timed_collectives(*text, file);
    if (!read.ok()) {
      core::append(problems, read);
      continue;
    }
    if (!all.gpu.empty() && !read->gpu.empty() && read->gpu != all.gpu)
      problems.push_back({file, "timings on " + all.gpu + ", as in the first file", read->gpu,
                          "one site file for each kind of GPU"});
    if (!read->gpu.empty()) all.gpu = read->gpu;
    write_row_problems(read->problems);
    all.timings.insert(all.timings.end(), read->timings.begin(), read->timings.end());
  }
  if (!problems.empty()) return problems;
  return all;
}

core::Result<hw_profiles::Profile> profile_of(const SiteSources& sources, const std::string& gpu) {
  std::optional<hw_profiles::Profile> called;
  if (sources.gpu) {
    auto profile = hw_profiles::find_profile(*sources.gpu);
    if (!profile.ok()) return profile;
    called = std::move(profile).value();
  } else {
    called = reports::validation::gpu_called(gpu);
  }
  if (!called)
    return core::Problem{"--gpu", "the profile of the GPUs that were timed",
                         gpu.empty() ? "none" : '"' + gpu + '"', "name one of `planner gpus`"};
  if (sources.node)
    if (const auto done = hw_profiles::use_node(*called, *sources.node, "--node"); !done.ok())
      return done.problems();
  return *std::move(called);
}

// Of the collectives alone; empty where none were given.
core::Result<std::optional<reports::fit::SiteLinks>> links_of(const SiteSources& sources) {
  if (sources.collectives.empty()) return std::optional<reports::fit::SiteLinks>();
  const auto timed = read_all(sources.collectives);
  if (!timed.ok()) return timed.problems();
  const auto profile = profile_of(sources, timed->gpu);
  if (!profile.ok()) return profile.problems();
  auto links = reports::fit::links_of(
      timed->timings, *profile,
      fmt::format("{} timed collectives", timed->timings.size()));
  if (!links.ok()) return links.problems();
  return std::optional(std::move(links).value());
}

// Each log is of the plan at its place, or of the only one.
core::Status add_logs(const SiteSources& sources, SiteLearner& learner) {
  core::Problems problems;
  std::optional<planner::Plan> plan;
  for (std::size_t i = 0; i < sources.logs.size(); ++i) {
    const std::string& file = sources.logs[i];
    if (i < sources.plans.size()) {
      const core::Result<std::string> text = core::read_file(sources.plans[i], core::kMaxJsonBytes);
      if (!text.ok()) return text.problems();
      auto read = planner::parse_plan(*text, sources.plans[i]);
      if (!read.ok()) return read.problems();
      plan = std::move(read).value();
    }
    const auto compared = compare_log_file(*plan, file);
    core::append(problems, compared);
    if (!compared.ok()) continue;
    if (!compared->spread) {
      problems.push_back({"--log " + core::visible(file), "a log with the times of steps",
                          fmt::format("one of {}, which has memory alone", compared->log.format),
                          "planner compare holds its memory beside the plan"});
      continue;
    }
    const core::Status added =
        learner.add_run(*plan, *plan->chosen, compared->spread->median, core::visible(file));
    core::append(problems, added);
  }
  if (!problems.empty()) return problems;
  return core::Done{};
}

core::Problems problems_of(const SiteSources& sources) {
  core::Problems bad;
  if (!sources.runs_too() && sources.plans.empty() && sources.collectives.empty())
    bad.push_back({"--from", "a CSV of timed runs, --plan and --log, or --busbw", "none",
                   "--from my-runs.csv"});
  if (sources.plans.empty() != sources.logs.empty())
    bad.push_back({sources.plans.empty() ? "--plan" : "--log",
                   sources.plans.empty() ? "the plan that the log is a run of"
                                         : "what the plan's run printed",
                   "none", "--plan plan.json --log train.log"});
  else if (sources.plans.size() > 1 && sources.plans.size() != sources.logs.size())
    bad.push_back({"--log", fmt::format("one for each of {} plans, in their order",
                                        sources.plans.size()),
                   std::to_string(sources.logs.size()), ""});
  if (sources.collectives.empty() && (sources.gpu || sources.node))
    bad.push_back({sources.gpu ? "--gpu" : "--node", "--busbw FILE with it", "none",
                   "runs and plans name their GPUs themselves"});
  return bad;
}

}  // namespace

int calibrate_verb(Arguments arguments) {
  SiteSources sources;
  OutputOptions output;
  OptionSet set("calibrate", kCalibratePurpose, kCalibrateExamples);
  set.text("--from", sources.runs, "RUNS",
           "CSV of timed runs of one site, as `validate` reads them");
  set.texts("--plan", sources.plans, "FILE", "the plan that a log is a run of; repeatable");
  set.texts("--log", sources.logs, "FILE",
            "what a framework printed while it ran that plan, or a profile; repeatable");
  set.texts("--busbw", sources.collectives, "FILE",
            "output of nccl-tests, or a CSV of timings; repeatable");
  set.text("--gpu", sources.gpu, "PROFILE", "whose links were timed (as the output says)");
  set.text("--node", sources.node, "NODE",
           "the machine that they are in (as the GPU's profile says)");
  add_output_options(set, output, "the site");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems bad = problems_of(sources);
  if (const core::Status target = check_output(output); !target.ok())
    bad.insert(bad.end(), target.problems().begin(), target.problems().end());
  if (!bad.empty()) return refuse(bad);

  const auto links = links_of(sources);
  if (!links.ok()) return refuse(links.problems());
  hw_profiles::SiteFile site;
  std::string text;
  if (*links) {
    site.measured = (*links)->fields;
    text += site_links_text(**links, page_style());
  }
  if (sources.runs_too()) {
    SiteLearner learner(site.measured);
    if (sources.runs) {
      const core::Result<std::string> runs = core::read_file(*sources.runs, kMaxBytes);
      if (!runs.ok()) return refuse(runs.problems());
      const core::Status added = learner.add_rows(*runs, *sources.runs);
      if (!added.ok()) return refuse(added.problems());
    }
    if (const core::Status added = add_logs(sources, learner); !added.ok())
      return refuse(added.problems());
    const reports::validation::Calibration calibration = learner.learnt();
    write_row_problems(calibration.problems);
    text += (text.empty() ? "" : "\n") +
            reports::validation::calibration_text(calibration, page_style());
    site = calibration.site;
  } else if (site.measured.empty()) {
    return refuse({{"--busbw", "links that differ from the profile's", "the same",
                    "plans need no site file here"}});
  }
  const std::string gpu = *links ? (*links)->gpu : "";
  const core::Status delivered = deliver(output, hw_profiles::to_json_text(site), [&] {
    return text + next_of(site, sources, gpu, output);
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
