#include "exec/run/rank_report.hpp"

#include <algorithm>
#include <map>

namespace exec {
namespace {

void fill_memory(RunRecord& r, const RankReport& named, int rank) {
  r.memory.rank = rank;
  for (std::size_t t = 0; t < program::kTerms; ++t) {
    r.memory.terms[t] = named.terms[t];
    r.memory.peaks[t] = named.peaks[t];
  }
  r.memory.live = named.live;
  r.memory.reserved = named.reserved;
  r.memory.workspace = named.beside.workspace;
  r.memory.context = named.beside.context;
  r.memory.communicators = named.beside.communicators;
  r.memory.message_blocks = named.beside.message_blocks;
  r.memory.device = named.beside.device;
}

std::vector<program::LibraryCalls> library_of(const RankReport& report, const TrafficKey& key,
                                              std::int64_t steps) {
  const auto at = report.traffic.library.find(key);
  if (at == report.traffic.library.end()) return {};
  std::vector<program::LibraryCalls> calls = at->second;
  for (program::LibraryCalls& c : calls) {
    c.count /= steps;
    c.payload = c.payload / steps;
  }
  return calls;
}

void fill_communication(RunRecord& r, const std::vector<RankReport>& reports) {
  std::map<TrafficKey, const RankReport*> busiest;
  for (const RankReport& report : reports)
    for (const auto& [key, totals] : report.traffic.entries) {
      const auto [at, fresh] = busiest.try_emplace(key, &report);
      if (!fresh && totals.wire > at->second->traffic.entries.at(key).wire) at->second = &report;
    }
  const auto steps = static_cast<std::int64_t>(reports.front().times.size());
  for (const auto& [key, report] : busiest) {
    const TrafficTotals& t = report->traffic.entries.at(key);
    if (t.wire == core::Bytes(0) && !key.library) continue;
    std::optional<core::Bytes> wire;
    if (!key.library || t.wire > core::Bytes(0)) wire = t.wire / steps;
    r.communication.push_back({std::string(program::name(key.what)), collective_name(key),
                               algorithm_name(key), key.group_size, t.calls / steps,
                               t.payload / steps, wire, t.busy / static_cast<double>(steps),
                               library_of(*report, key, steps)});
  }
  for (std::size_t from = 0; from < reports.size(); ++from)
    for (const SentTo& s : reports[from].sent)
      r.sent.push_back({static_cast<int>(from), s.to, s.messages, s.wire});
}

// Parts of the rank that the plan names, of the median step; left out where others are there: a
// first step that warms up, and without flush those that fill the pipeline and that drain it.
void fill_time(RunRecord& r, const std::vector<RankReport>& reports, const RankReport& named,
               bool together, std::int64_t draining) {
  const auto run = static_cast<double>(named.times.size());
  std::vector<StepTimes> steps = named.times;
  for (std::size_t s = 0; together && s < steps.size(); ++s)
    for (const RankReport& report : reports)
      steps[s].step = std::max(steps[s].step, report.times[s].step);
  if (draining > 0 && std::ssize(steps) > 2 * draining) {
    steps.erase(steps.end() - draining, steps.end());
    steps.erase(steps.begin(), steps.begin() + draining);
  } else if (steps.size() > 2) {
    steps.erase(steps.begin());
  }
  std::ranges::sort(steps, {}, &StepTimes::step);
  const auto at = [&](double q) {
    return steps[static_cast<std::size_t>(q * static_cast<double>(steps.size() - 1) + 0.5)];
  };
  const StepTimes median = at(0.5);
  r.time.step_median = core::Seconds(median.step);
  r.time.step_p10 = core::Seconds(at(0.1).step);
  r.time.step_p90 = core::Seconds(at(0.9).step);
  r.time.compute = core::Seconds(median.compute);
  r.time.exposed_communication = core::Seconds(median.exposed_communication);
  r.time.optimizer = core::Seconds(median.optimizer);
  r.time.bubble = core::Seconds(std::max(
      0.0, median.step - median.compute - median.exposed_communication - median.optimizer));
  core::Seconds busy{0};
  for (const auto& [key, t] : named.traffic.entries) busy += t.busy;
  r.time.communication = busy / run;
}

// Over all servers and spans.
void fill_staleness(RunRecord& r, const std::vector<RankReport>& reports) {
  Staleness all;
  for (const RankReport& report : reports) {
    all.pushes += report.staleness.pushes;
    all.sum += report.staleness.sum;
    all.most = std::max(all.most, report.staleness.most);
  }
  if (all.pushes == 0) return;
  r.staleness = {all.pushes, static_cast<double>(all.sum) / static_cast<double>(all.pushes),
                 all.most};
}

}  // namespace

void fill_measured(RunRecord& r, const std::vector<RankReport>& reports, int named_rank,
                   std::int64_t steps, bool together, std::int64_t draining) {
  const RankReport& named = reports[static_cast<std::size_t>(named_rank)];
  r.steps = steps;
  r.loss.assign(static_cast<std::size_t>(steps), 0.0);
  for (const RankReport& report : reports)  // ascending ranks: a stated order
    for (std::size_t s = 0; s < report.loss.size(); ++s) r.loss[s] += report.loss[s];
  fill_memory(r, named, named_rank);
  fill_communication(r, reports);
  fill_time(r, reports, named, together, draining);
  fill_staleness(r, reports);
  if (named.loss_scale)
    r.loss_scale = {named.loss_scale->scale,
                    steps - static_cast<std::int64_t>(named.loss_scale->updates)};
}

}  // namespace exec
