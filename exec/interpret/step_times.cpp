#include "exec/interpret/step_times.hpp"

#include "exec/interpret/intervals.hpp"
#include "sim/program/access.hpp"

namespace exec {

using program::ActionKind;
using program::Stream;

namespace {

// Length of the union with `beside`, less that of `beside`: what lies outside it.
double outside(const Intervals& all, const Intervals& beside) {
  std::vector<Interval> both = all;
  both.insert(both.end(), beside.begin(), beside.end());
  return length(joined(std::move(both))) - length(beside);
}

Intervals of(const StepLog& log, std::initializer_list<Stream> streams) {
  std::vector<Interval> all;
  for (const Stream s : streams)
    for (const LoggedAction& a : log.streams[static_cast<std::size_t>(s)])
      all.push_back({a.start, a.finish});
  return joined(std::move(all));
}

}  // namespace

StepTimes times_of(const program::RankClass& rank_class, const StepLog& log) {
  StepTimes t;
  for (const LoggedAction& a : log.streams[static_cast<std::size_t>(Stream::compute)]) {
    const ActionKind kind = rank_class.actions[a.action].kind;
    const double seconds = a.finish - a.start;
    if (program::updates(kind))
      t.optimizer += seconds;
    else if (kind >= ActionKind::collective)
      t.exposed_communication += seconds;
    else if (kind != ActionKind::fence)
      t.compute += seconds;
  }
  const Intervals busy = of(log, {Stream::compute});
  const Intervals either =
      of(log, {Stream::compute, Stream::gradient, Stream::parameter, Stream::context});
  t.exposed_communication += length(either) - length(busy);
  t.pipeline_wait = outside(
      of(log, {Stream::send, Stream::receive, Stream::send_back, Stream::receive_back}), either);
  return t;
}

}  // namespace exec
