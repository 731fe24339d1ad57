#include "reports/validate/groups.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "reports/validate/score.hpp"

namespace reports::validation {
namespace {

using Group = std::vector<const Predicted*>;

double measured(const Predicted* p) { return p->row.step->value(); }
double predicted(const Predicted* p) { return p->candidate.time.step.value(); }
double error(const Predicted* p) { return predicted(p) / measured(p) - 1; }

const Predicted* pick_of(const Group& group) {
  Group fitting;
  std::ranges::copy_if(group, std::back_inserter(fitting), [](auto* p) { return p->fits(); });
  return *std::ranges::min_element(fitting.empty() ? group : fitting, {}, predicted);
}

// Pairs ordered alike less those ordered against, and all pairs. O(rows^2).
std::pair<double, double> concordance(const Group& group) {
  double difference = 0, pairs = 0;
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double product = (measured(group[i]) - measured(group[j])) *
                             (predicted(group[i]) - predicted(group[j]));
      difference += product > 0 ? 1 : product < 0 ? -1 : 0;
      ++pairs;
    }
  return {difference, pairs};
}

std::string greatest_difference(const planner::Time& a, const planner::Time& b) {
  const std::pair<const char*, double> terms[] = {
      {"compute", (a.compute - b.compute).value()},
      {"exposed_communication", (a.exposed_communication - b.exposed_communication).value()},
      {"bubble", (a.bubble - b.bubble).value()},
      {"optimizer", (a.optimizer - b.optimizer).value()}};
  return std::ranges::max_element(terms, {}, [](const auto& t) { return std::abs(t.second); })
      ->first;
}

GroupScore score_of(const std::string& name, const Group& group) {
  const Predicted* pick = pick_of(group);
  const Predicted* best = *std::ranges::min_element(group, {}, measured);
  GroupScore s;
  s.name = name;
  s.rows = group.size();
  s.regret = measured(pick) / measured(best) - 1;
  s.rank = 1 + static_cast<std::size_t>(std::ranges::count_if(
                   group, [&](auto* p) { return measured(p) < measured(pick); }));
  s.pick = pick->row.id;
  s.best = best->row.id;
  s.pick_error = error(pick);
  s.best_error = error(best);
  const planner::Uncertainty& u = best->candidate.uncertainty;
  s.best_in_interval = u.step_low <= *best->row.step && *best->row.step <= u.step_high;
  if (pick != best) s.differ_in = greatest_difference(pick->candidate.time, best->candidate.time);
  std::tie(s.ordered_alike, s.pairs) = concordance(group);
  return s;
}

}  // namespace

std::vector<GroupScore> group_scores(const std::vector<Predicted>& rows) {
  std::map<std::string, Group> groups;
  for (const Predicted& p : rows)
    if (p.row.step && !p.row.group.empty()) groups[p.row.group].push_back(&p);
  std::vector<GroupScore> scores;
  for (const auto& [name, group] : groups)
    if (group.size() >= kGroupRows) scores.push_back(score_of(name, group));
  return scores;
}

}  // namespace reports::validation
