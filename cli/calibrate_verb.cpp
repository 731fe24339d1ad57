#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/file.hpp"
#include "core/untrusted.hpp"
#include "reports/validate/calibrate.hpp"

namespace cli {
namespace {

constexpr std::string_view kCalibratePurpose =
    "Learns from a few runs of your site how much faster or slower its GPUs, hosts and links are\n"
    "than the shipped profiles. With --site FILE, plans and predictions use that, and their\n"
    "interval narrows. For a GPU that no run used, only the host and the network are known.\n"
    "With --backend host it measures this host instead: planner calibrate --backend host --help.";
constexpr std::string_view kCalibrateExamples =
    "  planner calibrate --from my-runs.csv --out site.json\n"
    "  planner calibrate --backend host --out me.json\n"
    "  planner --model gpt2-1.5b --gpus 8 --site site.json";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::size_t kShownProblems = 20;

std::string next_of(const hw_profiles::SiteFile& site, const std::string& runs,
                    const OutputOptions& output) {
  if (!output.out) return next_text({{"--out site.json", "keeps the site"}});
  const std::string file = core::shell_word(*output.out);
  const std::string gpu = site.gpus.empty() ? "" : " --gpu " + core::shell_word(site.gpus[0].gpu);
  return next_text({{fmt::format("planner --model gpt2-1.5b --gpus 8{} --site {}", gpu, file),
                     "plans for your site"},
                    {fmt::format("planner validate {} --site {}", core::shell_word(runs), file),
                     "what the site's runs are predicted as now"}});
}

}  // namespace

int calibrate_verb(Arguments arguments) {
  std::optional<std::string> path;
  OutputOptions output;
  OptionSet set("calibrate", kCalibratePurpose, kCalibrateExamples);
  set.text("--from", path, "RUNS", "CSV of timed runs of one site, as `validate` reads them");
  add_output_options(set, output, "the site");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems bad;
  if (!path) bad.push_back({"--from", "a CSV of timed runs", "none", "--from my-runs.csv"});
  if (const core::Status target = check_output(output); !target.ok())
    bad.insert(bad.end(), target.problems().begin(), target.problems().end());
  if (!bad.empty()) return refuse(bad);

  const core::Result<std::string> text = core::read_file(*path, kMaxBytes);
  if (!text.ok()) return refuse(text.problems());
  const auto calibration = reports::validation::calibrate(*text, *path);
  if (!calibration.ok()) return refuse(calibration.problems());
  for (std::size_t i = 0; i < std::min(calibration->problems.size(), kShownProblems); ++i)
    write_reason(core::to_text(calibration->problems[i]));
  const core::Status delivered =
      deliver(output, hw_profiles::to_json_text(calibration->site), [&] {
        return reports::validation::calibration_text(*calibration, page_style()) +
               next_of(calibration->site, *path, output);
      });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
