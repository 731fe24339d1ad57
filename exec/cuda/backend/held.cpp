// What is held back until the next action shows whether one kernel can do both: a sum and the layer
// norm that reads it, a product and the GELU that reads it, or the GELU's gradient, the maxima and
// the sums of a loss and its gradient, and updates that follow each other.
#include <fmt/format.h>

#include "exec/cuda/backend/cuda_backend.hpp"
#include "exec/cuda/backend/range_of.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec::cuda {

using program::ActionKind;
using program::Stream;

namespace {

// Whether two ranges share bytes without being the same range.
bool crosses(const host::View& a, std::int64_t a_bytes, const host::View& b, std::int64_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a.data);
  const auto* y = static_cast<const std::byte*>(b.data);
  return x != y && x < y + b_bytes && y < x + a_bytes;
}


bool shares(const host::View& a, std::int64_t a_bytes, const host::View& b, std::int64_t b_bytes) {
  return a.data == b.data || crosses(a, a_bytes, b, b_bytes);
}

std::int64_t extent_of(std::int64_t elements, const host::View& v) {
  return v ? core::bytes_of(elements, v.type).value() : 0;
}

bool half(const host::View& v) { return core::bits(v.type) == 16; }

}  // namespace

std::string GeluChoice::text() const {
  if (!by_products) return "own kernels";
  return fmt::format("{} in epilogues of products, {} that the library has none for", joined.load(),
                     refused.load());
}

void CudaBackend::launch_held() {
  launch_held_product();
  launch_held_max();
  launch_held_sum();
  launch_held_updates();
}

void CudaBackend::launch_held_updates() {
  if (updates_.all.empty()) return;
  const HeldUpdates held = std::exchange(updates_, {});
  const RangeOf range(api_, ActionKind::optimizer);
  cuda::update(lane(Stream::compute).queue, held.kind, held.hyper, held.step, held.all,
               device_.maps, device_.stochastic,
               recording_.open ? recording_.numbers : nullptr);
}

// Nothing of them reads what another writes.
void CudaBackend::hold_update(const exec::Update& update, const ParameterUpdate& own) {
  const HeldUpdates& h = updates_;
  const bool joins = !h.all.empty() && h.kind == update.kind && h.step == update.step &&
                     h.hyper == update.hyper;
  if (!joins) {
    launch_held();
    updates_ = {update.kind, update.hyper, update.step, {}};
  }
  updates_.all.push_back(own);
}

void CudaBackend::launch_held_max() {
  if (!max_.max) return;
  const HeldMax m = std::exchange(max_, {});
  const Queue& q = lane(Stream::compute).queue;
  const RangeOf range(api_, ActionKind::forward, m.name);
  if (m.sums) return softmax_max_and_sum(q, m.max, m.sums, m.logits, m.targets, m.shape);
  softmax_max(q, m.max, m.logits, m.shape);
}

// Where no other rank's maxima come between.
bool CudaBackend::launch_with_held_max(const program::Action& action, const models::Operator& op,
                                       std::span<const Operand> args,
                                       const KernelContext& context) {
  if (action.kind != ActionKind::forward) return false;
  const std::int64_t rows = op.rows * context.samples;
  if (op.kind == models::OpKind::softmax_max) {
    launch_held();
    const Forward<ops::softmax_max> a(op, args);
    max_ = {op.name.c_str(), a["max"], a["logits"], logit_shape(op, rows, context)};
    return true;
  }
  if (!max_.max) return false;
  if (op.kind == models::OpKind::softmax_sum && !max_.sums) {
    const Forward<ops::softmax_sum> a(op, args);
    if (a["max"].data != max_.max.data || a["logits"].data != max_.logits.data) return false;
    max_.sums = a["sums"], max_.targets = a["targets"];
    return true;
  }
  if (op.kind != models::OpKind::cross_entropy || !max_.sums) return false;
  const Forward<ops::cross_entropy> a(op, args);
  if (a["max"].data != max_.max.data || a["sums"].data != max_.sums.data ||
      a["logits"].data != max_.logits.data || a["targets"].data != max_.targets.data ||
      !softmax_and_cross_entropy(lane(Stream::compute).queue, static_cast<double*>(a["loss"].data),
                                 a["logits"], a["max"], a["sums"], a["targets"], max_.shape,
                                 loss_factor(op, context)))
    return false;
  max_ = {};
  return true;
}

void CudaBackend::launch_held_sum() {
  if (held_.elements == 0) return;
  const HeldSum sum = std::exchange(held_, {});
  const RangeOf range(api_, ActionKind::forward, sum.name);
  add(lane(Stream::compute).queue, sum.y, sum.a, sum.b, sum.elements);
}

// Whether it was launched here, or held back.
bool CudaBackend::launch_with_held_sum(const program::Action& action, const models::Operator& op,
                                       std::span<const Operand> args,
                                       const KernelContext& context) {
  if (action.kind != ActionKind::forward) return false;
  const std::int64_t rows = op.rows * context.samples;
  if (op.kind == models::OpKind::add) {
    launch_held();
    const Forward<ops::add> a(op, args);
    held_ = {op.name.c_str(), a["y"], a["a"], a["b"], rows * op.n};
    return true;
  }
  if (op.kind != models::OpKind::layer_norm || held_.elements != rows * op.n) return false;
  const HeldSum& s = held_;
  const std::int64_t bytes = core::bytes_of(s.elements, s.y.type).value();
  const Forward<ops::layer_norm> a(op, args);
  if (a["x"].data != s.y.data || a["y"].type != s.y.type) return false;
  // A result may take the place of an addend, but only row by row.
  for (const host::View& in : {s.a, s.b}) {
    if (crosses(a["y"], a.operand("y").bytes().value(), in, bytes)) return false;
    for (const Operand& out : {a.operand("mean"), a.operand("rstd")})
      if (out.data == in.data || crosses(view(out), out.bytes().value(), in, bytes)) return false;
  }
  for (const host::View& in : {s.a, s.b})
    if (crosses(s.y, bytes, in, bytes)) return false;
  const HeldSum sum = std::exchange(held_, {});
  add_layer_norm(lane(Stream::compute).queue, sum.y, sum.a, sum.b, a["y"], a["mean"], a["rstd"],
                 a["gamma"], a["beta"], rows, op.n, context.norm_epsilon);
  return true;
}

void CudaBackend::launch_held_product() {
  using Pass = HeldProduct::Pass;
  if (product_.pass == Pass::none) return;
  const HeldProduct p = std::exchange(product_, {});
  const Queue& q = lane(Stream::compute).queue;
  const bool forward = p.pass == Pass::forward;
  const RangeOf range(api_, forward ? ActionKind::forward : ActionKind::input_gradient, p.name);
  if (forward)
    linear(q, p.out, p.in, p.w, p.bias, p.shape, false);
  else
    linear_input_gradient(q, p.out, p.in, p.w, p.shape, false);
}

// Of 16-bit types, whose results are rounded as coarsely as the library's tanh is good; f32 is kept
// for comparisons with the host.
bool CudaBackend::hold_product(const program::Action& action, const models::Operator& op,
                               std::span<const Operand> args, const KernelContext& context) {
  using Pass = HeldProduct::Pass;
  const bool forward = action.kind == ActionKind::forward;
  const bool backward = action.kind == ActionKind::input_gradient &&
                        (action.flags & program::kAccumulate) == 0;
  if (op.kind != models::OpKind::linear || !(forward || backward)) return false;
  HeldProduct p;
  p.pass = forward ? Pass::forward : Pass::backward;
  p.name = op.name.c_str();
  p.shape = linear_shape(op, op.rows * context.samples);
  if (forward) {
    const Forward<ops::linear> a(op, args);
    if (a.has("half")) return false;   // it computes the first columns of each row alone
    p.out = a["y"], p.in = a["x"], p.w = a["w"], p.bias = a["b"];
  } else {
    const InputGradient<ops::linear> a(op, args);
    p.out = a["d_x"], p.in = a["d_y"], p.w = a["w"];
  }
  if (!half(p.out)) return false;
  launch_held();
  product_ = p;
  return true;
}

bool CudaBackend::launch_with_held_product(const program::Action& action,
                                           const models::Operator& op,
                                           std::span<const Operand> args,
                                           const KernelContext& context) {
  using Pass = HeldProduct::Pass;
  const HeldProduct& p = product_;
  const bool forward = p.pass == Pass::forward && action.kind == ActionKind::forward;
  const bool backward = p.pass == Pass::backward && action.kind == ActionKind::input_gradient &&
                        (action.flags & program::kAccumulate) == 0;
  if (op.kind != models::OpKind::gelu || op.activation != models::Activation::gelu_tanh ||
      program::has_output(op, "half") || !(forward || backward))
    return false;
  const std::int64_t columns = forward ? p.shape.n : p.shape.k;
  const std::int64_t elements = p.shape.rows * columns;
  const ops::Kernel kernel = program::kernel_of(action.kind);
  const auto a = [&](std::string_view name) {
    return view(args[program::argument(op, kernel, args.size(), name)]);
  };
  const host::View to = a(forward ? "y" : "d_x"), before = a("x");
  if (a(forward ? "x" : "d_y").data != p.out.data || op.rows * context.samples * op.n != elements ||
      to.type != p.out.type || before.type != p.out.type)
    return false;
  // The product's results may take the place of nothing that it reads.
  const std::int64_t bytes = extent_of(elements, to);
  const std::int64_t in = p.shape.rows * (forward ? p.shape.ldx : p.shape.ldy);
  if (shares(to, bytes, p.in, extent_of(in, p.in)) ||
      shares(to, bytes, p.w, extent_of(p.shape.n * p.shape.k, p.w)) ||
      (p.bias && shares(to, bytes, p.bias, extent_of(p.shape.n, p.bias))) ||
      shares(to, bytes, before, bytes))
    return false;
  const Queue& q = lane(Stream::compute).queue;
  const bool joined = forward ? linear_gelu(q, to, before, p.in, p.w, p.bias, p.shape)
                              : linear_input_gradient_gelu(q, to, p.in, p.w, before, p.shape);
  ++(joined ? device_.gelu.joined : device_.gelu.refused);
  if (joined) product_ = {};
  return joined;
}

bool CudaBackend::launch_joined(const program::Action& action, const models::Operator& op,
                                std::span<const Operand> args, const KernelContext& context) {
  if (action.stream != Stream::compute) return false;
  if (device_.gelu.by_products && (launch_with_held_product(action, op, args, context) ||
                                   hold_product(action, op, args, context)))
    return true;
  launch_held_product();
  if (launch_with_held_max(action, op, args, context)) return true;
  launch_held_max();
  return launch_with_held_sum(action, op, args, context);
}

}  // namespace exec::cuda
