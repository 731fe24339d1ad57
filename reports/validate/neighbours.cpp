#include "reports/validate/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "reports/text.hpp"

namespace reports::validation {
namespace {

constexpr std::size_t kNeighbours = 6;
constexpr double kAlike = 0.5;         // of the row's error: the neighbours' median has as much

// Respects in which two runs of a dataset may differ, each with its value as a text.
std::vector<std::pair<std::string_view, std::string>> respects(const Row& r) {
  const planner::Strategy& s = r.strategy;
  const auto number = [](std::int64_t n) { return fmt::format("{}", n); };
  return {{"GPU", r.gpu},
          {"layers", number(r.model.layers)},
          {"width", number(r.model.hidden)},
          {"heads", number(r.model.heads)},
          {"sequence length", number(r.job.seq_len)},
          {"batch", number(r.job.global_batch)},
          {"micro-batch", number(s.micro_batch)},
          {"data parallelism", number(s.data)},
          {"tensor parallelism", number(s.tensor)},
          {"pipeline", number(s.pipeline)},
          {"context parallelism", number(s.context)},
          {"sharding", number(static_cast<int>(s.sharding))},
          {"schedule", number(static_cast<int>(s.schedule))},
          {"recomputation", number(static_cast<int>(s.checkpoint) * 100 + s.checkpoint_every)},
          {"attention", r.job.attention},
          {"precision", number(static_cast<int>(r.job.precision)) + r.job.fp8_scaling},
          {"quantisation", r.job.quantization},
          {"norm", number(r.job.fused_norm)},
          {"compiler", number(r.job.compile)}};
}

std::vector<std::string_view> differences(const Row& a, const Row& b) {
  std::vector<std::string_view> names;
  const auto x = respects(a), y = respects(b);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i].second != y[i].second) names.push_back(x[i].first);
  return names;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// The respect that most of the neighbours differ in.
std::string_view commonest(const std::vector<std::vector<std::string_view>>& lists) {
  std::map<std::string_view, int> counts;
  for (const auto& list : lists)
    for (const std::string_view name : list) ++counts[name];
  if (counts.empty()) return "nothing stated";
  return std::ranges::max_element(counts, {}, &std::pair<const std::string_view, int>::second)
      ->first;
}

}  // namespace

std::vector<std::optional<double>> time_errors(const std::vector<Predicted>& rows) {
  std::vector<std::optional<double>> errors(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].row.step) errors[i] = rows[i].candidate.time.step / *rows[i].row.step - 1;
  return errors;
}

std::vector<std::optional<double>> memory_errors(const std::vector<Predicted>& rows) {
  std::vector<std::optional<double>> errors(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].row.peak_bytes)
      errors[i] = rows[i].memory_bytes() / *rows[i].row.peak_bytes - 1;
  return errors;
}

std::string explanation_of(std::size_t row, const std::vector<Predicted>& rows,
                           const std::vector<std::optional<double>>& errors) {
  struct Neighbour {
    std::vector<std::string_view> differs;
    double error;
  };
  std::vector<Neighbour> near;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row &a = rows[row].row, &b = rows[i].row;
    if (i != row && errors[i] && a.dataset == b.dataset && a.framework == b.framework)
      near.push_back({differences(a, b), *errors[i]});
  }
  if (near.empty()) return "no other run of its kind to compare with";
  std::ranges::stable_sort(near, {}, [](const Neighbour& n) { return n.differs.size(); });
  if (near.size() > kNeighbours) near.resize(kNeighbours);
  std::vector<double> list;
  std::vector<std::vector<std::string_view>> differs;
  for (const Neighbour& n : near) list.push_back(n.error), differs.push_back(n.differs);
  const double error = *errors[row], usual = median(list);
  const std::string of =
      fmt::format("median of its {} nearest runs {}", near.size(), signed_percent_text(usual));
  if (usual * error > 0 && std::abs(usual) > kAlike * std::abs(error))
    return fmt::format("systematic: {}, off alike", of);
  const Neighbour& first = near.front();
  if (first.differs.empty())
    return fmt::format("this run: another that states the same is off {}; {}",
                       signed_percent_text(first.error), of);
  if (first.differs.size() == 1)
    return fmt::format("this run or its {}: the run that differs in it alone is off {}; {}",
                       first.differs.front(), signed_percent_text(first.error), of);
  return fmt::format("its {}: {}, which differ in it", commonest(differs), of);
}

}  // namespace reports::validation
