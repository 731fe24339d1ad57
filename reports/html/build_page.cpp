#include "reports/html/build_page.hpp"

#include <fmt/format.h>

namespace reports::html {
namespace {

// The first plan that the run belongs to, compared with it.
void add_comparison(const std::vector<Document>& documents, const Document& run, Part& part) {
  for (const Document& d : documents) {
    if (!d.plan) continue;
    const core::Result<Comparison> compared = compare(*d.plan, *run.run, run.name);
    if (!compared.ok()) continue;
    part.sections.push_back(comparison_section(d, run, *compared));
    return;
  }
}

std::vector<const Document*> runs_of(const std::vector<Document>& documents, const Document& plan) {
  std::vector<const Document*> runs;
  for (const Document& d : documents)
    if (d.run && compare(*plan.plan, *d.run, d.name).ok()) runs.push_back(&d);
  return runs;
}

std::vector<const Document*> plans_and_runs(const std::vector<Document>& documents) {
  std::vector<const Document*> several;
  for (const Document& d : documents)
    if (d.run || (d.plan && d.plan->chosen)) several.push_back(&d);
  return several;
}

std::string title_of(const std::vector<Document>& documents) {
  for (const Document& d : documents)
    if (d.plan)
      return fmt::format("{} on {} x {}", d.plan->model.name, d.plan->gpus, d.plan->profile.gpu.id);
  return documents.size() == 1 ? fmt::format("{} {}", name(documents[0].kind), documents[0].name)
                               : fmt::format("{} files", documents.size());
}

}  // namespace

core::Result<Page> build_page(const std::vector<Document>& documents, std::string made_by,
                              const Progress& progress) {
  Page page;
  page.title = "planner: " + title_of(documents);
  page.made_by = std::move(made_by);
  for (const Document& d : documents) page.files.push_back(d.name);
  if (const std::vector<const Document*> several = plans_and_runs(documents); several.size() > 1)
    page.parts.push_back(side_by_side_part(several));
  for (const Document& d : documents) {
    progress(d.name);
    switch (d.kind) {
      case DocumentKind::plan: {
        core::Result<Part> part = plan_part(d, runs_of(documents, d), progress);
        if (!part.ok()) return part.problems();
        page.parts.push_back(std::move(part).value());
        break;
      }
      case DocumentKind::run: {
        Part part = run_part(d);
        add_comparison(documents, d, part);
        page.parts.push_back(std::move(part));
        break;
      }
      case DocumentKind::simulate: page.parts.push_back(simulate_part(d)); break;
      case DocumentKind::compare: page.parts.push_back(compare_part(d)); break;
      case DocumentKind::validate: page.parts.push_back(validate_part(d)); break;
      case DocumentKind::sweep: page.parts.push_back(sweep_part(d)); break;
    }
  }
  return page;
}

}  // namespace reports::html
