#include "exec/interpret/step_times.hpp"

#include "core/intervals.hpp"
#include "sim/program/access.hpp"

namespace exec {

using core::Interval;
using core::Intervals;
using program::ActionKind;
using program::Stream;

namespace {

Intervals of(const StepLog& log, std::initializer_list<Stream> streams) {
  std::vector<Interval> all;
  for (const Stream s : streams)
    for (const LoggedAction& a : log.streams[static_cast<std::size_t>(s)])
      all.push_back({a.start, a.finish});
  return core::joined(std::move(all));
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
  t.exposed_communication += core::length(either) - core::length(busy);
  t.pipeline_wait = core::uncovered(
      of(log, {Stream::send, Stream::receive, Stream::send_back, Stream::receive_back}), either);
  return t;
}

}  // namespace exec
