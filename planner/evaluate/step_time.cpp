#include "planner/evaluate/step_time.hpp"

#include <algorithm>
#include <span>

#include "core/check.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/held_time.hpp"

namespace planner {
namespace {

using program::Action;
using program::Call;
using program::RankClass;

using Machines = std::span<const cost::Machine* const>;
using Lanes = std::vector<std::int64_t>;  // picoseconds, one per machine

// An action in a call, or a run of them that no event interrupts.
struct Step {
  std::uint32_t action = 0;       // the first: its stream, waits and signal
  Call call{};                    // its micro-batch is set when the step is taken
  std::int64_t kernels = 0;
  bool varies = false;            // duration still open: it depends on the call
  bool is_transfer = false;
};
struct Steps {
  std::vector<Step> all;
  Lanes durations;                // of each step in turn, by machine
};

// One pass over a class for several machines: what they share is looked up once.
class Walk {
 public:
  Walk(const program::Program& program, const RankClass& k, Machines machines,
       std::int64_t samples)
      : class_(k), lanes_(machines.size()), blocks_(k.blocks.size()) {
    for (const cost::Machine* machine : machines)
      costs_.emplace_back(program, k, *machine, samples);
    std::size_t instances = 0;
    for (const program::Event& event : k.events) {
      first_instance_.push_back(instances);
      instances += static_cast<std::size_t>(event.extent) * static_cast<std::size_t>(event.slots);
    }
    events_.assign(instances * lanes_, 0);
    streams_.assign(program::kStreams * lanes_, 0);
    compute = optimizer = communication = message = onward = sent = Lanes(lanes_, 0);
  }

  // The steps of a routine, for any micro-batch. O(calls + actions of its blocks).
  Steps steps_of(const program::Routine& routine) {
    Steps steps;
    steps.all.reserve(routine.size());
    steps.durations.reserve(routine.size() * lanes_);
    Lanes costs(lanes_);
    std::vector<cost::HeldTime> held(lanes_);
    for (const Call& call : routine) {
      const Steps& block = steps_of_block(call);
      for (std::size_t i = 0; i < block.all.size(); ++i) {
        Step step = block.all[i];
        step.call = call;
        if (step.varies)
          cost(step, costs);
        else
          std::copy_n(&block.durations[i * lanes_], lanes_, costs.begin());
        const Action& a = class_.actions[step.action];
        for (std::size_t m = 0; m < lanes_; ++m)
          costs[m] += held[m].next(class_, a, call,
                                   costs_[m].held(a, core::Picoseconds(costs[m])).value());
        append(steps, step, costs.data());
        steps.all.back().varies = false;
      }
    }
    return steps;
  }

  void run(const Steps& steps, std::int64_t micro_batch, bool update) {
    Lanes& busy = update ? optimizer : compute;
    for (std::size_t i = 0; i < steps.all.size(); ++i)
      take(steps.all[i], &steps.durations[i * lanes_], static_cast<std::uint32_t>(micro_batch),
           busy);
  }

  // When everything issued so far is done, and when the compute stream is.
  std::int64_t end(std::size_t lane) const {
    std::int64_t last = 0;
    for (std::size_t s = lane; s < streams_.size(); s += lanes_) last = std::max(last, streams_[s]);
    return last;
  }
  Lanes compute_end() const {
    return {streams_.begin(), streams_.begin() + static_cast<std::ptrdiff_t>(lanes_)};
  }

  Lanes compute, optimizer, communication, message, onward, sent;
  std::int64_t kernels = 0;

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

  void cost(const Step& step, Lanes& costs) const {
    for (std::size_t i = 0; i < lanes_; ++i)
      costs[i] = costs_[i](class_.actions[step.action], step.call).value();
  }

  // The steps of a block, built at its first call. O(actions).
  const Steps& steps_of_block(const Call& call) {
    Steps& steps = blocks_[call.block];
    if (!steps.all.empty()) return steps;
    const program::Block& block = class_.blocks[call.block];
    Lanes costs(lanes_);
    std::vector<cost::ActionCost::BlockWait> waits;
    for (const cost::ActionCost& each : costs_) waits.push_back(each.block_wait(block, call));
    for (std::uint32_t i = block.first; i < block.last; ++i) {
      const Action& a = class_.actions[i];
      const bool idle = a.kind == program::ActionKind::alloc || a.kind == program::ActionKind::free;
      if (idle && a.wait_count == 0 && a.signal == program::kNone) continue;
      Step step{.action = i, .call = call, .varies = varies(a),
                .is_transfer = cost::ActionCost::is_transfer(a.kind)};
      if (!step.varies) cost(step, costs);
      for (std::size_t lane = 0; lane < lanes_; ++lane)
        if (waits[lane].action == i) costs[lane] += waits[lane].time.value();
      step.kernels = cost::ActionCost::is_kernel(a.kind) ? 1 : 0;
      append(steps, step, costs.data());
    }
    if (steps.all.empty())
      append(steps, {.action = block.first, .call = call}, Lanes(lanes_).data());
    return steps;
  }

  void append(Steps& steps, const Step& step, const std::int64_t* durations) const {
    if (steps.all.empty() || !joins(steps.all.back(), step)) {
      steps.all.push_back(step);
      steps.durations.insert(steps.durations.end(), durations, durations + lanes_);
      return;
    }
    steps.all.back().kernels += step.kernels;
    std::int64_t* last = steps.durations.data() + steps.durations.size() - lanes_;
    for (std::size_t i = 0; i < lanes_; ++i) last[i] += durations[i];
  }

  // Plain kernels of one stream follow one another without looking at events.
  bool joins(const Step& last, const Step& next) const {
    const Action& a = class_.actions[last.action];
    const Action& b = class_.actions[next.action];
    return a.stream == b.stream && !last.is_transfer && !next.is_transfer && !last.varies &&
           !next.varies && a.flags == b.flags && a.signal == program::kNone && b.wait_count == 0 &&
           b.signal == program::kNone;
  }

  std::int64_t* event(const program::EventRef& ref, const Call& call) {
    const int instance = program::instance_of(class_.events[ref.event], ref, call);
    const std::size_t at = first_instance_[ref.event] + static_cast<std::size_t>(instance);
    PLANNER_CHECK(instance >= 0 && at * lanes_ < events_.size(), "an event outside its instances");
    return &events_[at * lanes_];
  }

  void take(const Step& step, const std::int64_t* durations, std::uint32_t micro_batch,
            Lanes& busy) {
    const Call call{step.call.block, step.call.layer, micro_batch};
    const Action& a = class_.actions[step.action];
    if ((a.flags & program::kSkipFirstMicroBatch) != 0 && micro_batch == 0) return;
    std::int64_t* stream = &streams_[static_cast<std::size_t>(a.stream) * lanes_];
    for (std::uint32_t w = a.first_wait; w < a.first_wait + a.wait_count; ++w) {
      const std::int64_t* signalled = event(class_.waits[w].on, call);
      for (std::size_t i = 0; i < lanes_; ++i) stream[i] = std::max(stream[i], signalled[i]);
    }
    if (step.is_transfer && a.kind != program::ActionKind::receive) add(communication, durations);
    if (a.kind == program::ActionKind::send) add(sent, durations);
    if (is_message(a)) {  // the schedule's algebra places messages
      keep_most(message, durations);
      const bool on = a.kind == program::ActionKind::send &&
                      class_.transfers[a.op].group == program::Group::next;
      if (on) keep_most(onward, durations);
    } else {
      for (std::size_t i = 0; i < lanes_; ++i) stream[i] += durations[i];
    }
    if (a.stream == program::Stream::compute && !step.is_transfer) {
      add(busy, durations);
      kernels += step.kernels;
    }
    if (a.signal == program::kNone) return;
    std::int64_t* signalled = event(class_.signals[a.signal], call);
    for (std::size_t i = 0; i < lanes_; ++i) signalled[i] = stream[i];
  }
  static void keep_most(Lanes& most, const std::int64_t* durations) {
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], durations[i]);
  }
  static void add(Lanes& sums, const std::int64_t* durations) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += durations[i];
  }

  const RankClass& class_;
  std::size_t lanes_;
  std::vector<cost::ActionCost> costs_;
  std::vector<Steps> blocks_;
  std::vector<std::size_t> first_instance_;
  Lanes events_;                  // time of the latest signal, by instance
  Lanes streams_;                 // busy until
};

// The passes of one micro-batch through all chunks of a rank, as a rank at rest would take them.
class Rounds {
 public:
  Rounds(Walk& walk, const RankClass& k) : walk_(walk), class_(k) {
    for (int c = 0; c < k.chunks(); ++c) {
      forward_.push_back(walk.steps_of(k.chunk(c).forward));
      backward_.push_back(walk.steps_of(k.chunk(c).backward));
      weights_.push_back(walk.steps_of(k.chunk(c).weight_gradient));
    }
  }
  // When compute had done the passes of the latest micro-batch, in the order that they were taken:
  // what came before, forward, input gradients, weight gradients.
  std::vector<Lanes> ends;

  void run(std::int64_t micro_batch) {
    forward(micro_batch);
    for (std::size_t c = backward_.size(); c-- > 0;) take(backward_[c], micro_batch);
    for (std::size_t c = weights_.size(); c-- > 0;) take(weights_[c], micro_batch);
  }
  void run_last(std::int64_t micro_batch) {
    forward(micro_batch);
    for (int c = class_.chunks(); c-- > 0;)
      take(walk_.steps_of(class_.chunk(c).last_backward), micro_batch);
    for (int c = class_.chunks(); c-- > 0;)
      take(walk_.steps_of(class_.chunk(c).last_weight_gradient), micro_batch);
  }

  // What the passes of each chunk took on a machine.
  std::vector<PassTimes> chunk_times(std::size_t machine) const {
    const auto took = [&](std::size_t pass) {
      return ends[pass + 1][machine] - ends[pass][machine];
    };
    const std::size_t v = forward_.size();
    std::vector<PassTimes> times;
    for (std::size_t c = 0; c < v; ++c)
      times.push_back({took(c), took(2 * v - 1 - c), took(3 * v - 1 - c)});
    return times;
  }

 private:
  void take(const Steps& steps, std::int64_t micro_batch) {
    walk_.run(steps, micro_batch, false);
    ends.push_back(walk_.compute_end());
  }
  void forward(std::int64_t micro_batch) {
    ends.clear();
    ends.push_back(walk_.compute_end());
    for (const Steps& steps : forward_) take(steps, micro_batch);
  }

  Walk& walk_;
  const RankClass& class_;
  std::vector<Steps> forward_, backward_, weights_;
};

// By machine, as class_time().
std::vector<ClassTime> class_times(const program::Program& program, const RankClass& k,
                                   Machines machines, StepShape shape) {
  const std::int64_t m =
      shape.micro_batches > 0 ? shape.micro_batches : k.schedule.micro_batches;
  Walk walk(program, k, machines, shape.samples);
  walk.run(walk.steps_of(k.begin), 0, true);

  // Rounds before the last: two show the period, the rest repeat it.
  constexpr std::int64_t kWalked = 3;
  const std::int64_t walked = std::min(m - 1, kWalked);
  Rounds rounds(walk, k);
  Lanes compute = walk.compute, communication = walk.communication, sent = walk.sent;
  for (std::int64_t i = 0; i < walked; ++i) {
    compute = walk.compute;
    communication = walk.communication;
    sent = walk.sent;
    rounds.run(i);
  }
  const Lanes compute_walked = walk.compute, communication_walked = walk.communication;
  const Lanes sent_walked = walk.sent;
  if (m == 1) rounds.run_last(0);
  std::vector<ClassTime> times(machines.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i].chunks = rounds.chunk_times(i);
    times[i].period = times[i].passes().sum();
  }
  if (m > 1) rounds.run_last(m - 1);
  walk.run(walk.steps_of(k.end), m - 1, true);

  const std::int64_t repeated = m - 1 - walked;
  for (std::size_t i = 0; i < times.size(); ++i) {
    ClassTime& time = times[i];
    time.total = walk.end(i) + repeated * time.period;
    time.compute = walk.compute[i] + repeated * (compute_walked[i] - compute[i]);
    time.optimizer = walk.optimizer[i];
    time.communication =
        walk.communication[i] + repeated * (communication_walked[i] - communication[i]);
    time.message = walk.message[i];
    time.next = walk.onward[i];
    time.sent = walk.sent[i] + repeated * (sent_walked[i] - sent[i]);
    const std::int64_t launches =
        walk.kernels * core::to_picoseconds(machines[i]->launch).value();
    time.launch_bound = 2 * launches > walk.compute[i] + walk.optimizer[i];
  }
  return times;
}

}  // namespace

PassTimes ClassTime::passes() const {
  PassTimes all;
  for (const PassTimes& chunk : chunks) {
    all.forward += chunk.forward;
    all.input_gradient += chunk.input_gradient;
    all.weight_gradient += chunk.weight_gradient;
  }
  return all;
}

ClassTime class_time(const program::Program& program, const RankClass& k,
                     const cost::Machine& machine, StepShape shape) {
  const cost::Machine* const one[] = {&machine};
  return class_times(program, k, one, shape).front();
}

// Where data ranks take different numbers of micro-batches, those that take equally many have a
// pipeline of their own; the slowest of them sets the step.
static std::vector<Time> of_replicas(const program::Program& program,
                                     std::span<const cost::Machine* const> machines,
                                     Schedule schedule, StepShape shape) {
  std::vector<Time> slowest(machines.size());
  for (const RankClass& first : program.classes) {
    if (first.stage != 0) continue;
    std::vector<std::vector<ClassTime>> by_machine(machines.size());
    program::Program part;
    part.mesh = program.mesh;
    part.accumulation = program.accumulation;
    part.cut = program.cut;
    part.clip = program.clip;
    part.loss_scale = program.loss_scale;
    for (const RankClass& k : program.classes) {
      if (k.first_replica != first.first_replica) continue;
      const std::vector<ClassTime> times = class_times(program, k, machines, shape);
      for (std::size_t i = 0; i < times.size(); ++i) by_machine[i].push_back(times[i]);
      part.classes.push_back(k);
    }
    for (std::size_t i = 0; i < machines.size(); ++i) {
      const Time time = compose(part, by_machine[i], schedule);
      if (time.step > slowest[i].step) slowest[i] = time;
    }
  }
  return slowest;
}

std::vector<Time> step_times(const program::Program& program,
                             std::span<const cost::Machine* const> machines, Schedule schedule,
                             StepShape shape) {
  if (program.classes.front().replicas > 0) return of_replicas(program, machines, schedule, shape);
  std::vector<std::vector<ClassTime>> by_machine(machines.size());
  for (const RankClass& k : program.classes) {
    const std::vector<ClassTime> times = class_times(program, k, machines, shape);
    for (std::size_t i = 0; i < times.size(); ++i) by_machine[i].push_back(times[i]);
  }
  std::vector<Time> times;
  for (const std::vector<ClassTime>& classes : by_machine)
    times.push_back(compose(program, classes, schedule));
  return times;
}

Time step_time(const program::Program& program, const cost::Machine& machine, Schedule schedule,
               StepShape shape) {
  const cost::Machine* const one[] = {&machine};
  return step_times(program, one, schedule, shape).front();
}

}  // namespace planner
