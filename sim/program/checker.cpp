#include "sim/program/checker.hpp"

#include <algorithm>

#include "sim/program/checker_parts.hpp"

namespace program {
namespace checker {

std::vector<Pass> passes_of(const RankClass& k, std::int64_t micro_batches) {
  const Schedule s{std::min(k.schedule.micro_batches, micro_batches), k.schedule.warm_up};
  const std::int64_t m = s.micro_batches, n = s.in_flight();
  std::vector<Pass> all{{"begin", &k.begin, 0}};
  const auto backward = [&](std::int64_t i) {
    if (i + 1 < m) all.push_back({"backward", &k.backward, i});
    else all.push_back({"last_backward", &k.last_backward, i});
  };
  for (std::int64_t i = 0; i < n; ++i) all.push_back({"forward", &k.forward, i});
  for (std::int64_t i = 0; i < m; ++i) {
    backward(i);
    if (n + i < m) all.push_back({"forward", &k.forward, n + i});
  }
  all.push_back({"end", &k.end, m - 1});
  return all;
}

std::int64_t micro_batches_to_walk(const Program& p) {
  std::int64_t ahead = 1, slots = 1, micro_batches = 1;
  for (const RankClass& k : p.classes) {
    const std::int64_t m = k.schedule.micro_batches;
    micro_batches = std::max(micro_batches, m);
    if (k.schedule.warm_up + 1 < m) ahead = std::max(ahead, k.schedule.in_flight());
    const auto count = [&](std::int64_t n) { if (n < m) slots = std::max(slots, n); };
    for (const Buffer& b : k.buffers) count(b.slots);
    for (const Event& e : k.events) count(e.slots);
  }
  return std::min(micro_batches, ahead + slots + 2);
}

std::string describe(const std::string& who, const RankClass& k, const Place& at) {
  const Action& a = k.actions[at.action];
  return who + ", " + at.routine + ", " + k.blocks[at.call.block].name + ", layer " +
         std::to_string(at.call.layer) + ", micro-batch " + std::to_string(at.call.micro_batch) +
         ", action " + std::to_string(at.action) + " (" + std::string(name(a.kind)) + ")";
}

std::string text(const RankClass& k, const View& view, const Call& call) {
  return k.buffers[view.buffer].name + "[" + std::to_string(layer_index(view, call)) + "]";
}

void Problems::add(Rule rule, const std::string& who, const RankClass& k, const Place& at,
                   std::string expected, std::string found, std::string fix) {
  if (!seen_.emplace(rule, who, at.action).second) return;
  problems_.push_back(
      {describe(who, k, at), std::move(expected), std::move(found), std::move(fix)});
}

}  // namespace checker

core::Problems check(const Program& p) {
  checker::Problems problems;
  const std::int64_t m = checker::micro_batches_to_walk(p);
  std::vector<bool> seen(p.classes.size(), false);
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    const auto c = static_cast<std::size_t>(p.class_of(rank));
    if (seen[c]) continue;
    seen[c] = true;
    checker::check_class(p.classes[c], p.part_of(rank), m, problems);
    checker::check_passes(p.classes[c], problems);
    if (std::ranges::count(seen, false) == 0) break;
  }
  checker::check_ranks(p, m, problems);
  return problems.take();
}

}  // namespace program
