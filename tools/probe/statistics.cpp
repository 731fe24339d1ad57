#include "tools/probe/statistics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "tools/probe/require.hpp"

namespace probe {
namespace {

double quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(position));
  const auto high = std::min(low + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(low);
  return sorted[low] + part * (sorted[high] - sorted[low]);
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9),
          static_cast<int>(samples.size())};
}

Summary rate(const Summary& seconds, double amount) {
  if (seconds.repeats == 0) return {};
  require(seconds.p10 > 0.0, "a rate over a time that is not positive");
  return {amount / seconds.median, amount / seconds.p90, amount / seconds.p10, seconds.repeats};
}

Json to_json(const Summary& summary) {
  Json json = Json::object();
  const bool measured = summary.repeats > 0;
  json["median"] = measured ? Json(summary.median) : Json();
  json["p10"] = measured ? Json(summary.p10) : Json();
  json["p90"] = measured ? Json(summary.p90) : Json();
  json["repeats"] = summary.repeats;
  return json;
}

Summary measure(const RepeatRule& rule, const std::function<double()>& sample) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::vector<double> samples;
  for (int i = 0; i < rule.most; ++i) {
    const std::chrono::duration<double> spent = Clock::now() - start;
    if (i >= rule.least && spent.count() >= rule.seconds) break;
    samples.push_back(sample());
  }
  return summarize(std::move(samples));
}

}  // namespace probe
