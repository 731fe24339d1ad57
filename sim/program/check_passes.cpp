// Every forward has its backward: counted by (operator, layer), in each kind of backward routine.
#include <map>
#include <set>

#include "sim/program/checker_parts.hpp"

namespace program::checker {
namespace {

using OperatorAt = std::pair<std::uint16_t, std::uint16_t>;  // operator, layer
using Gradient = std::tuple<ActionKind, std::uint16_t, std::uint16_t>;

template <class Visit>
void each(const RankClass& k, const char* routine, const Routine& calls, Visit&& visit) {
  for (const Call& call : calls) {
    for (std::uint32_t i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i)
      visit(Place{routine, call, i}, k.actions[i]);
  }
}

bool is_gradient(const Action& a) {
  return a.kind == ActionKind::input_gradient || a.kind == ActionKind::weight_gradient;
}

// Gradients of one routine; each once, after its forward.
std::map<Gradient, Place> gradients(const RankClass& k, const char* routine, const Routine& calls,
                                    std::set<OperatorAt> forwarded, Problems& problems) {
  std::map<Gradient, Place> found;
  each(k, routine, calls, [&](const Place& at, const Action& a) {
    if (a.kind == ActionKind::forward) forwarded.emplace(a.op, at.call.layer);
    if (!is_gradient(a)) return;
    if (!forwarded.contains({a.op, at.call.layer}))
      problems.add(Rule::passes, k.name, k, at, "a forward of this operator in this layer", "none",
                   "call the forward block first");
    if ((a.flags & kSkipFirstMicroBatch) != 0)
      problems.add(Rule::passes, k.name, k, at, "a backward in every micro-batch",
                   "the first one skips it", "drop the flag");
    if (!found.emplace(Gradient{a.kind, a.op, at.call.layer}, at).second)
      problems.add(Rule::passes, k.name, k, at, "one backward per layer and micro-batch", "two",
                   "call the backward block once");
  });
  return found;
}

void same(const RankClass& k, const std::map<Gradient, Place>& a,
          const std::map<Gradient, Place>& b, const char* missing_in, Problems& problems) {
  for (const auto& [gradient, at] : a) {
    if (!b.contains(gradient))
      problems.add(Rule::passes, k.name, k, at, std::string("this backward in ") + missing_in,
                   "none", "every micro-batch has the same backward passes");
  }
}

// In training, only the embeddings' block may lie below all that is trained.
bool must_have_backward(const RankClass& k, const Block& block) {
  if (k.last_backward.empty()) return false;
  for (std::uint32_t i = block.first; i < block.last; ++i)
    if (k.actions[i].kind == ActionKind::forward &&
        k.operators[k.actions[i].op].kind == models::OpKind::token_embedding)
      return false;
  return true;
}

// A forward call of which no operator has a gradient in this layer, although it should.
void forwards_answered(const RankClass& k, const std::map<Gradient, Place>& found,
                       Problems& problems) {
  std::set<std::uint16_t> differentiated;
  std::set<OperatorAt> answered;
  for (const auto& [gradient, at] : found) {
    differentiated.insert(std::get<1>(gradient));
    answered.emplace(std::get<1>(gradient), std::get<2>(gradient));
  }
  for (const Call& call : k.forward) {
    bool expects = false, has = false;
    Place first;
    const bool must = must_have_backward(k, k.blocks[call.block]);
    for (std::uint32_t i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i) {
      const Action& a = k.actions[i];
      if (a.kind != ActionKind::forward) continue;
      if (!differentiated.contains(a.op) && !must) continue;
      if (!expects) first = {"forward", call, i};
      expects = true;
      has |= answered.contains({a.op, call.layer});
    }
    if (expects && !has)
      problems.add(Rule::passes, k.name, k, first, "a backward of this layer", "none",
                   "call its backward block");
  }
}

}  // namespace

void check_passes(const RankClass& k, Problems& problems) {
  std::set<OperatorAt> forwarded;
  each(k, "forward", k.forward, [&](const Place& at, const Action& a) {
    if (a.kind == ActionKind::forward) forwarded.emplace(a.op, at.call.layer);
  });
  const auto last = gradients(k, "last_backward", k.last_backward, forwarded, problems);
  if (k.schedule.micro_batches > 1) {
    const auto others = gradients(k, "backward", k.backward, forwarded, problems);
    same(k, last, others, "backward", problems);
    same(k, others, last, "last_backward", problems);
  }
  forwards_answered(k, last, problems);
}

}  // namespace program::checker
