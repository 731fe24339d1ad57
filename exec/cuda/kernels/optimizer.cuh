#pragma once
// What an optimizer does to one element, and the operands of a launch.

#include <cmath>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/host/quantise.hpp"

namespace exec::cuda {

using planner::OptimizerKind;

inline constexpr unsigned kUpdateThreads = 256;     // = host::kQuantBlock

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

// What gradients are multiplied by. As host::clip_scale().
template <class T>
PLANNER_DEVICE T gradient_factor(const Update& u) {
  if (u.loss_scale != nullptr) return static_cast<T>(u.loss_scale->factor);
  if (u.squares == nullptr) return T(1);
  const double scale = u.clip / (root_of(*u.squares) + 1e-6);
  return static_cast<T>(scale > 1.0 ? 1.0 : scale);
}

template <class T>
PLANNER_DEVICE T stepped(OptimizerKind kind, bool decays, const Factors<T>& f, T w, T g, T* s) {
  if (decays && f.decay != T(0)) {
    if (decoupled(kind))
      w -= f.lr * f.decay * w;
    else
      g += f.decay * w;
  }
  return step(kind, f, w, g, s);
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

// Whether eights() has its types: those that recipes have.
bool has_eights(const Update& u);
// Whether one launch may do both.
bool alike(const Update& a, const Update& b);
// Updates of one launch: their operands are an argument of the kernel, of which there are 4 KB.
constexpr std::size_t kMostUpdates = 56;
// Eight elements a thread. REQUIRES: at most so many, alike, and has_eights of them.
void eights(const Queue& q, std::span<const Update> all, const Factors<float>& f);

}  // namespace exec::cuda
