#include <algorithm>

#include <fmt/format.h>

#include "cli/log_files.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/sandbox.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/untrusted.hpp"
#include "reports/comparison.hpp"
#include "reports/html/document.hpp"
#include "reports/logs/log_comparison.hpp"
#include "reports/subjects_comparison.hpp"

namespace cli {
namespace {

using reports::Comparison;
using reports::Subject;
using reports::logs::LogComparison;
using reports::html::Document;
using reports::html::DocumentKind;

constexpr std::string_view kComparePurpose =
    "Compares what a plan predicted with what its runs measured, term by term. With --log, the\n"
    "runs are a framework's: step times and peak memory are read from what it printed. Without a\n"
    "run, it puts several plans, a plan's strategies, or its machines side by side.";
constexpr std::string_view kCompareExamples =
    "  planner compare plan.json run.json --json\n"
    "  planner compare a.json b.json run.json --format csv\n"
    "  planner compare plan.json --log train.log\n"
    "  planner compare plan.json --strategies\n"
    "  planner compare plan.json --machines --format md";

struct CompareWords {
  std::vector<std::string> files, logs;
  std::optional<std::string> format;
  bool strategies = false, machines = false;
};

bool has_plan(const Document& d) { return d.plan.has_value(); }

core::Result<std::vector<Document>> read_documents(const std::vector<std::string>& paths) {
  std::vector<Document> documents;
  core::Problems problems;
  for (const std::string& path : paths) {
    core::Result<Document> document = [&]() -> core::Result<Document> {
      core::Result<std::string> text = core::read_file(path, core::kMaxJsonBytes);
      if (!text.ok()) return text.problems();
      return reports::html::parse_document(std::move(text).value(), path);
    }();
    if (!document.ok()) {
      core::append(problems, document);
      continue;
    }
    if (document->kind != DocumentKind::plan && document->kind != DocumentKind::run)
      problems.push_back({path, "a plan or a run",
                          fmt::format("a file of {}", name(document->kind)),
                          "planner report shows files of every kind"});
    documents.push_back(std::move(document).value());
  }
  if (!problems.empty()) return problems;
  return documents;
}

// Machines side by side are those that the plan was asked about.
core::Problems check_machines(const std::vector<Document>& documents, const CompareWords& words) {
  core::Problems problems;
  for (const Document& d : documents)
    if (words.machines && d.plan && d.plan->other_machines.empty())
      problems.push_back({d.name, "a plan that was asked about other machines", "none",
                          "plan with --gpu rtx3090,a100-sxm-80g,h100-sxm-80g, or without --gpu"});
  return problems;
}

// A path may hold anything, and labels are printed.
std::string label_of(const Document& d) { return core::visible(d.name); }

// Each run with the first plan that it belongs to; with a single plan it must belong to that.
core::Result<std::vector<Comparison>> compare_runs(const std::vector<Document>& documents) {
  std::vector<Comparison> comparisons;
  const auto plans = std::ranges::count_if(documents, has_plan);
  for (const Document& run : documents) {
    if (!run.run) continue;
    for (const Document& d : documents) {
      if (!d.plan) continue;
      core::Result<Comparison> compared = reports::compare(*d.plan, *run.run, label_of(run));
      if (!compared.ok() && plans == 1) return compared.problems();
      if (!compared.ok()) continue;
      comparisons.push_back(std::move(compared).value());
      break;
    }
  }
  return comparisons;
}

std::vector<Subject> subjects_of(const std::vector<Document>& documents,
                                 const CompareWords& words) {
  std::vector<Subject> subjects;
  const bool several = documents.size() > 1;
  const auto add = [&](std::vector<Subject> more, const std::string& file) {
    for (Subject& s : more) {
      if (several) s.label = fmt::format("{}: {}", file, s.label);
      subjects.push_back(std::move(s));
    }
  };
  for (const Document& d : documents) {
    if (d.run) subjects.push_back(reports::run_of(*d.run, label_of(d)));
    if (!d.plan) continue;
    if (words.strategies) add(reports::candidates_of(*d.plan), label_of(d));
    if (words.machines) add(reports::machines_of(*d.plan), label_of(d));
    if (!words.strategies && !words.machines)
      subjects.push_back(reports::chosen_of(*d.plan, label_of(d)));
  }
  return subjects;
}

core::Problems check(const CompareWords& words) {
  core::Problems problems;
  if (words.format && *words.format != "text" && *words.format != "csv" && *words.format != "md")
    problems.push_back({"--format", "text, csv or md", fmt::format("\"{}\"", *words.format), ""});
  if (!words.logs.empty() && (words.strategies || words.machines))
    problems.push_back({"--log", "a log beside one plan", "--strategies or --machines",
                        "compare the log by itself"});
  if (words.files.size() == 1 && !words.strategies && !words.machines && words.logs.empty())
    problems.push_back({"command line", "two files to compare", "one",
                        "add a run or another plan, or --strategies or --machines"});
  return problems;
}

// Compares each log with the plan. REQUIRES one plan among the files, else that is the problem.
core::Result<std::vector<LogComparison>> compare_logs(const std::vector<Document>& documents,
                                                      const std::vector<std::string>& logs) {
  std::vector<LogComparison> comparisons;
  core::Problems problems;
  if (logs.empty()) return comparisons;
  const auto plan = std::ranges::find_if(documents, has_plan);
  if (std::ranges::count_if(documents, has_plan) != 1)
    return core::Problem{"--log", "one plan beside the logs",
                         std::to_string(std::ranges::count_if(documents, has_plan)),
                         "name the plan of the run"};
  for (const std::string& path : logs) {
    auto compared = compare_log_file(*plan->plan, path);
    core::append(problems, compared);
    if (compared.ok()) comparisons.push_back(std::move(compared).value());
  }
  if (!problems.empty()) return problems;
  return comparisons;
}

// compare/1: terms of runs as ever, and the subjects where there are several of them.
std::string machine_form(const std::vector<Comparison>& comparisons,
                         const std::vector<LogComparison>& logs,
                         const std::vector<Subject>& subjects, bool terms_alone) {
  if (terms_alone && logs.empty()) return reports::to_json_text(comparisons);
  core::Json root = core::parse_json(reports::to_json_text(comparisons), "").value();
  if (!terms_alone) root.set("subjects", reports::subjects_json(subjects));
  if (!logs.empty()) {
    core::Json all = core::Json::array();
    for (const LogComparison& log : logs) all.push_back(reports::logs::log_json(log));
    if (comparisons.empty()) root.set("terms", all.items().front().at("terms"));
    root.set("logs", std::move(all));
  }
  return core::dump(root) + '\n';
}

// Rows of runs and logs under one head.
std::string csv_of(std::vector<Comparison> rows, const std::vector<LogComparison>& logs) {
  for (const LogComparison& log : logs) {
    rows.emplace_back();
    rows.back().run = log.file;
    rows.back().terms = log.terms;
  }
  return reports::comparisons_csv(rows);
}

std::string logs_page(const CompareWords& words, const std::vector<LogComparison>& logs) {
  std::string text;
  for (const LogComparison& log : logs) {
    if (!text.empty()) text += '\n';
    text += words.format == "md" ? reports::logs::log_markdown(log)
                                 : reports::logs::log_text(log, page_style());
  }
  return text;
}

// What explains a comparison, by how it came out. Files are named in the order they were given.
std::vector<reports::NextStep> next_of(const CompareWords& words,
                                       const std::vector<Document>& documents,
                                       const std::vector<Comparison>& comparisons) {
  core::Code files;
  for (const std::string& file : words.files) files += " " + core::Code::shell(file);
  std::vector<reports::NextStep> steps{
      {core::code("planner report{} --out page.html", files), "draws it"}};
  const auto plan = std::ranges::find_if(documents, has_plan);
  if (plan == documents.end()) return steps;
  const core::Code file = core::Code::shell(plan->name);
  const auto differs = [](const Comparison& c) {
    const reports::EqualTerms n = reports::equal_terms(c);
    return n.equal < n.all;
  };
  if (std::ranges::any_of(comparisons, differs))
    steps.push_back({core::code("planner explain memory.live --plan {}", file),
                     "what a predicted figure is made of"});
  else if (std::ranges::any_of(comparisons, [](const Comparison& c) {
             return c.other_hardware.has_value();
           }))
    steps.push_back({"planner calibrate --backend host --out me.json",
                     "measures this machine, to compare times too"});
  if (words.strategies)
    steps.push_back(
        {core::code("planner simulate {} --candidate 1", file), "plays an alternative in time"});
  core::Code logs;
  for (const std::string& log : words.logs) logs += " --log " + core::Code::shell(log);
  const hw_profiles::Site& site = plan->plan->profile.site;
  if (!words.logs.empty() && !site.runs && !site.measured)
    steps.push_back({core::code("planner calibrate --plan {}{} --out site.json", file, logs),
                     "learns how fast your site is, for --site"});
  return steps;
}

std::string page(const CompareWords& words, const std::vector<Comparison>& comparisons,
                 const std::vector<Subject>& subjects, bool terms_alone) {
  const bool csv = words.format == "csv", markdown = words.format == "md";
  if (terms_alone && csv) return reports::comparisons_csv(comparisons);
  if (terms_alone && markdown) return reports::comparisons_markdown(comparisons);
  if (csv) return reports::subjects_csv(subjects);
  if (markdown) return reports::subjects_markdown(subjects);
  std::string text = terms_alone ? "" : reports::subjects_text(subjects, page_style());
  for (const Comparison& c : comparisons) {
    if (!text.empty()) text += '\n';
    text += reports::comparison_text(c, page_style());
  }
  return text;
}

}  // namespace

int compare_verb(Arguments arguments) {
  CompareWords words;
  std::optional<std::string> sandbox;
  OutputOptions output;
  OptionSet set("compare", kComparePurpose, kCompareExamples);
  set.positionals("FILE", words.files, "files written by planner --out and planner exec --out");
  set.group("Comparison");
  set.flag("--strategies", words.strategies, "every candidate of each plan, side by side");
  set.flag("--machines", words.machines, "each plan on every GPU that its --gpu named");
  set.texts("--log", words.logs, "FILE", "what a framework printed while it ran the plan, "
            "a profile of torch.profiler, a snapshot of its memory, or a rank's Chakra trace; "
            "repeatable");
  set.text("--format", words.format, "NAME", "of standard output: text, csv, md (text)");
  add_output_options(set, output, "the comparison");
  add_sandbox_option(set, sandbox);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status inside = enter_sandbox(sandbox, {output.out}); !inside.ok())
    return refuse(inside.problems());
  core::Problems problems = check(words);
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  if (!problems.empty()) return refuse(problems);

  const auto documents = read_documents(words.files);
  if (!documents.ok()) return refuse(documents.problems());
  if (const core::Problems none = check_machines(*documents, words); !none.empty())
    return refuse(none);
  const auto plans = std::ranges::count_if(*documents, has_plan);
  const auto comparisons = compare_runs(*documents);
  if (!comparisons.ok()) return refuse(comparisons.problems());
  const auto logs = compare_logs(*documents, words.logs);
  if (!logs.ok()) return refuse(logs.problems());
  const std::vector<Subject> subjects = subjects_of(*documents, words);
  const bool measured = documents->size() > 1 || !logs->empty();
  const bool terms_alone = plans == 1 && measured && !words.strategies && !words.machines;
  const core::Status delivered =
      deliver(output, machine_form(*comparisons, *logs, subjects, terms_alone),
              [&] {
                if (words.format == "csv" && !logs->empty()) return csv_of(*comparisons, *logs);
                std::string text = comparisons->empty() && !logs->empty()
                                       ? std::string()
                                       : page(words, *comparisons, subjects, terms_alone);
                if (!text.empty() && !logs->empty()) text += '\n';
                text += logs_page(words, *logs);
                if (words.format.value_or("text") == "text")
                  text += next_text(next_of(words, *documents, *comparisons));
                return text;
              });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
