// What the host takes to issue operators, and what a block waits for it.
#include <algorithm>

#include "sim/cost/action.hpp"
#include "sim/cost/work.hpp"

namespace cost {

using program::Action;
using program::ActionKind;
using program::Call;
using models::ops::WorkOf;

core::Seconds ActionCost::operator_issue_time(const models::Operator& op) const {
  const WorkOf work = work_of(op);
  if (work == WorkOf::adapter) return machine_->host.adapter;
  if (is_matrix_product(work) || work == WorkOf::convolution) return machine_->host.gemm;
  if (work == WorkOf::attention) return machine_->host.attention;
  return work == WorkOf::rms_norm ? machine_->host.norm : machine_->host.elementwise;
}

// Of an operator's pass, and of a collective over activations: each of its ranks is late by so
// much, which the host of the others waits for.
core::Seconds ActionCost::issue_time(const Action& action) const {
  if (is_operator(action.kind)) return operator_issue_time(class_->operators[action.op]);
  if (action.kind != ActionKind::collective) return {};
  const program::Transfer& t = class_->transfers[action.op];
  if (t.what != program::Traffic::tensor && t.what != program::Traffic::sequence) return {};
  const int ranks = places_[static_cast<std::size_t>(t.group)].size;
  if (ranks <= 1) return {};
  return machine_->host.collective +
         machine_->rank_wait * (machine_->activation_waits * static_cast<double>(ranks));
}

ActionCost::BlockWait ActionCost::block_wait(const program::Block& block, const Call& call) const {
  if (!machine_->host_ahead) return {};
  core::Picoseconds taken{};
  for (std::uint32_t i = block.first; i < block.last; ++i)
    if (const Action& a = class_->actions[i]; is_computing(a)) taken += (*this)(a, call);
  return block_wait(block, taken);
}

bool ActionCost::is_computing(const Action& action) {
  return action.stream == program::Stream::compute && action.kind != ActionKind::receive &&
         action.kind != ActionKind::send;
}

ActionCost::BlockWait ActionCost::block_wait(const program::Block& block,
                                             core::Picoseconds taken) const {
  if (!machine_->host_ahead) return {};
  core::Seconds issue{};
  BlockWait wait;
  for (std::uint32_t i = block.first; i < block.last; ++i) {
    issue += issue_time(class_->actions[i]);
    if (is_operator(class_->actions[i].kind)) wait.action = i;
  }
  if (wait.action == program::kNone) return {};
  const core::Picoseconds host = core::to_picoseconds(issue + machine_->block_host);
  wait.time = std::max(core::Picoseconds{}, host - taken);
  return wait;
}

}  // namespace cost
