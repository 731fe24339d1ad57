// Optimizers of operands whose types are known: eight elements a thread, in accesses of 16 bytes.
#include "exec/cuda/kernels/optimizer.cuh"

namespace exec::cuda {
namespace {

constexpr int kEach = 8;               // elements of a thread: 16 bytes of 16-bit types

template <class A>
struct alignas(sizeof(A) * kEach < 16 ? sizeof(A) * kEach : 16) Eight { A v[kEach]; };

// Elements [i, i + kEach) of what has n; those beyond are left alone. wide: at a multiple of 16
// bytes.
template <class A>
PLANNER_DEVICE void load_eight(const A* p, int64_t i, int64_t n, bool wide, float* out) {
  if (wide && i + kEach <= n) {
    const Eight<A> all = *reinterpret_cast<const Eight<A>*>(p + i);
    PLANNER_UNROLL
    for (int j = 0; j < kEach; ++j) out[j] = widen(all.v[j]);
    return;
  }
  PLANNER_UNROLL
  for (int j = 0; j < kEach; ++j) out[j] = i + j < n ? widen(p[i + j]) : 0.0F;
}
template <class A>
PLANNER_DEVICE void store_eight(A* p, int64_t i, int64_t n, bool wide, const float* in) {
  if (wide && i + kEach <= n) {
    Eight<A> all;
    PLANNER_UNROLL
    for (int j = 0; j < kEach; ++j) narrow(in[j], all.v[j]);
    *reinterpret_cast<Eight<A>*>(p + i) = all;
    return;
  }
  PLANNER_UNROLL
  for (int j = 0; j < kEach; ++j)
    if (i + j < n) narrow(in[j], p[i + j]);
}

// Slots that a kind has, beside adam8bit's.
constexpr int slots_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return 0;
    case OptimizerKind::momentum:
    case OptimizerKind::adagrad:
    case OptimizerKind::rmsprop: return 1;
    case OptimizerKind::amsgrad: return 3;
    default: return 2;
  }
}

template <OptimizerKind kKind>
constexpr int kSlotsOf = slots_of(kKind);

// W: of the weight, G: of the gradient, S: of master and slots; kMaster: there is one.
template <OptimizerKind kKind, class W, class G, class S, bool kMaster>
__global__ void update_eights(Update u, Factors<float> f) {
  constexpr int kSlots = kSlotsOf<kKind>;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kEach;
  if (i >= u.n || u.skipped()) return;
  read_step(u, f);
  auto* const weight = static_cast<W*>(u.weight.data);
  auto* const master = static_cast<S*>(u.master.data);
  const auto* const gradient = static_cast<const G*>(u.gradient.data);
  S* slot[3] = {};
  bool wide = aligned(weight) && aligned(master) && aligned(gradient);
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) {
    slot[k] = static_cast<S*>(u.slot[k].data);
    wide = wide && aligned(slot[k]);
  }
  float w[kEach], g[kEach], s[3][kEach] = {};
  if constexpr (kMaster)
    load_eight<S>(master, i, u.n, wide, w);
  else
    load_eight<W>(weight, i, u.n, wide, w);
  load_eight<G>(gradient, i, u.n, wide, g);
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) load_eight<S>(slot[k], i, u.n, wide, s[k]);
  const float factor = gradient_factor<float>(u);
  PLANNER_UNROLL
  for (int j = 0; j < kEach; ++j) {
    float own[3] = {s[0][j], s[1][j], s[2][j]};
    w[j] = stepped(kKind, u.decays, f, w[j], g[j] * factor, own);
    PLANNER_UNROLL
    for (int k = 0; k < kSlots; ++k) s[k][j] = own[k];
  }
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) store_eight<S>(slot[k], i, u.n, wide, s[k]);
  if constexpr (kMaster) store_eight<S>(master, i, u.n, wide, w);
  if constexpr (!kMaster && sizeof(W) == 2) {
    if (u.stochastic != 0 && u.weight.type == core::DType::bf16) {
      for (int j = 0; j < kEach; ++j)
        if (i + j < u.n) {
          const bf16 drawn = by_chance(w[j], u.stochastic, i + j);
          weight[i + j].bits = drawn.bits;
        }
      return;
    }
  }
  store_eight<W>(weight, i, u.n, wide, w);
}

template <OptimizerKind kKind, class W, class G, class S, bool kMaster>
bool launch_typed(const Queue& q, const Update& u, const Factors<float>& f) {
  launch(q, "update", {blocks_of(u.n, kUpdateThreads * kEach)}, {kUpdateThreads}, 0,
         update_eights<kKind, W, G, S, kMaster>, u, f);
  return true;
}

// Recipes have f32 throughout; 16-bit weights beside a master and slots of f32; bf16 throughout.
template <OptimizerKind kKind>
bool launch_of_types(const Queue& q, const Update& u, const Factors<float>& f) {
  using core::DType;
  constexpr int kSlots = kSlotsOf<kKind>;
  const bool has_master = u.master.data != nullptr;
  const DType w = u.weight.type, g = u.gradient.type,
              s = kSlots > 0 ? u.slot[0].type : has_master ? u.master.type : w;
  for (int k = 0; k < kSlots; ++k)
    if (u.slot[k].type != s) return false;
  if (!has_master) {
    if (w == DType::f32 && g == DType::f32 && s == DType::f32)
      return launch_typed<kKind, float, float, float, false>(q, u, f);
    if (w == DType::bf16 && g == DType::bf16 && s == DType::bf16)
      return launch_typed<kKind, bf16, bf16, bf16, false>(q, u, f);
    return false;
  }
  if (u.master.type != DType::f32 || s != DType::f32) return false;
  if (w == DType::bf16 && g == DType::bf16)
    return launch_typed<kKind, bf16, bf16, float, true>(q, u, f);
  if (w == DType::bf16 && g == DType::f32)
    return launch_typed<kKind, bf16, float, float, true>(q, u, f);
  if (w == DType::f16 && g == DType::f16)
    return launch_typed<kKind, f16, f16, float, true>(q, u, f);
  if (w == DType::f16 && g == DType::f32)
    return launch_typed<kKind, f16, float, float, true>(q, u, f);
  return false;
}

}  // namespace

bool launch_eights(const Queue& q, const Update& u, const Factors<float>& f) {
  switch (u.kind) {
    case OptimizerKind::sgd: return launch_of_types<OptimizerKind::sgd>(q, u, f);
    case OptimizerKind::momentum: return launch_of_types<OptimizerKind::momentum>(q, u, f);
    case OptimizerKind::adagrad: return launch_of_types<OptimizerKind::adagrad>(q, u, f);
    case OptimizerKind::rmsprop: return launch_of_types<OptimizerKind::rmsprop>(q, u, f);
    case OptimizerKind::adadelta: return launch_of_types<OptimizerKind::adadelta>(q, u, f);
    case OptimizerKind::adam: return launch_of_types<OptimizerKind::adam>(q, u, f);
    case OptimizerKind::adamw: return launch_of_types<OptimizerKind::adamw>(q, u, f);
    case OptimizerKind::amsgrad: return launch_of_types<OptimizerKind::amsgrad>(q, u, f);
    default: return false;
  }
}

}  // namespace exec::cuda
