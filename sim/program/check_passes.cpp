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

// Chunk `part` of an operator that takes its rows in several calls: the next of its input's rows.
void check_part(const RankClass& k, const Place& at, const Action& a, std::int64_t part,
                Problems& problems) {
  const bool weight = a.kind == ActionKind::weight_gradient;  // {dy, x, dw} or {dy, w, dx}
  const View& rows = k.views[a.first_arg + (weight ? 1U : 2U)];
  if (rows.range == Range::fixed && rows.offset == part * rows.elements) return;
  problems.add(Rule::accumulation, k.name, k, at,
               "chunk " + std::to_string(part) + " of " + std::to_string(k.operators[a.op].parts) +
                   ", chunks ascending",
               std::to_string(rows.elements) + " elements at " + std::to_string(rows.offset),
               "take each chunk of the rows once, in order");
}

// Gradients of one routine; each once (in as many parts as its operator has), after its forward.
std::map<Gradient, Place> gradients(const RankClass& k, const char* routine, const Routine& calls,
                                    std::set<OperatorAt> forwarded, Problems& problems) {
  std::map<Gradient, Place> found;
  std::map<Gradient, std::int64_t> parts;
  each(k, routine, calls, [&](const Place& at, const Action& a) {
    if (a.kind == ActionKind::forward) forwarded.emplace(a.op, at.call.layer);
    if (!is_gradient(a)) return;
    if (!forwarded.contains({a.op, at.call.layer}))
      problems.add(Rule::passes, k.name, k, at, "a forward of this operator in this layer", "none",
                   "call the forward block first");
    if ((a.flags & kSkipFirstMicroBatch) != 0)
      problems.add(Rule::passes, k.name, k, at, "a backward in every micro-batch",
                   "the first one skips it", "drop the flag");
    const Gradient gradient{a.kind, a.op, at.call.layer};
    found.emplace(gradient, at);
    const std::int64_t part = parts[gradient]++, count = k.operators[a.op].parts;
    if (count > 1 && part < count) check_part(k, at, a, part, problems);
    if (part == count)
      problems.add(Rule::passes, k.name, k, at, "one backward per layer and micro-batch", "two",
                   "call the backward block once");
  });
  for (const auto& [gradient, done] : parts) {
    const std::int64_t count = k.operators[std::get<1>(gradient)].parts;
    if (done < count)
      problems.add(Rule::passes, k.name, k, found.at(gradient),
                   std::to_string(count) + " chunks of this backward", std::to_string(done),
                   "take each chunk of the rows once, in order");
  }
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

// In training, only the block that reads the model's input may lie below all that is trained.
bool must_have_backward(const RankClass& k, const Block& block) {
  if (k.last_backward.empty()) return false;
  const auto reads_input = [](const Action& a) {
    const Input input = Load::of(a.op).input;
    return a.kind == ActionKind::load && (input == Input::tokens || input == Input::features);
  };
  for (std::uint32_t i = block.first; i < block.last; ++i)
    if (reads_input(k.actions[i])) return false;
  return true;
}

// A forward call of which no operator has a gradient in this layer, although it should.
void forwards_answered(const RankClass& k, const Routine& forward,
                       const std::map<Gradient, Place>& found, Problems& problems) {
  std::set<std::uint16_t> differentiated;
  std::set<OperatorAt> answered;
  for (const auto& [gradient, at] : found) {
    differentiated.insert(std::get<1>(gradient));
    answered.emplace(std::get<1>(gradient), std::get<2>(gradient));
  }
  for (const Call& call : forward) {
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

// Where weight gradients are passes of their own: in every layer that has an input gradient, each
// operator that has them in some layer.
void weights_follow(const RankClass& k, const std::map<Gradient, Place>& found,
                    Problems& problems) {
  std::set<std::uint16_t> weighted;
  for (const auto& [gradient, at] : found)
    if (std::get<0>(gradient) == ActionKind::weight_gradient)
      weighted.insert(std::get<1>(gradient));
  for (const auto& [gradient, at] : found) {
    const auto& [kind, op, layer] = gradient;
    if (kind != ActionKind::input_gradient || !weighted.contains(op)) continue;
    if (!found.contains({ActionKind::weight_gradient, op, layer}))
      problems.add(Rule::passes, k.name, k, at, "a weight gradient of this operator", "none",
                   "call the layer's weight gradient block");
  }
}

// All chunks' routines of one kind, one after the other: they have no layer in common.
Routine joined(const RankClass& k, std::initializer_list<Routine PassRoutines::*> kinds) {
  Routine all;
  for (int c = 0; c < k.chunks(); ++c)
    for (const auto kind : kinds) {
      const Routine& own = k.chunk(c).*kind;
      all.insert(all.end(), own.begin(), own.end());
    }
  return all;
}

}  // namespace

void check_passes(const RankClass& k, Problems& problems) {
  const Routine forward = joined(k, {&PassRoutines::forward});
  const Routine backward =
      joined(k, {&PassRoutines::backward, &PassRoutines::weight_gradient});
  const Routine last_backward =
      joined(k, {&PassRoutines::last_backward, &PassRoutines::last_weight_gradient});
  std::set<OperatorAt> forwarded;
  each(k, "forward", forward, [&](const Place& at, const Action& a) {
    if (a.kind == ActionKind::forward) forwarded.emplace(a.op, at.call.layer);
  });
  const auto last = gradients(k, "last_backward", last_backward, forwarded, problems);
  if (k.schedule.micro_batches > 1) {
    const auto others = gradients(k, "backward", backward, forwarded, problems);
    same(k, last, others, "backward", problems);
    same(k, others, last, "last_backward", problems);
  }
  if (k.schedule.split) weights_follow(k, last, problems);
  forwards_answered(k, forward, last, problems);
}

}  // namespace program::checker
