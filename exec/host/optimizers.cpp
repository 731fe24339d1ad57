#include "exec/host/optimizers.hpp"

#include <array>

#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/quantise.hpp"
#include "exec/host/row_sum.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {

using planner::OptimizerKind;

namespace {

// Hyperparameters in the arithmetic's type, bias corrections worked out in double.
template <class T>
struct Factors {
  Factors(const Hyper& h, double by1, double by2)  // what corrects the moments
      : lr(static_cast<T>(h.learning_rate)),
        beta1(static_cast<T>(h.beta1)),
        beta2(static_cast<T>(h.beta2)),
        rest1(static_cast<T>(1.0 - h.beta1)),
        rest2(static_cast<T>(1.0 - h.beta2)),
        epsilon(static_cast<T>(h.epsilon)),
        decay(static_cast<T>(h.weight_decay)),
        correction1(static_cast<T>(by1)),
        correction2(static_cast<T>(by2)) {}
  T lr, beta1, beta2, rest1, rest2, epsilon, decay, correction1, correction2;
};

// The rules: new weight from weight w and gradient g; s are the slots, updated in place.
template <class T>
struct Rules {
  Factors<T> f;
  bool scales = false;
  T scale = 1;                         // of gradients

  T sgd(T w, T g) const { return w - f.lr * g; }
  T momentum(T w, T g, T& m) const {
    m = f.beta1 * m + g;
    return w - f.lr * m;
  }
  T adagrad(T w, T g, T& s) const {
    s += g * g;
    return w - f.lr * g / (std::sqrt(s) + f.epsilon);
  }
  T rmsprop(T w, T g, T& s) const {
    s = f.beta2 * s + f.rest2 * g * g;
    return w - f.lr * g / (std::sqrt(s) + f.epsilon);
  }
  T adadelta(T w, T g, T& squares, T& steps) const {
    squares = f.beta2 * squares + f.rest2 * g * g;
    const T delta = std::sqrt(steps + f.epsilon) / std::sqrt(squares + f.epsilon) * g;
    steps = f.beta2 * steps + f.rest2 * delta * delta;
    return w - f.lr * delta;
  }
  // Adam's step with corrected moments.
  T descend(T w, T m, T v) const {
    const T mean = m / f.correction1;
    return w - f.lr * mean / (std::sqrt(v / f.correction2) + f.epsilon);
  }
  T adam(T w, T g, T& m, T& v) const {
    m = f.beta1 * m + f.rest1 * g;
    v = f.beta2 * v + f.rest2 * g * g;
    return descend(w, m, v);
  }
  // The maximum of uncorrected v, corrected when used (torch.optim; the paper corrects neither).
  T amsgrad(T w, T g, T& m, T& v, T& greatest) const {
    m = f.beta1 * m + f.rest1 * g;
    v = f.beta2 * v + f.rest2 * g * g;
    greatest = max_of(greatest, v);
    return descend(w, m, greatest);
  }
};

bool decoupled(OptimizerKind kind) {
  return kind == OptimizerKind::adamw || kind == OptimizerKind::adam8bit;
}

template <class T>
struct Chunk {
  T* w;
  T* g;
  std::array<T*, 3> s;
};

// Weight decay first: it reads the weight before the step. Decoupled: the weight shrinks, else the
// gradient grows.
template <class T>
void decay(const Chunk<T>& c, std::int64_t n, const Factors<T>& f, bool shrink) {
  if (shrink) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) c.w[i] -= f.lr * f.decay * c.w[i];
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) c.g[i] += f.decay * c.w[i];
  }
}

template <class T>
void apply(OptimizerKind kind, const Rules<T>& rule, const Chunk<T>& c, std::int64_t n) {
  const auto each = [&](auto one) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) c.w[i] = one(c.w[i], c.g[i], i);
  };
  const auto& s = c.s;
  switch (kind) {
    case OptimizerKind::sgd: return each([&](T w, T g, auto) { return rule.sgd(w, g); });
    case OptimizerKind::momentum:
      return each([&](T w, T g, auto i) { return rule.momentum(w, g, s[0][i]); });
    case OptimizerKind::adagrad:
      return each([&](T w, T g, auto i) { return rule.adagrad(w, g, s[0][i]); });
    case OptimizerKind::rmsprop:
      return each([&](T w, T g, auto i) { return rule.rmsprop(w, g, s[0][i]); });
    case OptimizerKind::adadelta:
      return each([&](T w, T g, auto i) { return rule.adadelta(w, g, s[0][i], s[1][i]); });
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::adam8bit:
      return each([&](T w, T g, auto i) { return rule.adam(w, g, s[0][i], s[1][i]); });
    case OptimizerKind::amsgrad:
      return each([&](T w, T g, auto i) { return rule.amsgrad(w, g, s[0][i], s[1][i], s[2][i]); });
  }
}

// Codes and scales of one block beside the floats they stand for.
void unpack(std::span<const View> slots, std::int64_t first, std::int64_t n,
            const Chunk<float>& c) {
  for (std::size_t k = 0; k < 2; ++k) {
    const auto* codes = static_cast<const std::uint8_t*>(slots[k].data) + first;
    const float scale = static_cast<const float*>(slots[k + 2].data)[first / kQuantBlock];
    // A scale of 0 is a block never written: whatever its codes, it holds zeros.
    dequantise(k == 0 ? signed_map() : unsigned_map(), codes, scale, n, c.s[k]);
  }
}

void pack(std::span<const View> slots, std::int64_t first, std::int64_t n, const Chunk<float>& c) {
  for (std::size_t k = 0; k < 2; ++k) {
    auto* codes = static_cast<std::uint8_t*>(slots[k].data) + first;
    float& scale = static_cast<float*>(slots[k + 2].data)[first / kQuantBlock];
    scale = quantise(k == 0 ? signed_map() : unsigned_map(), c.s[k], n, codes);
  }
}

template <class T>
void update_chunk(OptimizerKind kind, const Rules<T>& rule, const Parameters& p,
                  std::span<const View> slots, std::int64_t first, std::int64_t n) {
  T buffer[5][kChunk];
  Chunk<T> c{buffer[0], buffer[1], {buffer[2], buffer[3], buffer[4]}};
  const View master = p.master ? p.master : p.weight;
  load(master.at(first), n, c.w);
  load(p.gradient.at(first), n, c.g);
  if (rule.scales) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) c.g[i] *= rule.scale;
  }
  const bool packed = kind == OptimizerKind::adam8bit;
  if constexpr (std::is_same_v<T, float>) {
    if (packed) unpack(slots, first, n, c);
  }
  for (std::size_t k = 0; !packed && k < slots.size(); ++k) load(slots[k].at(first), n, c.s[k]);
  if (p.decays && rule.f.decay != T(0)) decay(c, n, rule.f, decoupled(kind));
  apply(kind, rule, c, n);
  store(master.at(first), n, c.w);
  if (p.master) cast(p.weight.at(first), p.master.at(first), n);
  if constexpr (std::is_same_v<T, float>) {
    if (packed) pack(slots, first, n, c);
  }
  for (std::size_t k = 0; !packed && k < slots.size(); ++k) store(slots[k].at(first), n, c.s[k]);
}

void check_slots(OptimizerKind kind, std::span<const View> slots, core::DType arithmetic) {
  const planner::Optimizer& o = planner::optimizer(kind);
  const auto expected =
      static_cast<std::size_t>((o.first_moments + o.second_moments) * (o.quantised ? 2 : 1));
  PLANNER_CHECK(slots.size() == expected, "one view per slot (quantised: codes, then scales)");
  if (!o.quantised) return;
  PLANNER_CHECK(arithmetic != core::DType::f64, "adam8bit computes in f32");
  PLANNER_CHECK(slots[0].type == core::DType::u8 && slots[1].type == core::DType::u8 &&
                    slots[2].type == core::DType::f32 && slots[3].type == core::DType::f32,
                "adam8bit keeps u8 codes and f32 scales");
}

}  // namespace

LossScaleRule loss_scale_rule(const planner::LossScale& scale, double clip, const Hyper& hyper) {
  return {static_cast<double>(scale.interval), planner::kMostLossScale, clip, hyper.beta1,
          hyper.beta2};
}

double clip_scale(double squares, double clip) {
  constexpr double kEpsilon = 1e-6;
  return std::min(1.0, clip / (std::sqrt(squares) + kEpsilon));
}

double sum_of_squares(View x, std::int64_t n) {
  return row_sum<double>(n, [](double v) { return v * v; }, x);
}

void update(OptimizerKind kind, const Hyper& hyper, std::int64_t step, const Parameters& p,
            std::span<const View> slots) {
  PLANNER_CHECK(step >= 1, "steps count from 1");
  if (p.loss_scale != nullptr && p.loss_scale->factor == 0) return;
  const core::DType arithmetic = p.master ? p.master.type : p.weight.type;
  check_slots(kind, slots, arithmetic);
  const std::int64_t stride = kind == OptimizerKind::adam8bit ? kQuantBlock : kChunk;
  const LossScaleState* const scaled = p.loss_scale;
  const bool scales = scaled != nullptr || p.squares != nullptr;
  const double scale = scaled != nullptr      ? scaled->factor
                       : p.squares != nullptr ? clip_scale(*p.squares, p.clip)
                                              : 1.0;
  const auto corrected = [&](double beta) {
    return 1.0 - std::pow(beta, static_cast<double>(step));
  };
  const double by1 = scaled != nullptr ? scaled->correction1 : corrected(hyper.beta1);
  const double by2 = scaled != nullptr ? scaled->correction2 : corrected(hyper.beta2);
  with_compute_type(arithmetic, [&]<class T>() {
    const Rules<T> rule{Factors<T>(hyper, by1, by2), scales, static_cast<T>(scale)};
    for (std::int64_t first = 0; first < p.n; first += stride) {
      update_chunk(kind, rule, p, slots, first, std::min(stride, p.n - first));
    }
  });
}

}  // namespace exec::host
