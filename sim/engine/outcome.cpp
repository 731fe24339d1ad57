#include "sim/engine/outcome.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace engine {

std::string_view path_kind_name(std::size_t kind) {
  if (kind == 0) return "compute";
  if (kind == 1) return "optimizer";
  if (kind < 2 + kTrafficKinds) return program::name(static_cast<program::Traffic>(kind - 2));
  return "other";
}

std::size_t path_kind(const Timetable& table, const Operation& op) {
  if (op.work == Work::compute) return 0;
  if (op.work == Work::optimizer) return 1;
  if (op.point == program::kNone) return kPathKinds - 1;
  const auto& transfers = table.rank_class().transfers;
  return 2 + static_cast<std::size_t>(transfers[table.points()[op.point].transfer].what);
}

void enter(Account& a, const Operation& op, const Span& s, bool counts,
           std::int64_t& compute_done) {
  const std::int64_t spent = s.end - s.start;
  a.busy[static_cast<std::size_t>(op.stream)] += spent;
  if (op.stream == program::Stream::compute) {
    a.bubble += missing_time(s, compute_done, s.ready) + (s.start - s.ready);
    compute_done = s.end;
    a.kernels += op.kernels;
  }
  if (op.work == Work::compute) a.compute += spent;
  if (op.work == Work::optimizer) a.optimizer += spent;
  if (op.work == Work::transfer && counts) a.communication += spent;
}

std::int64_t Outcome::makespan() const {
  std::int64_t last = 0;
  for (std::size_t a = 0; a < actors(); ++a) last = std::max(last, account(a, 0).finish);
  return last;
}

StepTerms terms_of(const Outcome& o, std::size_t actor) {
  const Account& last = o.account(actor, o.accounted);
  StepTerms t;
  t.actor = actor;
  t.period = last.finish - (o.accounted > 0 ? o.account(actor, o.accounted - 1).finish : 0);
  t.compute = last.compute;
  t.optimizer = last.optimizer;
  t.bubble = last.bubble;
  t.exposed_communication = t.period - t.compute - t.optimizer - t.bubble;
  PLANNER_CHECK(t.exposed_communication >= 0, "a stream was busy for longer than the step");
  t.communication = last.communication;
  t.kernels = last.kernels;
  t.busy = last.busy;
  return t;
}

StepTerms critical_terms(const Outcome& o) {
  PLANNER_CHECK(o.actors() > 0, "nobody played");
  StepTerms critical = terms_of(o, 0);
  for (std::size_t a = 1; a < o.actors(); ++a) {
    const StepTerms t = terms_of(o, a);
    const bool busier = t.period == critical.period && t.bubble < critical.bubble;
    if (t.period > critical.period || busier) critical = t;
  }
  return critical;
}

}  // namespace engine
