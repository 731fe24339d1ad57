#include "planner/step_time.hpp"

#include <algorithm>
#include <array>

#include "core/check.hpp"
#include "sim/cost/action.hpp"

namespace planner {
namespace {

using program::Action;
using program::Call;
using program::RankClass;

// A run of actions that no event interrupts, or one action that differs from call to call.
struct Step {
  std::uint32_t action = 0;       // the first: its stream, waits and signal
  std::int64_t duration = 0;
  std::int64_t kernels = 0;
  bool varies = false;            // by the call's layer: costed at each call
  bool is_transfer = false;
};

class Walk {
 public:
  Walk(const program::Program& program, const RankClass& k, const cost::Machine& machine,
       std::int64_t samples)
      : class_(k), cost_(program, k, machine, samples), steps_(k.blocks.size()) {
    std::size_t instances = 0;
    for (const program::Event& event : k.events) {
      first_instance_.push_back(instances);
      instances += static_cast<std::size_t>(event.extent) * static_cast<std::size_t>(event.slots);
    }
    events_.assign(instances, 0);
  }

  void run(const program::Routine& routine, std::int64_t micro_batch, bool update) {
    update_ = update;
    for (Call call : routine) {
      call.micro_batch = static_cast<std::uint32_t>(micro_batch);
      for (const Step& step : steps_of(call.block, call)) take(step, call);
    }
  }

  // When everything issued so far is done.
  std::int64_t end() const { return *std::ranges::max_element(streams_); }
  std::int64_t compute_end() const { return streams_[0]; }

  std::int64_t compute = 0, optimizer = 0, communication = 0, kernels = 0, message = 0;

 private:
  static bool is_message(const Action& a) {
    return a.kind == program::ActionKind::send || a.kind == program::ActionKind::receive;
  }

  bool varies(const Action& action) const {
    if (cost::ActionCost::is_operator(action.kind)) return false;
    for (int i = 0; i < action.arg_count; ++i) {
      const program::View& v = class_.views[action.first_arg + static_cast<std::uint32_t>(i)];
      if (v.range >= program::Range::span) return true;
      if (v.index == program::Index::layer && class_.buffers[v.buffer].elements.size() > 1)
        return true;
    }
    return cost::ActionCost::is_transfer(action.kind) && !is_message(action) &&
           action.kind != program::ActionKind::collective;
  }

  // The steps of a block, built at its first call. O(actions).
  const std::vector<Step>& steps_of(std::uint16_t block, const Call& call) {
    std::vector<Step>& steps = steps_[block];
    if (!steps.empty()) return steps;
    for (std::uint32_t i = class_.blocks[block].first; i < class_.blocks[block].last; ++i) {
      const Action& a = class_.actions[i];
      const bool idle = a.kind == program::ActionKind::alloc || a.kind == program::ActionKind::free;
      if (idle && a.wait_count == 0 && a.signal == program::kNone) continue;
      Step step{.action = i, .varies = varies(a),
                .is_transfer = cost::ActionCost::is_transfer(a.kind)};
      if (!step.varies) step.duration = cost_(a, call).value();
      step.kernels = cost::ActionCost::is_kernel(a.kind) ? 1 : 0;
      if (!steps.empty() && joins(steps.back(), step))
        join(steps.back(), step);
      else
        steps.push_back(step);
    }
    if (steps.empty()) steps.push_back({.action = class_.blocks[block].first});
    return steps;
  }

  // Plain kernels of one stream follow one another without looking at events.
  bool joins(const Step& last, const Step& next) const {
    const Action& a = class_.actions[last.action];
    const Action& b = class_.actions[next.action];
    return a.stream == b.stream && !last.is_transfer && !next.is_transfer && !last.varies &&
           !next.varies && a.flags == b.flags && a.signal == program::kNone && b.wait_count == 0 &&
           b.signal == program::kNone;
  }
  static void join(Step& last, const Step& next) {
    last.duration += next.duration;
    last.kernels += next.kernels;
  }

  std::int64_t& event(const program::EventRef& ref, const Call& call) {
    const int instance = program::instance_of(class_.events[ref.event], ref, call);
    const std::size_t at = first_instance_[ref.event] + static_cast<std::size_t>(instance);
    PLANNER_CHECK(instance >= 0 && at < events_.size(), "an event outside its instances");
    return events_[at];
  }

  void take(const Step& step, const Call& call) {
    const Action& a = class_.actions[step.action];
    if ((a.flags & program::kSkipFirstMicroBatch) != 0 && call.micro_batch == 0) return;
    std::int64_t& stream = streams_[static_cast<std::size_t>(a.stream)];
    for (std::uint32_t w = a.first_wait; w < a.first_wait + a.wait_count; ++w)
      stream = std::max(stream, event(class_.waits[w].on, call));
    std::int64_t duration = step.varies ? cost_(a, call).value() : step.duration;
    if (step.is_transfer) communication += is_message(a) && !sends(a) ? 0 : duration;
    if (is_message(a)) {  // the schedule's algebra places messages
      message = std::max(message, duration);
      duration = 0;
    }
    if (a.stream == program::Stream::compute && !step.is_transfer) {
      (update_ ? optimizer : compute) += duration;
      kernels += step.kernels;
    }
    stream += duration;
    if (a.signal != program::kNone) event(class_.signals[a.signal], call) = stream;
  }
  static bool sends(const Action& a) { return a.kind == program::ActionKind::send; }

  const RankClass& class_;
  cost::ActionCost cost_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::size_t> first_instance_;
  std::vector<std::int64_t> events_;  // time of the latest signal, by instance
  std::array<std::int64_t, program::kStreams> streams_{};
  bool update_ = false;
};

}  // namespace

ClassTime class_time(const program::Program& program, const RankClass& k,
                     const cost::Machine& machine, StepShape shape) {
  const std::int64_t m =
      shape.micro_batches > 0 ? shape.micro_batches : k.schedule.micro_batches;
  Walk walk(program, k, machine, shape.samples);
  walk.run(k.begin, 0, true);

  // Rounds before the last: two show the period, the rest repeat it.
  constexpr std::int64_t kWalked = 3;
  const std::int64_t walked = std::min(m - 1, kWalked);
  std::int64_t period = 0, compute_round = 0, communication_round = 0;
  for (std::int64_t i = 0; i < walked; ++i) {
    const std::int64_t at = walk.compute_end(), compute = walk.compute;
    const std::int64_t communication = walk.communication;
    walk.run(k.forward, i, false);
    walk.run(k.backward, i, false);
    period = walk.compute_end() - at;
    compute_round = walk.compute - compute;
    communication_round = walk.communication - communication;
  }
  const std::int64_t repeated = m - 1 - walked;
  const std::int64_t before_last = walk.compute_end();
  walk.run(k.forward, m - 1, false);
  walk.run(k.last_backward, m - 1, false);
  if (m == 1) period = walk.compute_end() - before_last;
  walk.run(k.end, m - 1, true);

  ClassTime time;
  time.total = walk.end() + repeated * period;
  time.compute = walk.compute + repeated * compute_round;
  time.optimizer = walk.optimizer;
  time.communication = walk.communication + repeated * communication_round;
  time.period = period;
  time.message = walk.message;
  const std::int64_t launches = walk.kernels * core::to_picoseconds(machine.launch).value();
  time.launch_bound = 2 * launches > walk.compute + walk.optimizer;
  return time;
}

Time compose(const program::Program& program, const std::vector<ClassTime>& classes,
             Schedule schedule) {
  PLANNER_CHECK(classes.size() == program.classes.size() && !classes.empty());
  // The critical class: longest by itself; the first of equals.
  std::size_t critical = 0;
  std::int64_t turn = 0, message = 0;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(program.mesh.pipeline), 0);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].total > classes[critical].total) critical = i;
    message = std::max(message, classes[i].message);
    std::int64_t& slot = slots[static_cast<std::size_t>(program.classes[i].stage)];
    slot = std::max(slot, classes[i].period);
  }
  for (std::int64_t slot : slots) turn += slot;

  const ClassTime& c = classes[critical];
  const std::int64_t p = program.mesh.pipeline;
  const std::int64_t m = program.classes[critical].schedule.micro_batches;
  std::int64_t bubble = 0, messages = 0;
  if (p > 1 && schedule == Schedule::naive) {
    bubble = m * (turn - c.period);
    messages = m * 2 * (p - 1) * message;
  } else if (p > 1) {
    bubble = (p - 1) * *std::ranges::max_element(slots);
    messages = 2 * (p - 1) * message;
  }

  const auto seconds = [](std::int64_t ps) { return core::to_seconds(core::Picoseconds(ps)); };
  Time time;
  time.compute = seconds(c.compute);
  time.exposed_communication = seconds(c.total - c.compute - c.optimizer + messages);
  time.bubble = seconds(bubble);
  time.optimizer = seconds(c.optimizer);
  time.step = time.compute + time.exposed_communication + time.bubble + time.optimizer;
  time.communication = seconds(c.communication);
  time.launch_bound = c.launch_bound;
  return time;
}

Time step_time(const program::Program& program, const cost::Machine& machine, Schedule schedule,
               StepShape shape) {
  std::vector<ClassTime> classes;
  classes.reserve(program.classes.size());
  for (const RankClass& k : program.classes)
    classes.push_back(class_time(program, k, machine, shape));
  return compose(program, classes, schedule);
}

}  // namespace planner
