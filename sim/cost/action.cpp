#include "sim/cost/action.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"
#include "sim/cost/mixed.hpp"
#include "sim/cost/work.hpp"
#include "sim/program/arguments.hpp"

namespace cost {
namespace {

using program::Action;
using program::ActionKind;
using program::Call;
using program::Group;
using models::ops::WorkOf;

// Bytes that each bf16 gradient costs after each micro-batch where it is added to one in f32: read
// it and write a copy in f32, read that and the sum, write the sum (deepspeedai/DeepSpeed,
// runtime/bf16_optimizer.py, update_hp_grads: add_(grad.to(float32))).
constexpr std::int64_t kWideGradient = 2 + 4 + 4 + 4 + 4;

// This tool's update of a weight that has a master copy moves 28 bytes a parameter. In four steps
// on an H200 it took as long as a large copy of 30 bytes (reports/measured/h200_steps.json).
constexpr double kOwnUpdates = 28.0 / 30;

// y[rows,n] = x[rows,k] W^T; dx[rows,k] = dy W; dW[n,k] = dy^T x.
GemmShape shape_of(const models::Operator& op, ActionKind kind, std::int64_t samples) {
  // Routing is balanced: each of the groups, which are experts, has its share of the rows.
  const bool routed = op.kind == models::OpKind::expert_linear;
  const std::int64_t all = op.rows * samples;
  const std::int64_t rows = routed ? (all + op.groups - 1) / op.groups : all;
  if (kind == ActionKind::forward) return {rows, op.n, op.k, op.groups};
  if (kind == ActionKind::input_gradient) return {rows, op.k, op.n, op.groups};
  return {op.n, op.k, rows, op.groups};
}

// What a convolution's kernel computes: whole tiles of its result, of which the narrowest are taken
// to be 64 x 64 (derived, not fitted). Layers of few channels pay for it.
GemmShape tiled(GemmShape shape) {
  constexpr std::int64_t kTile = 64;
  const auto whole = [](std::int64_t n) { return (n + kTile - 1) / kTile * kTile; };
  return {whole(shape.m), whole(shape.n), shape.k, shape.count};
}

// Whether the rank of a stage has this group: the ends of a pipeline lack a neighbour, unless it
// holds several chunks.
bool has_group(const program::Mesh& mesh, Group group, int stage, bool chunked) {
  if (chunked && (group == Group::next || group == Group::previous)) return true;
  if (group == Group::next) return stage + 1 < mesh.pipeline;
  if (group == Group::previous) return stage > 0;
  if (group == Group::embedding)
    return mesh.pipeline > 1 && (stage == 0 || stage == mesh.pipeline - 1);
  return true;
}

// Bytes that the framework's kernels move, of those that one kernel for the operator would.
// A layer norm is one kernel everywhere; an RMS norm is where the job says so.
double traffic_of(models::OpKind kind, int tensor, const Machine& machine) {
  switch (kind) {
    case models::OpKind::rms_norm: return machine.norm_traffic;
    case models::OpKind::cross_entropy:
    case models::OpKind::softmax_max:
    case models::OpKind::softmax_sum:
      return machine.loss_traffic * (machine.gathers_logits ? tensor : 1);
    case models::OpKind::rope: return machine.rotary_traffic;
    case models::OpKind::clamped_swiglu: return machine.gated_traffic + machine.clamp_traffic;
    default:
      return models::ops::is_gated(kind) ? machine.gated_traffic : machine.elementwise_traffic;
  }
}

}  // namespace

ActionCost::ActionCost(const program::Program& program, const program::RankClass& rank_class,
                       const Machine& machine, std::int64_t samples, int rank)
    : program_(&program),
      class_(&rank_class),
      machine_(rank >= 0 ? &machine_of_rank(machine, rank)
                         : &machine_of_class(machine, program, rank_class)),
      samples_(samples > 0 ? samples : program.samples) {
  const int first = first_rank(program, rank_class);
  // Servers apart belong to no group; their links are those of the data group they serve.
  const int worker = !rank_class.is_worker ? 0 : rank >= 0 ? rank : first;
  const int stage = rank_class.is_worker ? rank_class.stage : 0;
  links_.fill(machine_);
  for (std::size_t g = 0; g < places_.size(); ++g) {
    const auto group = static_cast<Group>(g);
    if (!has_group(program.mesh, group, stage, rank_class.chunks() > 1)) continue;
    places_[g] = place_of(program.mesh, group, worker, machine.gpus_per_node);
    if (machine.mixed) links_[g] = &machine_of_group(machine, program.mesh, group, worker);
  }
  part_ = program.part_of(first);
  wide_ = machine.wide_gradients &&
          std::ranges::any_of(rank_class.buffers, [](const program::Buffer& b) {
            return b.name == program::kWideGradients;
          });
  rank_ = rank >= 0 ? rank : first;
  if (std::ranges::none_of(rank_class.transfers, &program::Transfer::once)) return;
  for (const models::Operator& op : rank_class.operators)
    if (op.kind == models::OpKind::top_k)
      routed_ = {.experts = op.n, .chosen = op.k, .groups = op.router.groups,
                 .groups_chosen = op.router.groups_chosen};
}

bool ActionCost::is_transfer(ActionKind kind) {
  switch (kind) {
    case ActionKind::collective:
    case ActionKind::send:
    case ActionKind::receive:
    case ActionKind::push:
    case ActionKind::serve_push:
    case ActionKind::serve_pull:
    case ActionKind::pull: return true;
    default: return false;
  }
}

bool ActionCost::is_kernel(ActionKind kind) {
  return kind != ActionKind::alloc && kind != ActionKind::free && kind != ActionKind::fence &&
         kind != ActionKind::copy && !is_transfer(kind);
}

bool ActionCost::is_operator(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::input_gradient ||
         kind == ActionKind::weight_gradient;
}

const program::View& ActionCost::view(const Action& action, int arg) const {
  return class_->views[action.first_arg + static_cast<std::uint32_t>(arg)];
}

const program::Buffer& ActionCost::buffer(const Action& action, int arg) const {
  return class_->buffers[view(action, arg).buffer];
}

std::int64_t ActionCost::elements(const Action& action, int arg, const Call& call) const {
  const std::int64_t n = program::resolve(*class_, view(action, arg), call, part_).elements;
  const program::Term term = buffer(action, arg).term;
  const bool activation = term == program::Term::activations || term == program::Term::logits;
  return activation && samples_ != program_->samples ? n / program_->samples * samples_ : n;
}

core::Bytes ActionCost::bytes(const Action& action, int arg, const Call& call) const {
  return core::bytes_of(elements(action, arg, call), buffer(action, arg).type);
}

core::Picoseconds ActionCost::operator()(const Action& action, const Call& call) const {
  core::Seconds time{};
  switch (action.kind) {
    case ActionKind::alloc:
    case ActionKind::free:
    case ActionKind::fence: return {};
    case ActionKind::copy: return host_copy_time(bytes(action, 1, call), *machine_);
    case ActionKind::load:
    case ActionKind::zero:
    case ActionKind::accumulate:
    case ActionKind::square_sum:
    case ActionKind::scale_step: time = bytes_time(action, traffic(action, call).all()); break;
    case ActionKind::cast:
      time = bytes_time(action, traffic(action, call).all());
      return core::to_picoseconds(time + machine_->launch * cast_launches(action));
    case ActionKind::dequantise:
      time = memory_time(traffic(action, call).all(), *machine_) * machine_->decode_traffic;
      break;
    case ActionKind::optimizer: time = optimizer_time(action, call); break;
    case ActionKind::forward:
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient:
      return core::to_picoseconds(operator_time(action, call) + launch_time(action));
    default: return core::to_picoseconds(transfer_time(action, call));
  }
  return core::to_picoseconds(time + machine_->launch);
}

core::Seconds ActionCost::launch_time(const Action& action) const {
  if (!machine_->executor_kernels) return machine_->launch;
  const std::int64_t kernels = launches(class_->operators[action.op], action.kind);
  return machine_->launch * static_cast<double>(kernels);
}

core::Seconds ActionCost::product_time(const models::Operator& op, const Action& action) const {
  const bool head = touches_logits(action);
  const core::DType stored = buffer(action, 0).type, type = computed_in(action);
  core::Seconds time = gemm_time(shape_of(op, action.kind, samples_), type, *machine_);
  // LoRA's one backward action makes both gradients.
  if (op.kind == models::OpKind::lora_up && action.kind == ActionKind::input_gradient)
    time += gemm_time(shape_of(op, ActionKind::weight_gradient, samples_), type, *machine_);
  if (!head && core::bits(stored) == 16) time += operand_cast_time(op, action);
  if (op.kind == models::OpKind::lora_up)
    time += memory_time(core::bytes_of(op.rows * samples_ * op.n * op.groups, stored), *machine_) *
            machine_->adapter_traffic;
  const bool routed = op.kind == models::OpKind::expert_linear;
  if (routed) time += expert_bias_time(op, action);
  const core::Seconds waited = routed ? machine_->host.experts : core::Seconds{};
  return with_host(time, machine_->host.gemm, *machine_) + waited;
}

core::DType ActionCost::computed_in(const Action& action) const {
  const core::DType stored = buffer(action, 0).type;
  if (stored == core::DType::f8) return machine_->narrow_gemms.value_or(core::DType::bf16);
  const bool narrow = machine_->narrow_gemms && machine_->narrow_casts &&
                      core::bits(stored) == 16 &&
                      is_matrix_product(work_of(class_->operators[action.op]));
  return narrow && !touches_logits(action) ? *machine_->narrow_gemms : stored;
}

// Of the bias of what experts make, where kernels of its own add it.
core::Seconds ActionCost::expert_bias_time(const models::Operator& op, const Action& action) const {
  if (!op.adds_last_bias || action.kind == ActionKind::weight_gradient) return {};
  const double bytes = action.kind == ActionKind::forward ? machine_->expert_bias_forward
                                                          : machine_->expert_bias_backward;
  const auto elements = static_cast<double>(op.rows * samples_ * op.n);
  return memory_time(core::Bytes(std::llround(elements * bytes)), *machine_);
}

// The input is cast before the forward product, the gradient of the result before the first
// product that takes it.
core::Seconds ActionCost::operand_cast_time(const models::Operator& op,
                                            const Action& action) const {
  const bool forward = action.kind == ActionKind::forward;
  if (machine_->narrow_cast == 0 || action.kind == ActionKind::weight_gradient) return {};
  // Experts share the rows; other groups each have all of them.
  const bool routed = op.kind == models::OpKind::expert_linear;
  const double elements = static_cast<double>(op.rows * samples_ * (routed ? 1 : op.groups)) *
                          static_cast<double>(forward ? op.k : op.n);
  return memory_time(core::Bytes(std::llround(elements * machine_->narrow_cast)), *machine_);
}

bool ActionCost::touches_logits(const Action& action) const {
  for (int i = 0; i < action.arg_count; ++i)
    if (buffer(action, i).term == program::Term::logits) return true;
  return false;
}

// Each pass moves both images and the weight once.
core::Seconds ActionCost::convolution_time(const models::Operator& op,
                                           const Action& action) const {
  const core::DType type = buffer(action, 0).type;
  const std::int64_t moved = op.elements_forward * samples_ + op.parameter_elements;
  const core::Seconds time = gemm_time(tiled(shape_of(op, action.kind, samples_)), type,
                                       core::bytes_of(moved, type), *machine_);
  return with_host(time, machine_->host.gemm, *machine_);
}

core::Seconds ActionCost::operator_time(const Action& action, const Call& call) const {
  const models::Operator& op = class_->operators[action.op];
  core::Seconds time = pass_time(op, action, call) + wide_time(action);
  if (action.kind == ActionKind::weight_gradient && machine_->accumulate_traffic > 0)
    time += memory_time(core::Bytes(op.parameter_elements), *machine_) *
            machine_->accumulate_traffic;
  return time + bias_gradient_time(op, action);
}

// Of a product's bias, where a kernel of its own sums the gradient of the result.
core::Seconds ActionCost::bias_gradient_time(const models::Operator& op,
                                             const Action& action) const {
  const bool product = op.kind == models::OpKind::linear || op.kind == models::OpKind::dense;
  if (machine_->bias_gradient == 0 || action.kind != ActionKind::weight_gradient || !product ||
      op.parameters.size() < 2)
    return {};
  const double elements = static_cast<double>(op.rows * samples_ * op.n);
  return memory_time(core::Bytes(std::llround(elements * machine_->bias_gradient)), *machine_);
}

core::Seconds ActionCost::wide_time(const Action& action) const {
  if (!wide_ || action.kind != ActionKind::weight_gradient) return {};
  const std::int64_t elements = class_->operators[action.op].parameter_elements;
  return memory_time(core::Bytes(kWideGradient * elements), *machine_);
}

core::Picoseconds ActionCost::wide_time(const program::Block& block) const {
  core::Seconds all{};
  for (std::uint32_t i = block.first; wide_ && i < block.last; ++i)
    all += wide_time(class_->actions[i]);
  return core::to_picoseconds(all);
}

core::Seconds ActionCost::pass_time(const models::Operator& op, const Action& action,
                                    const Call& call) const {
  const WorkOf work = work_of(op);
  if (work == WorkOf::convolution) return convolution_time(op, action);
  if (is_matrix_product(work)) return product_time(op, action);
  if (work == WorkOf::attention) return attention_pass_time(op, action);
  return elementwise_time(op, action, call);
}

// Of the first argument, an activation or its gradient; of a lookup those are tokens.
core::DType ActionCost::elementwise_type(const models::Operator& op, const Action& action) const {
  const bool lookup = action.kind == ActionKind::forward && work_of(op) == WorkOf::lookup;
  const std::size_t typed =
      lookup ? program::argument(op, models::ops::Kernel::forward, action.arg_count, "y") : 0;
  return buffer(action, static_cast<int>(typed)).type;
}

// A framework's kernels are counted by the operator's elements, this tool's own by the arguments.
core::Bytes ActionCost::elementwise_bytes(const models::Operator& op, const Action& action,
                                          const Call& call) const {
  if (machine_->executor_kernels) return traffic(action, call).all();
  const bool forward = action.kind == ActionKind::forward;
  const std::int64_t moved = forward ? op.elements_forward : op.elements_backward;
  const std::int64_t parameters = forward ? op.parameter_elements : 2 * op.parameter_elements;
  return core::bytes_of(moved * samples_ + parameters, elementwise_type(op, action));
}

core::Seconds ActionCost::elementwise_time(const models::Operator& op, const Action& action,
                                           const Call& call) const {
  if (machine_->gelu_in_product && op.kind == models::OpKind::gelu &&
      op.activation == models::Activation::gelu_tanh)
    if (const core::DType type = elementwise_type(op, action); core::bits(type) == 16)
      return memory_time(core::bytes_of(op.rows * op.n * samples_, type), *machine_);
  const bool norm = op.kind == models::OpKind::rms_norm;
  const double traffic = traffic_of(op.kind, program_->mesh.tensor, *machine_);
  const core::Seconds time =
      memory_time(elementwise_bytes(op, action, call), *machine_) * traffic;
  return with_host(time, norm ? machine_->host.norm : machine_->host.elementwise, *machine_);
}

core::Seconds ActionCost::bytes_time(const Action& action, core::Bytes moved) const {
  return buffer(action, 0).host ? moved / machine_->host_memory : memory_time(moved, *machine_);
}

core::Seconds ActionCost::optimizer_time(const Action& action, const Call& call) const {
  core::Bytes moved = traffic(action, call).all();
  if (machine_->executor_kernels && program_->optimizer.has_master)
    moved = core::Bytes(std::llround(static_cast<double>(moved.value()) / kOwnUpdates));
  const core::Seconds once = call.layer == 0 ? machine_->host.update : core::Seconds{};
  const bool offloaded = buffer(action, 0).host;
  return (offloaded ? offloaded_update_time(moved, program_->mesh.ranks(), *machine_)
                    : memory_time(moved, *machine_)) +
         once;
}

// What of a transfer the GEMM beside it hides.
core::Seconds ActionCost::hidden_time(const program::Transfer& transfer) const {
  if (!machine_->hides_rows || transfer.beside == program::kNone) return {};
  const bool gathers = transfer.collective == program::Collective::all_gather;
  const ActionKind kind = gathers ? ActionKind::input_gradient : ActionKind::weight_gradient;
  const core::DType type = machine_->narrow_gemms.value_or(transfer.wire_type);
  return gemm_time(shape_of(class_->operators[transfer.beside], kind, samples_), type, *machine_);
}

core::Picoseconds action_cost(const program::RankClass& rank_class,
                              const program::Program& program, const program::Action& action,
                              const program::Call& call, const Machine& machine) {
  return ActionCost(program, rank_class, machine)(action, call);
}

}  // namespace cost
