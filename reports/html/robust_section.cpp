// What slow ranks and links make of a plan's candidates.
#include <fmt/format.h>

#include "reports/html/plan_sections.hpp"
#include "reports/robust_text.hpp"
#include "reports/text.hpp"

namespace reports::html {

Section robust_section(const Document& d) {
  const planner::Plan& plan = *d.plan;
  Section section{"Slow ranks and links", {}};
  if (!plan.robust) return section;
  const planner::RobustOptions& asked = plan.robust->asked;
  for (const planner::RandomSlow& kind : asked.random)
    section.blocks.push_back(Text{fmt::format("In each scenario, {}.", trouble_text(kind))});
  PageTable table{"Step of each candidate over the same scenarios",
                  {{"candidate", false}, {"step"}, {"mean"},
                   {percent_text(asked.quantile) + " of scenarios"}},
                  {}, false};
  for (const planner::RandomSlow& kind : asked.random)
    table.columns.push_back({kind.link_share < 1 ? "one weak link" : "one slow rank"});
  for (std::size_t c = 0; c < plan.robust->steps.size(); ++c) {
    const std::string of = fmt::format("/robust/candidates/{}", c);
    const std::string candidate = c == 0 ? "/chosen" : fmt::format("/alternatives/{}", c - 1);
    std::vector<Cell> cells{
        words(c == 0 ? "recommended" : fmt::format("alternative {}", c)),
        cell(d, candidate + "/time/step", Unit::seconds), cell(d, of + "/mean", Unit::seconds),
        cell(d, of + "/step", Unit::seconds)};
    for (std::size_t k = 0; k < asked.random.size(); ++k)
      cells.push_back(cell(d, fmt::format("{}/one_slow/{}/growth", of, k), Unit::fraction));
    table.rows.push_back(std::move(cells));
  }
  section.blocks.push_back(std::move(table));
  section.blocks.push_back(
      Text{"The last columns say how much longer a step is with one such rank or link, where it "
           "hurts most."});
  return section;
}

}  // namespace reports::html
