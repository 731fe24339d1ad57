#include "planner/plan/kernel_times.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "models/ops/schema.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/cost/action.hpp"
#include "sim/program/trace_text.hpp"

namespace planner {
namespace {

using program::Action;
using program::ActionKind;
using program::Call;
using program::RankClass;

class Adder {
 public:
  Adder(const program::Program& program, const RankClass& k, const hw_profiles::Profile& profile,
        const cost::Machine& machine)
      : program_(program), class_(k), profile_(profile),
        cost_(program, k, machine), part_(program.part_of(cost::first_rank(program, k))) {}

  // `times` runs of the routine, of which `first` (0 or 1) is of micro-batch 0.
  void add(const program::Routine& routine, std::int64_t times, std::int64_t first) {
    for (const Call& call : routine) {
      const program::Block& block = class_.blocks[call.block];
      for (std::uint32_t i = block.first; times > 0 && i < block.last; ++i) {
        const Action& action = class_.actions[i];
        const bool skips = (action.flags & program::kSkipFirstMicroBatch) != 0;
        if (cost::ActionCost::is_kernel(action.kind))
          add(action, call, times - (skips ? first : 0));
      }
      host_ += times * cost_.block_wait(block, call).time.value();
    }
  }

  KernelTimes sums() const {
    KernelTimes all;
    all.rank = cost::first_rank(program_, class_);
    all.host = core::to_seconds(core::Picoseconds(host_));
    all.time = all.host;
    for (const auto& [name, kernel] : kernels_) {
      all.kernels.push_back(kernel);
      all.time += kernel.time;
      all.roofline += kernel.roofline;
    }
    std::ranges::stable_sort(all.kernels, std::greater{}, &KernelTime::time);
    return all;
  }

 private:
  struct Work {
    core::Flops flops{};
    core::Bytes bytes{};
    core::DType type{};                // that it computes in
  };

  void add(const Action& action, const Call& call, std::int64_t times) {
    if (times <= 0) return;
    const Work one = work(action, call);
    const auto n = static_cast<double>(times);
    const core::Seconds predicted = core::to_seconds(cost_(action, call));
    const core::Seconds compute = one.flops / peak(one.type);
    const core::Seconds memory = one.bytes / profile_.gpu.memory_bandwidth;
    const bool on_host = any(action, [](const program::Buffer& b) { return b.host; });
    const core::Seconds least =
        on_host ? predicted : std::min(predicted, std::max(compute, memory));
    std::string name = program::action_name(class_, action);
    KernelTime& kernel = kernels_[name];
    kernel.kernel = std::move(name);
    kernel.count += times;
    kernel.time += predicted * n;
    kernel.flops += one.flops * n;
    kernel.bytes += one.bytes * times;
    kernel.roofline += least * n;
    kernel.by_compute = compute > memory;
  }

  core::FlopsPerSecond peak(core::DType type) const {
    return hw_profiles::peak(profile_.gpu, type).value_or(profile_.gpu.peak_f32);
  }

  std::int64_t elements(const Action& action, int arg, const Call& call) const {
    return program::resolve(class_, view(action, arg), call, part_).elements;
  }
  const program::View& view(const Action& action, int arg) const {
    return class_.views[action.first_arg + static_cast<std::uint32_t>(arg)];
  }
  core::DType type(const Action& action, int arg) const {
    return class_.buffers[view(action, arg).buffer].type;
  }

  bool any(const Action& action, bool (*holds)(const program::Buffer&)) const {
    for (int i = 0; i < action.arg_count; ++i)
      if (holds(class_.buffers[view(action, i).buffer])) return true;
    return false;
  }

  Work work_of_operator(const Action& action, const Call& call) const {
    using models::ops::WorkOf;
    const models::Operator& op = class_.operators[action.op];
    const WorkOf by = models::ops::schema(op.kind).work.by;
    Work w;
    w.flops = action.kind == ActionKind::forward          ? op.flops_forward
              : action.kind == ActionKind::input_gradient ? op.flops_input_gradient
                                                          : op.flops_weight_gradient;
    if (op.kind == models::OpKind::lora_up && action.kind == ActionKind::input_gradient)
      w.flops += op.flops_weight_gradient;  // both in one
    w.flops = w.flops * static_cast<double>(program_.samples);
    // Of the square of attention a causal kernel computes one half; of a table a lookup reads rows.
    if (by == WorkOf::attention && op.causal) w.flops = w.flops * 0.5;
    w.type = cost_.computed_in(action);
    w.bytes = operands(action, call);
    if (by != WorkOf::lookup) return w;
    const bool forward = action.kind == ActionKind::forward;
    w.type = type(action, forward ? action.arg_count - 1 : 0);
    w.bytes = core::bytes_of(op.elements_forward * program_.samples, w.type);
    return w;
  }

  core::Bytes operands(const Action& action, const Call& call) const {
    core::Bytes all{};
    for (int i = 0; i < action.arg_count; ++i)
      all += core::bytes_of(elements(action, i, call), type(action, i));
    return all;
  }

  // The optimizer also writes all but the gradient, a sum what it adds to.
  Work work(const Action& action, const Call& call) const {
    if (action.arg_count == 0) return {};
    if (cost::ActionCost::is_operator(action.kind)) return work_of_operator(action, call);
    Work w{{}, operands(action, call), type(action, 0)};
    for (int i = 0; i < action.arg_count; ++i)
      if ((action.kind == ActionKind::optimizer && i != 1) ||
          (action.kind == ActionKind::accumulate && i == 1))
        w.bytes += core::bytes_of(elements(action, i, call), type(action, i));
    return w;
  }

  const program::Program& program_;
  const RankClass& class_;
  const hw_profiles::Profile& profile_;
  const cost::ActionCost cost_;
  const int part_;
  std::map<std::string, KernelTime> kernels_;
  std::int64_t host_ = 0;              // picoseconds
};

}  // namespace

core::Result<KernelTimes> kernel_times(const Plan& plan, const Candidate& candidate) {
  const auto lowered = lower_strategy(plan.model, plan.job, plan.profile.framework, plan.gpus,
                                      candidate.strategy);
  if (!lowered.ok()) return lowered.problems();
  const program::Program& program = lowered->program;
  const cost::Machine machine = machine_for(plan.profile, plan.job, plan.model);
  KernelTimes longest;
  for (const RankClass& k : program.classes) {
    if (!k.is_worker) continue;
    Adder adder(program, k, plan.profile, machine);
    program::for_each_routine(k, [&](const program::Routine& routine, std::int64_t times,
                                     std::int64_t first) { adder.add(routine, times, first); });
    if (KernelTimes sums = adder.sums(); sums.time > longest.time) longest = std::move(sums);
  }
  return longest;
}

}  // namespace planner
