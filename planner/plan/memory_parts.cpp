#include "planner/plan/memory_parts.hpp"

#include <algorithm>
#include <map>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/cost/action.hpp"
#include "sim/program/cursor.hpp"
#include "sim/program/footprint.hpp"
#include "sim/program/replay.hpp"

namespace planner {
namespace {

using program::Buffer;
using program::RankClass;

// Buffers that are alive, by their place in the class and their term.
class Alive {
 public:
  explicit Alive(const RankClass& k) : class_(k) {
    for (std::size_t b = 0; b < k.buffers.size(); ++b) {
      const Buffer& buffer = k.buffers[b];
      if (!buffer.persistent) continue;
      for (int layer = 0; layer < buffer.extent; ++layer)
        for (int slot = 0; slot < buffer.slots; ++slot) change(b, layer, slot, 1);
    }
  }

  void change(std::size_t buffer, int layer, int slot, int sign) {
    const Buffer& b = class_.buffers[buffer];
    MemoryPart& part = parts_[{buffer, b.term_of(slot)}];
    const core::Bytes bytes = b.instance_bytes(layer);
    part.instances += sign;
    part.bytes += bytes * sign;
    if (!b.host) live_ += bytes * sign;
  }

  void apply(const program::Change& c, const program::Call& call) {
    const Buffer& b = class_.buffers[c.view.buffer];
    const int slot = program::instance_of(b, c.view, call) % b.slots;
    change(c.view.buffer, program::layer_index(c.view, call), slot, c.is_alloc ? 1 : -1);
  }

  core::Bytes live() const { return live_; }

  std::vector<MemoryPart> parts() const {
    std::map<std::tuple<program::Term, std::string, core::DType, bool>, MemoryPart> by_name;
    for (const auto& [key, part] : parts_) {
      if (part.bytes == core::Bytes{}) continue;
      const Buffer& b = class_.buffers[key.first];
      MemoryPart& all = by_name[{key.second, b.name, b.type, b.host}];
      all.term = key.second;
      all.buffer = b.name;
      all.type = b.type;
      all.host = b.host;
      all.instances += part.instances;
      all.bytes += part.bytes;
    }
    std::vector<MemoryPart> sorted;
    for (const auto& [key, part] : by_name) sorted.push_back(part);
    std::ranges::stable_sort(sorted, [](const MemoryPart& a, const MemoryPart& b) {
      return a.term != b.term ? a.term < b.term : a.bytes > b.bytes;
    });
    return sorted;
  }

 private:
  const RankClass& class_;
  std::map<std::pair<std::size_t, program::Term>, MemoryPart> parts_;
  core::Bytes live_{};
};

// Takes the step to the first instant at which `live` bytes are alive.
PeakMoment advance_to(Alive& alive, const RankClass& k, core::Bytes live) {
  PeakMoment moment;
  if (alive.live() == live) return moment;
  const program::BlockChanges changes = program::block_changes(k);
  const std::int64_t steps = k.schedule.whole_run();
  for (std::int64_t step = 0; step < steps; ++step)
    for (program::Cursor cursor(k, {step, steps}); !cursor.done(); cursor.advance()) {
      const program::Call call = cursor.call();
      for (const program::Change& c : changes.blocks[call.block].changes) {
        if (call.micro_batch == 0 && c.skips_first) continue;
        alive.apply(c, call);
        if (alive.live() != live) continue;
        moment.block = k.blocks[call.block].name;
        moment.layer = k.first_layer + call.layer;
        moment.micro_batch = call.micro_batch;
        return moment;
      }
    }
  PLANNER_CHECK(false, "the replayed peak is never reached");
  return moment;
}

}  // namespace

core::Result<MemoryParts> memory_parts(const Plan& plan, const Candidate& candidate) {
  const auto lowered = lower_strategy(plan.model, plan.job, plan.profile.framework, plan.gpus,
                                      candidate.strategy);
  if (!lowered.ok()) return lowered.problems();
  const program::Program& program = lowered->program;
  const auto k = std::ranges::find_if(program.classes, [&](const RankClass& c) {
    return cost::first_rank(program, c) == candidate.memory.rank;
  });
  const core::Problem other{"explain", "a plan of this version of planner",
                            "one whose memory is counted otherwise here", "plan again"};
  if (k == program.classes.end()) return other;
  const program::Replay replay = program::replay(*k, {.want_reserved = false});
  if (replay.terms != candidate.memory.worst.terms) return other;
  Alive alive(*k);
  MemoryParts found;
  found.peak = advance_to(alive, *k, replay.live);
  found.peak.rank = candidate.memory.rank;
  found.parts = alive.parts();
  return found;
}

}  // namespace planner
