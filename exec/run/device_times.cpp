#include "exec/run/device_times.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/intervals.hpp"
#include "sim/program/trace_text.hpp"

namespace exec {
namespace {

using Stretches = std::vector<core::Interval>;

core::Seconds covered(Stretches all) {
  return core::Seconds(core::length(core::joined(std::move(all))));
}

// By stream and entry of its list: when the kernels of an action ran.
using OfEntries = std::map<std::pair<program::Stream, std::uint32_t>, Stretches>;

std::vector<MeasuredAction> actions_of(const program::RankClass& k, const StepLog& log,
                                       const OfEntries& kernels) {
  std::map<std::string, MeasuredAction> all;
  for (std::size_t s = 0; s < log.streams.size(); ++s)
    for (std::uint32_t entry = 0; entry < log.streams[s].size(); ++entry) {
      const LoggedAction& a = log.streams[s][entry];
      MeasuredAction& sum = all[program::action_name(k, k.actions[a.action])];
      ++sum.actions;
      sum.events += core::Seconds(a.finish - a.start);
      const auto own = kernels.find({static_cast<program::Stream>(s), entry});
      if (own == kernels.end()) continue;
      sum.kernels += std::ssize(own->second);
      for (const core::Interval& i : own->second) sum.sum += core::Seconds(i.to - i.from);
      sum.covered += covered(own->second);
    }
  std::vector<MeasuredAction> sums;
  for (auto& [name, sum] : all) {
    sum.name = name;
    sums.push_back(std::move(sum));
  }
  return sums;
}

std::vector<MeasuredKernel> kernels_of(const std::vector<LoggedKernel>& kernels) {
  std::map<std::string, MeasuredKernel> all;
  for (const LoggedKernel& k : kernels) {
    MeasuredKernel& sum = all.try_emplace(k.name, MeasuredKernel{k.name}).first->second;
    ++sum.calls;
    sum.total += core::Seconds(k.finish - k.start);
  }
  std::vector<MeasuredKernel> sums;
  for (auto& [name, sum] : all) sums.push_back(std::move(sum));
  std::ranges::stable_sort(sums, std::ranges::greater{}, &MeasuredKernel::total);
  return sums;
}

}  // namespace

std::optional<MeasuredDeviceTimes> device_times(const program::Program& program,
                                                const std::vector<StepLog>& logs, int rank) {
  const StepLog& log = logs[static_cast<std::size_t>(rank)];
  if (!log.kernels) return std::nullopt;
  OfEntries of_entries;
  Stretches all, events;
  for (const LoggedKernel& k : *log.kernels) {
    of_entries[{k.stream, k.entry}].push_back({k.start, k.finish});
    all.push_back({k.start, k.finish});
  }
  for (const auto& stream : log.streams)
    for (const LoggedAction& a : stream) events.push_back({a.start, a.finish});
  const program::RankClass& rank_class =
      program.classes[static_cast<std::size_t>(program.class_of(rank))];
  MeasuredDeviceTimes t;
  t.events = covered(std::move(events));
  const core::Intervals busy = core::joined(std::move(all));
  t.busy = core::Seconds(core::length(busy));
  if (!busy.empty()) t.gaps = core::Seconds(busy.back().to - busy.front().from) - t.busy;
  t.actions = actions_of(rank_class, log, of_entries);
  t.kernels = kernels_of(*log.kernels);
  return t;
}

}  // namespace exec
