#include "sim/cost/remembered_cost.hpp"

#include <tuple>

namespace cost {
namespace {

constexpr std::size_t kPasses = 3;

std::size_t pass_of(program::ActionKind kind) {
  if (kind == program::ActionKind::forward) return 0;
  return kind == program::ActionKind::input_gradient ? 1 : 2;
}

// All that the time of a collective of so many elements depends on.
auto key_of(const program::Transfer& t) {
  return std::tie(t.collective, t.algorithm, t.what, t.group, t.wire_type, t.once, t.overlapped,
                  t.beside);
}

}  // namespace

RememberedCost::RememberedCost(const ActionCost& cost)
    : cost_(&cost), operators_(kPasses * cost.rank_class().operators.size()) {}

core::Picoseconds RememberedCost::operator()(const program::Action& action,
                                             const program::Call& call) {
  if (action.kind == program::ActionKind::collective) return collective(action, call);
  if (!ActionCost::is_operator(action.kind)) return (*cost_)(action, call);
  auto& known = operators_[kPasses * action.op + pass_of(action.kind)];
  if (!known) known = (*cost_)(action, call);
  return *known;
}

core::Picoseconds RememberedCost::collective(const program::Action& action,
                                             const program::Call& call) {
  if (ActionCost::joins_heads(action)) return (*cost_)(action, call);
  const program::Transfer& transfer = cost_->rank_class().transfers[action.op];
  const std::int64_t elements = cost_->transferred(action, call);
  for (const Collective& known : collectives_)
    if (known.elements == elements && key_of(*known.transfer) == key_of(transfer))
      return known.time;
  const core::Picoseconds time = (*cost_)(action, call);
  collectives_.push_back({&transfer, elements, time});
  return time;
}

}  // namespace cost
