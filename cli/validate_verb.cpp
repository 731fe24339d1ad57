#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/sandbox.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "reports/fit/scatter.hpp"
#include "reports/fit/validation_page.hpp"
#include "reports/validate/collectives.hpp"

namespace cli {
namespace {

constexpr std::string_view kValidatePurpose =
    "Predicts measured training runs, each exactly as its row states it, and scores time, memory,\n"
    "whether the run fits, and which of several alternatives is fastest. A file of timed\n"
    "collectives (columns collective, n_gpus, bytes) has its times scored.";
constexpr std::string_view kValidateExamples =
    "  planner validate runs.csv\n"
    "  planner validate runs.csv --leave-out bloom-tuneup --json --out scores.json\n"
    "  planner validate nccl_busbw.csv\n"
    "  planner validate runs.csv --collectives nccl_busbw.csv --report reports/validation.md";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

// gpu.memory_efficiency=0.9 or a100-sxm-80g:gpu.memory_efficiency=0.9.
core::Result<reports::validation::Override> read_override(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.substr(0, equals).find(':');
  if (equals == std::string::npos || equals == 0)
    return core::Problem{"--set", "FIELD=VALUE or GPU:FIELD=VALUE", '"' + text + '"', ""};
  reports::validation::Override one;
  if (colon != std::string::npos) one.of = text.substr(0, colon);
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  one.field = text.substr(begin, equals - begin);
  one.text = text.substr(equals + 1);
  return one;
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> names_of(const std::string& path, const std::vector<std::string>& more) {
  std::vector<std::string> names{name_of(path)};
  for (const std::string& file : more) names.push_back(name_of(file));
  return names;
}

// The page and its plot, FILE.md and FILE.svg.
core::Status write_page(const std::string& path, const reports::validation::Validation& validation,
                        const std::string& runs, const core::Code& collectives, bool quiet) {
  std::vector<reports::validation::Row> rows;
  for (const auto& p : validation.rows) rows.push_back(p.row);
  const reports::fit::Cases cases(rows, reports::fit::shipped_constants());
  reports::fit::FitOptions options;
  options.leave_out_groups = true;
  options.progress = progress_on_terminal(quiet);
  const reports::fit::Fitted fitted = reports::fit::fit(cases, options);
  const std::string plot = path.substr(0, path.ends_with(".md") ? path.size() - 3 : path.size()) +
                           ".svg";
  const core::Status drawn =
      core::write_atomically(plot, reports::fit::scatter_svg(validation.rows));
  if (!drawn.ok()) return drawn;
  return core::write_atomically(
      path, reports::fit::validation_page(validation, fitted, runs, name_of(plot), collectives));
}

core::Result<reports::validation::CollectiveScores> scores_of(const std::string& path,
                                                             bool quiet) {
  const core::Result<std::string> text = core::read_file(path, kMaxBytes);
  if (!text.ok()) return text.problems();
  ProgressLine progress(quiet);
  auto scores = reports::validation::score_collectives(
      *text, path, [&](std::string_view done) { progress.show(done); });
  progress.clear();
  if (!scores.ok()) return scores.problems();
  write_row_problems(scores->problems);
  if (scores->rows.empty())
    return core::Problem{path, "at least one timing that can be predicted",
                         std::to_string(scores->skipped.size()) + " rows, none of them",
                         scores->skipped.empty() ? "" : scores->skipped.front().reason};
  return scores;
}

int validate_collectives(const std::string& path, const OutputOptions& output) {
  const auto scores = scores_of(path, output.quiet);
  if (!scores.ok()) return refuse(scores.problems());
  const core::Status delivered = deliver(output, reports::validation::to_json_text(*scores), [&] {
    return reports::validation::collectives_text(*scores, page_style()) +
           next_text({{"planner validate runs.csv --collectives " + core::Code::shell(path) +
                           " --report page.md",
                       "a page with both"}});
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

std::vector<reports::NextStep> next_of(const std::string& runs, bool has_site,
                                       const OutputOptions& output) {
  const core::Code file = core::Code::shell(runs);
  std::vector<reports::NextStep> steps;
  if (!has_site)
    steps.push_back({core::code("planner calibrate --from {} --out site.json", file),
                     "learns the site of these runs"});
  if (output.out)
    steps.push_back(
        {core::code("planner report {} --out scores.html", core::Code::shell(*output.out)),
         "draws the scores"});
  else
    steps.push_back({"--out scores.json", "keeps the scores, for planner report"});
  return steps;
}

}  // namespace

int validate_verb(Arguments arguments) {
  std::string path;
  std::vector<std::string> overrides, more;
  std::optional<std::string> site, page, collectives, sandbox;
  reports::validation::Request request;
  OutputOptions output;
  OptionSet set("validate", kValidatePurpose, kValidateExamples);
  set.positional("RUNS", path, "CSV of measured runs, or of timed collectives, one per row");
  set.texts("--more", more, "FILE", "another CSV of runs, scored with them; repeatable");
  set.texts("--leave-out", request.leave_out, "DATASET", "do not score its rows; repeatable");
  set.texts("--set", overrides, "FIELD=VALUE",
            "set a field of a profile: [GPU or framework:]gpu.gemm_sustained=0.8; repeatable");
  set.text("--site", site, "FILE", "calibration of the site of all rows, by `planner calibrate`");
  set.text(
      "--report", page, "FILE",
      "a Markdown page and its scatter plot; fits without each dataset, which takes a minute");
  set.text("--collectives", collectives, "FILE", "timed collectives: adds a section to that page");
  add_output_options(set, output, "the scores");
  add_sandbox_option(set, sandbox);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status inside = enter_sandbox(sandbox, {output.out, page}); !inside.ok())
    return refuse(inside.problems());
  core::Problems bad;
  for (const std::string& text : overrides) {
    auto one = read_override(text);
    if (one.ok()) request.overrides.push_back(std::move(one).value());
    else bad.push_back(one.problems().front());
  }
  if (site) {
    core::Result<hw_profiles::SiteFile> read = hw_profiles::load_site(*site);
    if (read.ok()) request.site = std::move(read).value();
    else bad.insert(bad.end(), read.problems().begin(), read.problems().end());
  }
  if (const core::Status target = check_output(output); !target.ok())
    bad.insert(bad.end(), target.problems().begin(), target.problems().end());
  if (page)
    if (const core::Status target = core::check_writable(*page); !target.ok())
      bad.insert(bad.end(), target.problems().begin(), target.problems().end());
  if (collectives && !page)
    bad.push_back({"--collectives", "--report FILE beside it", "none",
                   "planner validate " + *collectives + " scores them alone"});
  if (!bad.empty()) return refuse(bad);

  const core::Result<std::string> text = core::read_file(path, kMaxBytes);
  if (!text.ok()) return refuse(text.problems());
  if (reports::validation::holds_collectives(*text)) {
    if (page || site || !overrides.empty() || !request.leave_out.empty() || !more.empty())
      return refuse({{path, "a file of runs with --report, --site, --set, --more and --leave-out",
                      "one of timed collectives", "alone, or as --collectives"}});
    return validate_collectives(path, output);
  }
  ProgressLine progress(output.quiet);
  request.progress = [&](std::string_view done) { progress.show(done); };
  const auto validated = [&](std::string_view rows, const std::string& file) {
    auto scored = reports::validation::validate(rows, file, request);
    progress.clear();
    return scored;
  };
  auto validation = validated(*text, path);
  if (!validation.ok()) return refuse(validation.problems());
  for (const std::string& file : more) {
    const core::Result<std::string> other_text = core::read_file(file, kMaxBytes);
    if (!other_text.ok()) return refuse(other_text.problems());
    auto other = validated(*other_text, file);
    if (!other.ok()) return refuse(other.problems());
    validation = reports::validation::joined(std::move(*validation), std::move(*other));
  }
  write_row_problems(validation->problems);
  const reports::validation::Scores& scores = validation->scores;
  if (scores.predicted == 0)
    return refuse({{path, "at least one row that can be predicted",
                    std::to_string(scores.rows) + " rows, none of them",
                    scores.skipped.empty() ? "" : scores.skipped.front().reason}});
  core::Code section;
  if (collectives) {
    const auto timed = scores_of(*collectives, output.quiet);
    if (!timed.ok()) return refuse(timed.problems());
    section = reports::validation::collectives_page(
        *timed, collectives->substr(collectives->rfind('/') + 1));
  }
  if (page) {
    const std::string runs = fmt::format("{}", fmt::join(names_of(path, more), " and "));
    const core::Status done = write_page(*page, *validation, runs, section, output.quiet);
    if (!done.ok()) return refuse(done.problems());
  }
  const core::Status delivered =
      deliver(output, reports::validation::to_json_text(scores),
              [&] {
                return reports::validation::validation_text(scores, page_style()) +
                       next_text(next_of(path, site.has_value(), output));
              });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
