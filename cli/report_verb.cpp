#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/page_form.hpp"
#include "cli/process.hpp"
#include "cli/sandbox.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "reports/html/build_page.hpp"

namespace cli {
namespace {

constexpr std::string_view kReportPurpose =
    "Writes a page from any mix of files that plan, simulate, exec, compare, validate and sweep\n"
    "wrote with --out: one HTML file that needs no network, or the same tables as Markdown.";
constexpr std::string_view kReportExamples =
    "  planner report plan.json --out plan.html          # open it in a browser\n"
    "  planner report plan.json run.json simulate.json --out page.html\n"
    "  planner report plan.json --out plan.md            # for a wiki or a review";

core::Result<std::vector<reports::html::Document>> read_documents(
    const std::vector<std::string>& paths) {
  std::vector<reports::html::Document> documents;
  core::Problems problems;
  for (const std::string& path : paths) {
    core::Result<std::string> text = core::read_file(path, core::kMaxJsonBytes);
    if (!text.ok()) {
      core::append(problems, text);
      continue;
    }
    auto document = reports::html::parse_document(std::move(text).value(), path);
    if (!document.ok()) {
      core::append(problems, document);
      continue;
    }
    document->index = documents.size();
    documents.push_back(std::move(document).value());
  }
  if (!problems.empty()) return problems;
  return documents;
}

// A page on standard output is all that is there.
std::string next_of(const std::optional<std::string>& out, PageForm form) {
  if (!out) return "";
  const core::Code file = core::Code::shell(*out);
  if (form == PageForm::markdown) return next_text({{"cat " + file, "shows it"}});
  return next_text({{"open " + file + " in a browser", "it needs no network and no other file"}});
}

}  // namespace

int report_verb(Arguments arguments) {
  std::vector<std::string> paths;
  std::optional<std::string> format;
  std::optional<std::string> sandbox;
  OutputOptions output;
  OptionSet set("report", kReportPurpose, kReportExamples);
  set.positionals("FILE", paths, "files that planner wrote with --out");
  set.group("Page");
  set.text("--format", format, "html|part|md",
           "the form, where the name of --out does not say it (md); part: a piece of HTML without "
           "scripts, for another page");
  add_output_options(set, output, "the page");
  add_sandbox_option(set, sandbox);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status inside = enter_sandbox(sandbox, {output.out}); !inside.ok())
    return refuse(inside.problems());
  core::Problems problems;
  if (output.json)
    problems.push_back({"--json", "a page", "the machine form",
                        "the files given are the machine form"});
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  const core::Result<PageForm> form = page_form_of(output.out, format);
  if (!form.ok()) problems.push_back(form.problems().front());
  if (!problems.empty()) return refuse(problems);
  const auto documents = read_documents(paths);
  if (!documents.ok()) return refuse(documents.problems());

  ProgressLine progress(output.quiet);
  const auto page = reports::html::build_page(
      *documents, "planner " + std::string(version_text()),
      [&](const std::string& what) { progress.show(what); },
      *form == PageForm::part ? reports::html::Extent::summary : reports::html::Extent::whole);
  progress.clear();
  if (!page.ok()) return refuse(page.problems());
  const std::string text = page_text(*page, *form);
  const core::Status delivered =
      deliver(output, text, [&] { return output.out ? next_of(output.out, *form) : text; });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
