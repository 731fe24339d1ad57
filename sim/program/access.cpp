#include "sim/program/access.hpp"

#include "core/check.hpp"
#include "sim/program/arguments.hpp"

namespace program {
namespace {

// All arguments from `first` on.
std::uint32_t from(std::size_t first, const Action& a) {
  const std::uint32_t all = a.arg_count >= 32 ? ~0u : (1u << a.arg_count) - 1;
  return first >= 32 ? 0 : all & ~((1u << first) - 1);
}

std::uint32_t operator_writes(const RankClass& k, const Action& a) {
  PLANNER_CHECK(a.op < k.operators.size(), "a kernel names its operator");
  const models::Operator& op = k.operators[a.op];
  const models::ops::Signature& s = models::ops::signature(schema_of(op), kernel_of(a.kind));
  const auto runs = find_arguments(s, op, a.arg_count);
  PLANNER_CHECK(runs.has_value(), "other arguments than the schema of " + op.name + " has");
  std::uint32_t writes = 0;
  for (std::size_t i = 0; i < s.count; ++i) {
    const ArgumentRun run = (*runs)[i];
    if (s.arguments[i].written) writes |= ((1u << run.count) - 1u) << run.first;
  }
  return writes;
}

}  // namespace

std::uint32_t written_args(const RankClass& k, const Action& a) {
  switch (a.kind) {
    case ActionKind::alloc:
    case ActionKind::free:
    case ActionKind::fence:
    case ActionKind::send:
    case ActionKind::push:
    case ActionKind::serve_pull: return 0;
    case ActionKind::load:
    case ActionKind::zero:
    case ActionKind::receive:
    case ActionKind::pull: return 1;
    case ActionKind::cast: return from(1, a);
    case ActionKind::dequantise:
    case ActionKind::copy:
    case ActionKind::accumulate:
    case ActionKind::square_sum:
    case ActionKind::scale_step: return 2;
    case ActionKind::optimizer:
      return (1u | from(2, a)) & ~(reads_norm(a) ? from(a.arg_count - std::size_t{1}, a) : 0);
    case ActionKind::collective:
      // Shared key heads: what is read, what is written, and the parts of all ranks.
      if (a.arg_count == 3) return from(1, a);
      if (k.transfers[a.op].collective == Collective::reduce_scatter) return from(0, a);
      return from(a.arg_count - std::size_t{1}, a);
    case ActionKind::serve_push: return from(a.arg_count - std::size_t{1}, a);
    case ActionKind::forward:
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient: return operator_writes(k, a);
  }
  return 0;
}

bool adds_gradients(const Action& a) {
  return a.kind == ActionKind::weight_gradient || a.kind == ActionKind::input_gradient ||
         a.kind == ActionKind::accumulate;
}

}  // namespace program
