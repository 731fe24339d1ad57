#include "reports/html/build_page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reports/html/plan_sections.hpp"

namespace reports::html {
namespace {

// A plan's run, and what the two say of each other.
struct Pair {
  const Document* plan;
  const Document* run;
  Comparison comparison;
};

// Each run with the first plan that it belongs to, in the order of the files.
std::vector<Pair> pairs_of(const std::vector<Document>& documents) {
  std::vector<Pair> pairs;
  for (const Document& run : documents) {
    if (!run.run) continue;
    for (const Document& plan : documents) {
      if (!plan.plan) continue;
      core::Result<Comparison> compared = compare(*plan.plan, *run.run, run.name);
      if (!compared.ok()) continue;
      pairs.push_back({&plan, &run, std::move(compared).value()});
      break;
    }
  }
  return pairs;
}

Part beside_part(const std::vector<Pair>& pairs) {
  Part part{"Predicted beside measured", {}};
  for (const Pair& p : pairs)
    part.sections.push_back(beside_section(*p.plan, *p.run, p.comparison));
  return part;
}

std::vector<const Document*> runs_of(const std::vector<Document>& documents, const Document& plan) {
  std::vector<const Document*> runs;
  for (const Document& d : documents)
    if (d.run && compare(*plan.plan, *d.run, d.name).ok()) runs.push_back(&d);
  return runs;
}

// Plans, and runs of none of them: a run of a plan stands beside it already.
std::vector<const Document*> plans_and_runs(const std::vector<Document>& documents,
                                            const std::vector<Pair>& pairs) {
  std::vector<const Document*> several;
  for (const Document& d : documents) {
    const bool paired = std::ranges::any_of(pairs, [&](const Pair& p) { return p.run == &d; });
    if ((d.run && !paired) || (d.plan && d.plan->chosen)) several.push_back(&d);
  }
  return several;
}

std::string title_of(const std::vector<Document>& documents) {
  const auto is_plan = [](const Document& d) { return d.plan.has_value(); };
  const auto first = std::ranges::find_if(documents, is_plan);
  if (const auto plans = std::ranges::count_if(documents, is_plan); plans > 1)
    return fmt::format("{} plans side by side", plans);
  if (first != documents.end())
    return fmt::format("{} on {}", first->plan->model.name, machine_text(*first->plan));
  return documents.size() == 1 ? fmt::format("{} {}", name(documents[0].kind), documents[0].name)
                               : fmt::format("{} files", documents.size());
}

}  // namespace

core::Result<Page> build_page(const std::vector<Document>& documents, std::string made_by,
                              const Progress& progress, Extent extent) {
  Page page;
  page.title = title_of(documents);
  if (documents.size() == 1 && documents[0].plan) page.about = question_text(*documents[0].plan);
  page.made_by = std::move(made_by);
  for (const Document& d : documents) page.files.push_back(d.name);
  const std::vector<Pair> pairs = pairs_of(documents);
  if (!pairs.empty()) page.parts.push_back(beside_part(pairs));
  if (const auto several = plans_and_runs(documents, pairs); several.size() > 1)
    page.parts.push_back(side_by_side_part(several));
  for (const Document& d : documents) {
    progress(d.name);
    switch (d.kind) {
      case DocumentKind::plan: {
        core::Result<Part> part = plan_part(d, runs_of(documents, d), progress, extent);
        if (!part.ok()) return part.problems();
        page.parts.push_back(std::move(part).value());
        break;
      }
      case DocumentKind::run: page.parts.push_back(run_part(d)); break;
      case DocumentKind::simulate: page.parts.push_back(simulate_part(d)); break;
      case DocumentKind::compare: page.parts.push_back(compare_part(d)); break;
      case DocumentKind::validate: page.parts.push_back(validate_part(d)); break;
      case DocumentKind::sweep: page.parts.push_back(sweep_part(d)); break;
    }
  }
  return page;
}

}  // namespace reports::html
