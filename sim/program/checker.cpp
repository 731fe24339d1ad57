#include "sim/program/checker.hpp"

#include <algorithm>

#include "sim/program/checker_parts.hpp"
#include "sim/program/turns.hpp"

namespace program {
namespace checker {

static const char* routine_name(const program::Pass& pass, bool last) {
  switch (pass.kind) {
    case PassKind::forward: return "forward";
    case PassKind::weight_gradient: return last ? "last_weight_gradient" : "weight_gradient";
    default: return last ? "last_backward" : "backward";
  }
}

// Without flush: a run that fills, is steady and drains.
static std::vector<Run> runs_of_run(const RankClass& k) {
  const RankSchedule& s = k.schedule;
  const std::int64_t steps = s.whole_run();
  std::vector<Run> all;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t end = s.first_of(step + 1) - 1;
    all.push_back({"begin", &k.begin, s.first_of(step)});
    for (Passes passes(s, {step, steps}); !passes.done(); passes.advance()) {
      const Pass pass = passes.pass();
      const bool last = (pass.micro_batch + 1) % s.micro_batches == 0;
      all.push_back({routine_name(pass, last), &k.routine(pass), pass.micro_batch});
    }
    all.push_back({"end", &k.end, end});
  }
  all.push_back({"finish", &k.finish, s.first_of(steps) - 1});
  return all;
}

std::vector<Run> runs_of(const RankClass& whole, std::int64_t micro_batches) {
  if (!whole.schedule.flushes) return runs_of_run(whole);
  const std::int64_t m = std::min(whole.schedule.micro_batches, micro_batches);
  RankSchedule cut = whole.schedule;
  cut.micro_batches = m;
  std::vector<Run> all{{"begin", &whole.begin, 0}};
  for (Passes passes(cut); !passes.done(); passes.advance()) {
    Pass pass = passes.pass();
    const std::int64_t micro_batch = pass.micro_batch;
    const bool last = micro_batch + 1 == m;
    const char* name = routine_name(pass, last);
    if (last) pass.micro_batch = whole.schedule.micro_batches - 1;  // the routine with reductions
    all.push_back({name, &whole.routine(pass), micro_batch});
  }
  all.push_back({"end", &whole.end, m - 1});
  return all;
}

std::int64_t micro_batches_to_walk(const Program& p) {
  std::int64_t ahead = 1, slots = 1, micro_batches = 1, group = 1;
  for (const RankClass& k : p.classes) {
    const RankSchedule& s = k.schedule;
    const std::int64_t m = s.micro_batches;
    micro_batches = std::max(micro_batches, m);
    if (s.slots() < m) ahead = std::max(ahead, s.slots());
    if (s.order != Order::straight) ahead = std::max<std::int64_t>(ahead, 2 * s.ranks);
    if (s.order == Order::interleaved) group = s.ranks;
    const auto count = [&](std::int64_t n) { if (n < m) slots = std::max(slots, n); };
    for (const Buffer& b : k.buffers) count(b.slots);
    for (const Event& e : k.events) count(e.slots);
  }
  const std::int64_t rounds = (ahead + slots + 2 + group - 1) / group;
  return std::min(micro_batches, rounds * group);
}

// Without flush micro-batches are numbered through the run, so that a program of fewer is walked:
// as many of them in a step as fill the pipeline and reuse every slot.
static Program cut_steps(const Program& whole, std::int64_t micro_batches) {
  Program p = whole;
  for (RankClass& k : p.classes) {
    for (Buffer& b : k.buffers)
      if (b.share > 1) b.share = micro_batches;
    k.schedule.micro_batches = micro_batches;
  }
  return p;
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
  const std::int64_t m = checker::micro_batches_to_walk(p);
  const RankSchedule& schedule = p.classes.front().schedule;
  if (!schedule.flushes && m < schedule.micro_batches) return check(checker::cut_steps(p, m));
  checker::Problems problems;
  std::vector<bool> seen(p.classes.size(), false);
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    const auto c = static_cast<std::size_t>(p.class_of(rank));
    if (seen[c]) continue;
    seen[c] = true;
    checker::check_class(p.classes[c], p.part_of(rank), m, problems);
    checker::check_passes(p.classes[c], problems);
    checker::check_versions(p.classes[c], problems);
    if (std::ranges::count(seen, false) == 0) break;
  }
  checker::check_ranks(p, m, schedule.flushes && !takes_turns(p), problems);
  return problems.take();
}

core::Problems check_launches(const Program& p) {
  const std::int64_t m = checker::micro_batches_to_walk(p);
  const RankSchedule& schedule = p.classes.front().schedule;
  if (!schedule.flushes && m < schedule.micro_batches)
    return check_launches(checker::cut_steps(p, m));
  checker::Problems problems;
  checker::check_ranks(p, m, true, problems);
  return problems.take();
}

}  // namespace program
