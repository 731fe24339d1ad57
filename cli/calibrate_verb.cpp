#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "hw_profiles/load.hpp"
#include "reports/fit/site_links.hpp"
#include "reports/validate/calibrate.hpp"
#include "reports/validate/collective_row.hpp"
#include "reports/validate/nccl_tests.hpp"

namespace cli {
namespace {

constexpr std::string_view kCalibratePurpose =
    "Learns from a few runs of your site how much faster or slower its GPUs, hosts and links are\n"
    "than the shipped profiles, and from the output of nccl-tests how fast its links are. With\n"
    "--site FILE, plans and predictions use that; runs also narrow their interval. For a GPU that\n"
    "no run used, only the host and the network are known.\n"
    "With --backend host it measures this host instead: planner calibrate --backend host --help.";
constexpr std::string_view kCalibrateExamples =
    "  planner calibrate --from my-runs.csv --out site.json\n"
    "  all_reduce_perf -b 8 -e 4G -f 2 -g 8 > all_reduce.txt\n"
    "  planner calibrate --busbw all_reduce.txt --busbw all_gather.txt --out site.json\n"
    "  planner calibrate --backend host --out me.json\n"
    "  planner --model gpt2-1.5b --gpus 8 --site site.json";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

struct SiteSources {
  std::optional<std::string> runs, gpu, node;
  std::vector<std::string> collectives;
};

std::string next_of(const hw_profiles::SiteFile& site, const std::optional<std::string>& runs,
                    const std::string& gpu, const OutputOptions& output) {
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
  else
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

}  // namespace

int calibrate_verb(Arguments arguments) {
  SiteSources sources;
  OutputOptions output;
  OptionSet set("calibrate", kCalibratePurpose, kCalibrateExamples);
  set.text("--from", sources.runs, "RUNS",
           "CSV of timed runs of one site, as `validate` reads them");
  set.texts("--busbw", sources.collectives, "FILE",
            "output of nccl-tests, or a CSV of timings; repeatable");
  set.text("--gpu", sources.gpu, "PROFILE", "whose links were timed (as the output says)");
  set.text("--node", sources.node, "NODE",
           "the machine that they are in (as the GPU's profile says)");
  add_output_options(set, output, "the site");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems bad;
  if (!sources.runs && sources.collectives.empty())
    bad.push_back({"--from", "a CSV of timed runs, or --busbw with timed collectives", "none",
                   "--from my-runs.csv"});
  if (sources.collectives.empty() && (sources.gpu || sources.node))
    bad.push_back({sources.gpu ? "--gpu" : "--node", "--busbw FILE beside it", "none",
                   "a CSV of runs names their GPUs itself"});
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
  if (sources.runs) {
    const core::Result<std::string> runs = core::read_file(*sources.runs, kMaxBytes);
    if (!runs.ok()) return refuse(runs.problems());
    const auto calibration = reports::validation::calibrate(*runs, *sources.runs, site.measured);
    if (!calibration.ok()) return refuse(calibration.problems());
    write_row_problems(calibration->problems);
    text += (text.empty() ? "" : "\n") +
            reports::validation::calibration_text(*calibration, page_style());
    site = calibration->site;
  } else if (site.measured.empty()) {
    return refuse({{"--busbw", "links that differ from the profile's", "the same",
                    "plans need no site file here"}});
  }
  const std::string gpu = *links ? (*links)->gpu : "";
  const core::Status delivered = deliver(output, hw_profiles::to_json_text(site), [&] {
    return text + next_of(site, sources.runs, gpu, output);
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
