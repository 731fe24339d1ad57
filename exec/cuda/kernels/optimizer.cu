// Optimizers: one thread an element (adam8bit: one block a block of 256), operands of any type. The
// rules are those of exec/host/optimizers.cpp.
#include <cmath>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/host/quantise.hpp"

namespace exec::cuda {
namespace {

using planner::OptimizerKind;

constexpr unsigned kThreads = 256;     // = host::kQuantBlock

template <class T>
struct Factors {
  T lr, beta1, beta2, rest1, rest2, epsilon, decay, correction1, correction2;
};

struct Update {
  Real weight, master, gradient;       // master.data null: the weight is its own
  Real slot[4];
  int64_t n;
  OptimizerKind kind;
  bool decays;
  std::uint64_t stochastic;            // seed of this step; 0: to nearest
  const StepNumbers* now;              // null: as given
  const double* squares;               // of the gradients' norm; null: they stay as they are
  double clip;
  const host::LossScaleState* loss_scale;  // null: none
  PLANNER_DEVICE bool skipped() const { return loss_scale != nullptr && loss_scale->factor == 0; }
};

template <class T>
PLANNER_DEVICE void read_step(Update& u, Factors<T>& f) {
  if (u.loss_scale != nullptr) {
    f.correction1 = static_cast<T>(u.loss_scale->correction1);
    f.correction2 = static_cast<T>(u.loss_scale->correction2);
  }
  if (u.now == nullptr) return;
  f.lr = static_cast<T>(u.now->learning_rate);
  u.stochastic = u.now->seed;
  if (u.loss_scale != nullptr) return;
  f.correction1 = static_cast<T>(u.now->correction1);
  f.correction2 = static_cast<T>(u.now->correction2);
}

PLANNER_DEVICE bool decoupled(OptimizerKind kind) {
  return kind == OptimizerKind::adamw || kind == OptimizerKind::adam8bit;
}

template <class T>
PLANNER_DEVICE T descend(const Factors<T>& f, T w, T m, T v) {
  return w - f.lr * (m / f.correction1) / (root_of(v / f.correction2) + f.epsilon);
}

// The new weight; s: the slots, updated in place.
template <class T>
PLANNER_DEVICE T step(OptimizerKind kind, const Factors<T>& f, T w, T g, T* s) {
  switch (kind) {
    case OptimizerKind::sgd: return w - f.lr * g;
    case OptimizerKind::momentum:
      s[0] = f.beta1 * s[0] + g;
      return w - f.lr * s[0];
    case OptimizerKind::adagrad:
      s[0] += g * g;
      return w - f.lr * g / (root_of(s[0]) + f.epsilon);
    case OptimizerKind::rmsprop:
      s[0] = f.beta2 * s[0] + f.rest2 * g * g;
      return w - f.lr * g / (root_of(s[0]) + f.epsilon);
    case OptimizerKind::adadelta: {
      s[0] = f.beta2 * s[0] + f.rest2 * g * g;
      const T delta = root_of(s[1] + f.epsilon) / root_of(s[0] + f.epsilon) * g;
      s[1] = f.beta2 * s[1] + f.rest2 * delta * delta;
      return w - f.lr * delta;
    }
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::adam8bit:
      s[0] = f.beta1 * s[0] + f.rest1 * g;
      s[1] = f.beta2 * s[1] + f.rest2 * g * g;
      return descend(f, w, s[0], s[1]);
    case OptimizerKind::amsgrad:
      s[0] = f.beta1 * s[0] + f.rest1 * g;
      s[1] = f.beta2 * s[1] + f.rest2 * g * g;
      s[2] = max_of(s[2], s[1]);
      return descend(f, w, s[0], s[2]);
  }
  return w;
}

// As host::clip_scale().
template <class T>
PLANNER_DEVICE T scaled_gradient(const Update& u, int64_t i) {
  const T g = load_real<T>(u.gradient, i);
  if (u.loss_scale != nullptr) return g * static_cast<T>(u.loss_scale->factor);
  if (u.squares == nullptr) return g;
  const double scale = u.clip / (root_of(*u.squares) + 1e-6);
  return g * static_cast<T>(scale > 1.0 ? 1.0 : scale);
}

template <class T>
PLANNER_DEVICE T stepped(const Update& u, const Factors<T>& f, T w, T g, T* s) {
  if (u.decays && f.decay != T(0)) {
    if (decoupled(u.kind))
      w -= f.lr * f.decay * w;
    else
      g += f.decay * w;
  }
  return step(u.kind, f, w, g, s);
}

// splitmix64's finaliser: enough for rounding.
PLANNER_DEVICE std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// bf16 by chance: up as often as the cut-off part says. Not finite: as it is.
PLANNER_DEVICE bf16 by_chance(float x, std::uint64_t seed, int64_t place) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7f800000U) == 0x7f800000U) return narrowed<bf16>(x);
  const auto drawn = static_cast<std::uint32_t>(mixed(seed + static_cast<std::uint64_t>(place)));
  return {static_cast<std::uint16_t>((bits + (drawn & 0xffffU)) >> 16)};
}

template <class T>
PLANNER_DEVICE void store_weight(const Update& u, int64_t i, T w) {
  if (u.master.data != nullptr) {
    store_real(u.master, i, w);
    return store_real(u.weight, i, load_real<T>(u.master, i));
  }
  if (u.stochastic != 0 && u.weight.type == core::DType::bf16) {
    static_cast<bf16*>(u.weight.data)[i] = by_chance(static_cast<float>(w), u.stochastic, i);
    return;
  }
  store_real(u.weight, i, w);
}

template <class T>
__global__ void update_elements(Update u, Factors<T> f, int slots) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= u.n || u.skipped()) return;
  read_step(u, f);
  T s[3] = {};
  for (int k = 0; k < slots; ++k) s[k] = load_real<T>(u.slot[k], i);
  const T w = load_real<T>(u.master.data != nullptr ? u.master : u.weight, i);
  const T changed = stepped(u, f, w, scaled_gradient<T>(u, i), s);
  store_weight(u, i, changed);
  for (int k = 0; k < slots; ++k) store_real(u.slot[k], i, s[k]);
}

// Index of the nearest entry of an ascending map of 256, ties to the lower.
PLANNER_DEVICE int nearest(const float* map, float x) {
  int low = 0, high = 256;             // the first entry >= x lies in [low, high]
  while (low < high) {
    const int middle = (low + high) / 2;
    if (map[middle] < x)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return 0;
  if (low == 256) return 255;
  return x - map[low - 1] <= map[low] - x ? low - 1 : low;
}

// adam8bit: slot {m codes, v codes, m scales, v scales}; one block of threads a block of codes.
__global__ void update_codes(Update u, Factors<float> f, const float* maps) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool there = i < u.n;
  if (u.skipped()) return;             // all threads
  read_step(u, f);
  float s[3] = {};
  float changed = 0;
  if (there) {
    for (int k = 0; k < 2; ++k) {
      const int code = static_cast<const std::uint8_t*>(u.slot[k].data)[i];
      s[k] = maps[256 * k + code] * static_cast<const float*>(u.slot[2 + k].data)[blockIdx.x];
    }
    const float w = load_real<float>(u.master.data != nullptr ? u.master : u.weight, i);
    changed = stepped(u, f, w, scaled_gradient<float>(u, i), s);
  }
  for (int k = 0; k < 2; ++k) {
    const float scale = over_block(there ? fabsf(s[k]) : 0.0F, Greater{});
    const float divisor = scale > 0.0F ? scale : 1.0F;
    if (there)
      static_cast<std::uint8_t*>(u.slot[k].data)[i] =
          static_cast<std::uint8_t>(nearest(maps + 256 * k, s[k] / divisor));
    if (threadIdx.x == 0) static_cast<float*>(u.slot[2 + k].data)[blockIdx.x] = scale;
  }
  if (there) store_weight(u, i, changed);
}

__global__ void scale_step(host::LossScaleState* state, const double* squares,
                           host::LossScaleRule rule) {
  *state = host::stepped(*state, root_of(*squares), rule);
}

// partial[block] = sum of squares of its strided elements; then one block adds them.
template <class A>
__global__ void squares(double* partial, const A* x, int64_t n) {
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const auto v = static_cast<double>(widen(x[i]));
    sum += v * v;
  }
  sum = over_block(sum, Plus{});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
__global__ void add_partials(double* sum, const double* partial, int count) {
  double all = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    all += partial[i];
  all = over_block(all, Plus{});
  if (threadIdx.x == 0) *sum += all;
}

template <class T>
Factors<T> factors(const Hyper& h, const StepNumbers& now) {
  return {static_cast<T>(now.learning_rate), static_cast<T>(h.beta1),
          static_cast<T>(h.beta2),         static_cast<T>(1.0 - h.beta1),
          static_cast<T>(1.0 - h.beta2),   static_cast<T>(h.epsilon),
          static_cast<T>(h.weight_decay),  static_cast<T>(now.correction1),
          static_cast<T>(now.correction2)};
}

}  // namespace

StepNumbers step_numbers(const Hyper& hyper, int64_t step, std::uint64_t stochastic) {
  PLANNER_CHECK(step >= 1, "steps count from 1");
  const auto corrected = [&](double beta) {
    return 1.0 - std::pow(beta, static_cast<double>(step));
  };
  const std::uint64_t apart = 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(step);
  return {corrected(hyper.beta1), corrected(hyper.beta2), hyper.learning_rate,
          stochastic != 0 ? stochastic + apart : 0};
}

void update(const Queue& q, OptimizerKind kind, const Hyper& hyper, int64_t step_number,
            const host::Parameters& p, std::span<const View> slots, const float* maps,
            std::uint64_t stochastic, const StepNumbers* now) {
  const StepNumbers numbers = step_numbers(hyper, step_number, stochastic);
  PLANNER_CHECK(slots.size() <= 4, "at most four slots");
  if (p.n == 0) return;
  Update u{real(p.weight), real(p.master), real(p.gradient), {}, p.n,
           kind,           p.decays,       numbers.seed,     now, p.squares, p.clip,
           p.loss_scale};
  for (std::size_t k = 0; k < slots.size(); ++k) u.slot[k] = real(slots[k]);
  const Extent grid{blocks_of(p.n, kThreads)};
  if (kind == OptimizerKind::adam8bit) {
    static_assert(kThreads == host::kQuantBlock);
    launch(q, "adam8bit", grid, {kThreads}, 0, update_codes, u, factors<float>(hyper, numbers),
           maps);
    return;
  }
  const bool wide = (p.master ? p.master.type : p.weight.type) == core::DType::f64;
  const int count = static_cast<int>(slots.size());
  if (wide)
    launch(q, "update", grid, {kThreads}, 0, update_elements<double>, u,
           factors<double>(hyper, numbers), count);
  else
    launch(q, "update", grid, {kThreads}, 0, update_elements<float>, u,
           factors<float>(hyper, numbers), count);
}

void step_loss_scale(const Queue& q, host::LossScaleState* state, const double* squares,
                     const host::LossScaleRule& rule) {
  launch(q, "scale_step", {1}, {1}, 0, scale_step, state, squares, rule);
}

void add_squares(const Queue& q, double* sum, View x, int64_t n) {
  const int64_t most = 4 * static_cast<int64_t>(q.multiprocessors);
  const int64_t blocks =
      (n + kThreads - 1) / kThreads < most ? (n + kThreads - 1) / kThreads : most;
  if (blocks == 0) return;
  auto* const partial = q.take<double>(blocks);
  with_type(x.type, [&]<class A>() {
    launch(q, "squares", {static_cast<unsigned>(blocks)}, {kThreads}, 0, squares<A>, partial,
           typed<A>(x), n);
  });
  launch(q, "add_partials", {1}, {kThreads}, 0, add_partials, sum,
         static_cast<const double*>(partial), static_cast<int>(blocks));
}

}  // namespace exec::cuda
