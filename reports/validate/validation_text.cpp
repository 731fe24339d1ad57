#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "reports/validate/validation.hpp"

namespace reports::validation {
namespace {

constexpr std::size_t kWorstRows = 10;
constexpr std::size_t kReasons = 5;

std::string headline(const Scores& s) {
  std::string text = fmt::format("{} of {} rows predicted\n", s.predicted, s.rows);
  if (s.time.rows > 0)
    text += fmt::format("time     {} rows  mean error {}, median {}, p90 {}, bias {}; mean of "
                        "datasets {}\n",
                        s.time.rows, percent_text(s.time.mape), percent_text(s.time.median),
                        percent_text(s.time.p90), signed_percent_text(s.time.bias),
                        percent_text(s.time_by_dataset));
  if (s.closed_form.rows > 0)
    text += fmt::format("         by the closed form alone: mean error {}, median {}, p90 {}, bias "
                        "{}\n",
                        percent_text(s.closed_form.mape), percent_text(s.closed_form.median),
                        percent_text(s.closed_form.p90), signed_percent_text(s.closed_form.bias));
  for (const auto& [what, e] : {std::pair{"memory  ", &s.memory}, {"device  ", &s.memory_device}})
    if (e->rows > 0)
      text += fmt::format("{} {} rows  mean error {}, median {}, p90 {}, worst {}\n", what, e->rows,
                          percent_text(e->mape), percent_text(e->median), percent_text(e->p90),
                          percent_text(e->most));
  if (s.fit.rows > 0)
    text += fmt::format("fit      {} of {} right ({}), {} wrongly said to fit, {} wrongly not\n",
                        s.fit.correct, s.fit.rows,
                        percent_text(static_cast<double>(s.fit.correct) /
                                     static_cast<double>(s.fit.rows)),
                        s.fit.false_fit, s.fit.false_oom);
  if (s.ranking.groups > 0)
    text += fmt::format("ranking  {} groups, mean regret {}, p90 {}, Kendall tau {:.2f}\n",
                        s.ranking.groups, percent_text(s.ranking.mean_regret),
                        percent_text(s.ranking.p90_regret), s.ranking.kendall_tau);
  return text;
}

std::string clusters_text(const Scores& s, TextStyle style) {
  Table table({{"dataset", Align::left}, {"framework", Align::left}, {"GPU", Align::left},
               {"rows"}, {"error"}, {"bias"}});
  for (const Cluster& c : s.by)
    table.add({c.dataset, c.framework, c.gpu, fmt::format("{}", c.time.rows),
               percent_text(c.time.mape), signed_percent_text(c.time.bias)});
  return table.empty() ? "" : table.text(style);
}

std::string sizes_text(const Scores& s, TextStyle style) {
  Table table({{"size", Align::left}, {"rows"}, {"error"}, {"bias"}});
  for (const SizeScore& k : s.by_size)
    table.add({k.size, fmt::format("{}", k.time.rows), percent_text(k.time.mape),
               signed_percent_text(k.time.bias)});
  return table.empty() ? "" : table.text(style);
}

// The picks that cost the most.
std::string groups_text(const Scores& s, TextStyle style) {
  std::vector<const GroupScore*> worst;
  for (const GroupScore& g : s.groups)
    if (g.regret > 0) worst.push_back(&g);
  std::ranges::stable_sort(worst, std::ranges::greater{}, &GroupScore::regret);
  if (worst.size() > kWorstRows) worst.resize(kWorstRows);
  Table table({{"alternatives", Align::left}, {"rows"}, {"regret"}, {"rank"},
               {"pick", Align::left}, {"error"}, {"best", Align::left}, {"error"},
               {"inside", Align::left}, {"differ in", Align::left}});
  for (const GroupScore* g : worst)
    table.add({g->name, fmt::format("{}", g->rows), percent_text(g->regret),
               fmt::format("{}", g->rank), g->pick, signed_percent_text(g->pick_error), g->best,
               signed_percent_text(g->best_error), g->best_in_interval ? "yes" : "no",
               g->differ_in});
  return table.empty() ? "" : table.text(style);
}

std::string worst_text(const Scores& s, TextStyle style) {
  std::vector<const RowScore*> worst;
  for (const RowScore& r : s.per_row)
    if (r.relative_error) worst.push_back(&r);
  std::ranges::stable_sort(worst, std::ranges::greater{},
                           [](const RowScore* r) { return std::abs(*r->relative_error); });
  if (worst.size() > kWorstRows) worst.resize(kWorstRows);
  Table table({{"worst rows", Align::left}, {"of", Align::left}, {"error"},
               {"mostly", Align::left}});
  for (const RowScore* r : worst)
    table.add({r->id, std::string(name(r->kind)), signed_percent_text(*r->relative_error),
               r->dominant_term});
  return table.empty() ? "" : table.text(style);
}

std::string skipped_text(const Scores& s, TextStyle style) {
  if (s.skipped.empty()) return "";
  std::map<std::string, std::size_t> reasons;
  for (const Skipped& k : s.skipped) ++reasons[k.reason];
  using Count = std::pair<std::string, std::size_t>;
  std::vector<Count> most(reasons.begin(), reasons.end());
  std::ranges::stable_sort(most, std::ranges::greater{}, &Count::second);
  std::string text = fmt::format("{} rows skipped\n", s.skipped.size());
  for (std::size_t i = 0; i < std::min(most.size(), kReasons); ++i)
    text += wrapped(fmt::format("{} x {}", most[i].second, most[i].first), 2, 6, style);
  if (most.size() > kReasons)
    text += fmt::format("  and {} other reasons: --json lists all\n", most.size() - kReasons);
  return text;
}

}  // namespace

std::string validation_text(const Scores& s, TextStyle style) {
  std::string text = headline(s);
  for (const std::string& block : {clusters_text(s, style), sizes_text(s, style),
                                   groups_text(s, style), worst_text(s, style),
                                   skipped_text(s, style)})
    if (!block.empty()) text += '\n' + block;
  return text;
}

}  // namespace reports::validation
