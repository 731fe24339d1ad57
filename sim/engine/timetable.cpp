#include "sim/engine/timetable.hpp"

#include <algorithm>
#include <limits>

#include "core/check.hpp"
#include "sim/cost/held_time.hpp"
#include "sim/program/traffic.hpp"

namespace engine {

using program::Action;
using program::ActionKind;
using program::Call;
using program::RankClass;

class Timetable::Builder {
 public:
  Builder(Timetable& out, const program::Program& p, const RankClass& k,
          const cost::Machine& machine, int rank, TimetableOptions options)
      : out_(out), class_(k), cost_(p, k, machine, 0, rank), mesh_(p.mesh),
        options_(options), blocks_(k.blocks.size()) {
    for (const program::Event& event : k.events) {
      first_instance_.push_back(out.instances_);
      out.instances_ +=
          static_cast<std::uint32_t>(event.extent) * static_cast<std::uint32_t>(event.slots);
    }
  }

  Range add(const program::Routine& routine, std::string_view name, int chunk = 0) {
    update_ = name == "begin" || name == "end";
    start_ = static_cast<std::uint32_t>(out_.operations_.size());
    held_ = {};
    for (const Call& call : routine)
      for (const Item& item : block(call)) add_item(item, call);
    const Range range{start_, static_cast<std::uint32_t>(out_.operations_.size())};
    if (range.last > range.first) out_.routines_.push_back({range, name, chunk});
    return range;
  }

 private:
  // An action of a block as every call has it.
  struct Item {
    std::uint32_t action = 0;
    std::int64_t duration = 0;
    bool varies = false;               // its duration depends on the call
  };

  static bool is_message(ActionKind kind) {
    return kind == ActionKind::send || kind == ActionKind::receive;
  }
  static bool only_memory(const Action& a) {
    return (a.kind == ActionKind::alloc || a.kind == ActionKind::free) && a.wait_count == 0 &&
           a.signal == program::kNone;
  }

  bool varies(const Action& action) const {
    if (cost::ActionCost::is_operator(action.kind)) return false;
    for (int i = 0; i < action.arg_count; ++i) {
      const program::View& v = class_.views[action.first_arg + static_cast<std::uint32_t>(i)];
      if (v.range >= program::Range::span) return true;
      if (v.index == program::Index::layer && class_.buffers[v.buffer].elements.size() > 1)
        return true;
    }
    return cost::ActionCost::is_transfer(action.kind) && !is_message(action.kind) &&
           action.kind != ActionKind::collective;
  }

  const std::vector<Item>& block(const Call& call) {
    std::vector<Item>& items = blocks_[call.block];
    if (!items.empty()) return items;
    const program::Block& b = class_.blocks[call.block];
    const cost::ActionCost::BlockWait wait = cost_.block_wait(b, call);
    for (std::uint32_t i = b.first; i < b.last; ++i) {
      const Action& a = class_.actions[i];
      if (only_memory(a) && !options_.parts) continue;
      Item item{.action = i, .varies = varies(a)};
      if (!item.varies) item.duration = cost_(a, call).value();
      if (i == wait.action) item.duration += wait.time.value();
      items.push_back(item);
    }
    return items;
  }

  Instance instance(const program::EventRef& ref, const Call& call) const {
    const program::Event& event = class_.events[ref.event];
    const int layer = program::layer_index(ref, call);
    PLANNER_CHECK(layer >= 0 && layer < event.extent, "an event outside its instances");
    return {first_instance_[ref.event] + static_cast<std::uint32_t>(layer * event.slots),
            static_cast<std::uint16_t>(event.slots), ref.micro_batch_shift};
  }

  Work work_of(const Action& a) const {
    if (cost::ActionCost::is_transfer(a.kind)) return Work::transfer;
    if (!cost::ActionCost::is_kernel(a.kind) || a.stream != program::Stream::compute)
      return Work::none;
    return update_ ? Work::optimizer : Work::compute;
  }

  std::uint16_t point_of(const Action& a) {
    if (!cost::ActionCost::is_transfer(a.kind)) return program::kNone;
    const program::Transfer& t = class_.transfers[a.op];
    if (a.kind == ActionKind::collective && mesh_.group_size(t.group) == 1) return program::kNone;
    const MeetingPoint point{a.op, a.kind, a.stream};
    const auto at = std::ranges::find(out_.points_, point);
    const auto index = at - out_.points_.begin();
    if (at == out_.points_.end()) out_.points_.push_back(point);
    return static_cast<std::uint16_t>(index);
  }

  void add_item(const Item& item, const Call& call) {
    const Action& a = class_.actions[item.action];
    std::int64_t duration = item.varies ? cost_(a, call).value() : item.duration;
    duration += held_.next(class_, a, call, cost_.held(a, core::Picoseconds(duration)).value());
    PLANNER_CHECK(duration >= 0, "an action without a time");
    Operation next;
    next.duration = duration;
    next.stream = a.stream;
    next.work = work_of(a);
    next.kernels = cost::ActionCost::is_kernel(a.kind) ? 1 : 0;
    next.point = point_of(a);
    next.skip_first = (a.flags & program::kSkipFirstMicroBatch) != 0;
    next.wait_count = a.wait_count;
    if (next.point != program::kNone) {
      next.transfer_elements = a.kind >= ActionKind::push
                                   ? class_.spans[call.layer].shard_elements
                                   : program::transfer_elements(class_, a, call);
      next.beside_wire = cost_.beside_wire(a, call).value();
    }
    Operation& into = joins(next) ? join(next) : open(next, a, call);
    if (a.signal != program::kNone) {
      into.signal = static_cast<std::uint32_t>(out_.signals_.size());
      out_.signals_.push_back(instance(class_.signals[a.signal], call));
    }
    if (!options_.parts) return;
    out_.parts_.push_back({call, item.action, into.duration - duration, duration});
    into.last_part = static_cast<std::uint32_t>(out_.parts_.size());
  }

  // Whether it can be a piece of the operation before it. Operations without work of their own
  // (waits, signals, allocations) take the colour of what follows or precedes.
  bool joins(const Operation& next) const {
    if (out_.operations_.size() == start_) return false;
    const Operation& last = out_.operations_.back();
    const bool alike = last.work == next.work || last.work == Work::none ||
                       (next.work == Work::none && next.duration == 0);
    return alike && last.stream == next.stream && last.point == program::kNone &&
           next.point == program::kNone && last.skip_first == next.skip_first &&
           last.signal == kAbsent && next.wait_count == 0 &&
           (last.work != Work::none || last.duration == 0 || next.work == Work::none);
  }
  Operation& join(const Operation& next) {
    Operation& last = out_.operations_.back();
    last.duration += next.duration;
    last.kernels += next.kernels;
    if (last.work == Work::none) last.work = next.work;
    return last;
  }

  Operation& open(Operation next, const Action& a, const Call& call) {
    std::uint32_t wait = a.first_wait;
    int left = a.wait_count;
    for (; left > kMaxWaits; left -= kMaxWaits) {
      Operation waits;
      waits.stream = next.stream;
      waits.skip_first = next.skip_first;
      push(waits, wait, kMaxWaits, call);
      wait += kMaxWaits;
    }
    return push(next, wait, left, call);
  }
  Operation& push(Operation op, std::uint32_t wait, int count, const Call& call) {
    op.first_wait = static_cast<std::uint32_t>(out_.waits_.size());
    op.wait_count = static_cast<std::uint8_t>(count);
    op.first_part = op.last_part = static_cast<std::uint32_t>(out_.parts_.size());
    for (int i = 0; i < count; ++i)
      out_.waits_.push_back(instance(class_.waits[wait + static_cast<std::uint32_t>(i)].on, call));
    out_.operations_.push_back(op);
    return out_.operations_.back();
  }

  Timetable& out_;
  const RankClass& class_;
  cost::ActionCost cost_;
  const program::Mesh& mesh_;
  TimetableOptions options_;
  std::vector<std::vector<Item>> blocks_;
  std::vector<std::uint32_t> first_instance_;
  std::uint32_t start_ = 0;            // of the routine being added
  cost::HeldTime held_;
  bool update_ = false;
};

Timetable::Timetable(const program::Program& p, const RankClass& k, const cost::Machine& machine,
                     int rank, TimetableOptions options)
    : class_(&k) {
  Builder builder(*this, p, k, machine, rank, options);
  begin_ = builder.add(k.begin, "begin");
  for (int c = 0; c < k.chunks(); ++c) {
    const program::PassRoutines& chunk = k.chunk(c);
    const bool several = k.schedule.micro_batches > 1;
    std::array<Range, kPassRanges>& ranges = chunks_.emplace_back();
    ranges[forward] = builder.add(chunk.forward, "forward", c);
    if (several) ranges[backward] = builder.add(chunk.backward, "backward", c);
    ranges[last_backward] = builder.add(chunk.last_backward, "last_backward", c);
    if (several) ranges[weight] = builder.add(chunk.weight_gradient, "weight_gradient", c);
    ranges[last_weight] = builder.add(chunk.last_weight_gradient, "last_weight_gradient", c);
  }
  end_ = builder.add(k.end, "end");
  finish_ = builder.add(k.finish, "finish");
}

std::vector<std::pair<Range, double>> Timetable::plays() const {
  const auto others = static_cast<double>(class_->schedule.micro_batches - 1);
  std::vector<std::pair<Range, double>> all{{begin_, 1}, {end_, 1}};
  for (const auto& ranges : chunks_) {
    all.emplace_back(ranges[forward], others + 1);
    all.emplace_back(ranges[backward], others);
    all.emplace_back(ranges[last_backward], 1);
    all.emplace_back(ranges[weight], others);
    all.emplace_back(ranges[last_weight], 1);
  }
  return all;
}

double Timetable::operations_of_step() const {
  double all = 0;
  for (const auto& [range, times] : plays()) all += times * (range.last - range.first);
  return all;
}

std::vector<PointUse> Timetable::point_uses() const {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::vector<PointUse> uses(points_.size(), {0, kNever});
  const auto use = [&](Range range, double times) {
    for (std::uint32_t i = range.first; i < range.last; ++i) {
      const Operation& op = operations_[i];
      if (op.point == program::kNone) continue;
      uses[op.point].meetings += times;
      uses[op.point].shortest = std::min(uses[op.point].shortest, op.duration);
    }
  };
  for (const auto& [range, times] : plays()) use(range, times);
  use(finish_, 0);
  return uses;
}

const RoutineRange& Timetable::routine_of(std::uint32_t operation) const {
  const auto after = std::ranges::upper_bound(
      routines_, operation, {}, [](const RoutineRange& r) { return r.range.first; });
  PLANNER_CHECK(after != routines_.begin() && operation < (after - 1)->range.last);
  return *(after - 1);
}

Range Timetable::of(const program::Pass& pass) const {
  const auto& ranges = chunks_[static_cast<std::size_t>(pass.chunk)];
  const bool last = (pass.micro_batch + 1) % class_->schedule.micro_batches == 0;
  if (pass.kind == program::PassKind::forward) return ranges[forward];
  if (pass.kind == program::PassKind::weight_gradient) return ranges[last ? last_weight : weight];
  return ranges[last ? last_backward : backward];
}

void OperationCursor::next_range() {
  const program::RankSchedule& schedule = timetable_->rank_class().schedule;
  if (phase_ == Phase::finish || (phase_ == Phase::end && step_ + 1 < steps_)) {
    phase_ = Phase::join;
    return;
  }
  if (phase_ == Phase::end) {
    phase_ = Phase::finish;
    return enter(timetable_->finish(), micro_batch_);
  }
  if (phase_ == Phase::passes) passes_.advance();
  phase_ = passes_.done() ? Phase::end : Phase::passes;
  if (phase_ == Phase::end)
    enter(timetable_->end(), schedule.first_of(step_) + schedule.micro_batches - 1);
  else
    enter(timetable_->of(passes_.pass()), passes_.pass().micro_batch);
}

void OperationCursor::join() {
  PLANNER_CHECK(at_join());
  if (++step_ == steps_) return;
  const program::RankSchedule& schedule = timetable_->rank_class().schedule;
  passes_ = program::Passes(schedule, {step_, steps_});
  phase_ = Phase::begin;
  enter(timetable_->begin(), schedule.first_of(step_));
  settle();
}

}  // namespace engine
