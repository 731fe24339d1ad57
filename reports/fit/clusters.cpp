#include "reports/fit/clusters.hpp"

#include <algorithm>
#include <cmath>

#include "core/embedded.hpp"
#include "core/json.hpp"

std::span<const core::EmbeddedFile> fit_data();

namespace reports::fit {

std::string cause_of(std::string_view dataset, planner::Regime regime) {
  for (const core::EmbeddedFile& file : fit_data()) {
    if (file.name != "causes.json") continue;
    const core::Json json = *core::parse_json(file.text, file.name);
    const core::Json* of_dataset = json.find(dataset);
    if (of_dataset == nullptr) return "";
    const core::Json* cause = of_dataset->find(name(regime));
    return cause == nullptr ? "" : cause->as_string();
  }
  return "";
}

std::vector<WorstCluster> worst_clusters(const std::vector<LeftOut>& left_out, std::size_t most) {
  std::vector<WorstCluster> all;
  for (const LeftOut& set : left_out) {
    for (std::size_t r = 0; r < planner::kRegimes; ++r) {
      WorstCluster c;
      c.dataset = set.dataset;
      c.regime = static_cast<planner::Regime>(r);
      for (std::size_t i = 0; i < set.errors.size() && i < set.regimes.size(); ++i) {
        if (set.regimes[i] != c.regime) continue;
        ++c.rows;
        c.mape += std::abs(set.errors[i].second);
        c.bias += set.errors[i].second;
      }
      if (c.rows < kClusterRows) continue;
      c.mape /= static_cast<double>(c.rows);
      c.bias /= static_cast<double>(c.rows);
      all.push_back(std::move(c));
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &WorstCluster::mape);
  if (all.size() > most) all.resize(most);
  for (WorstCluster& c : all) c.cause = cause_of(c.dataset, c.regime);
  return all;
}

}  // namespace reports::fit
