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

// Slots that a kind has. adam8bit has codes, and is not computed here.
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

struct Tensor {
  void *weight, *master;
  const void* gradient;
  void* slot[3];
  int64_t n;
  unsigned first;                      // block
  bool decays;
};
struct Tensors {
  Tensor of[kMostUpdates];
  int count;
};

// The one that this block has a part of.
PLANNER_DEVICE const Tensor& own_tensor(const Tensors& all) {
  int low = 0, high = all.count;       // the last that begins at this block or before it
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (all.of[middle].first <= blockIdx.x)
      low = middle;
    else
      high = middle;
  }
  return all.of[low];
}

// W: of the weight, G: of the gradient, S: of master and slots; kMaster: there is one. u: what all
// have in common.
template <OptimizerKind kKind, class W, class G, class S, bool kMaster>
__global__ void update_eights(PLANNER_ARGUMENT Tensors all, Update u, Factors<float> f) {
  constexpr int kSlots = kSlotsOf<kKind>;
  const Tensor& t = own_tensor(all);
  const int64_t i =
      (static_cast<int64_t>(blockIdx.x - t.first) * blockDim.x + threadIdx.x) * kEach;
  const int64_t n = t.n;
  if (i >= n || u.skipped()) return;
  read_step(u, f);
  auto* const weight = static_cast<W*>(t.weight);
  auto* const master = static_cast<S*>(t.master);
  const auto* const gradient = static_cast<const G*>(t.gradient);
  S* slot[3] = {};
  bool wide = aligned(weight) && aligned(master) && aligned(gradient);
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) {
    slot[k] = static_cast<S*>(t.slot[k]);
    wide = wide && aligned(slot[k]);
  }
  float w[kEach], g[kEach], s[3][kEach] = {};
  if constexpr (kMaster)
    load_eight<S>(master, i, n, wide, w);
  else
    load_eight<W>(weight, i, n, wide, w);
  load_eight<G>(gradient, i, n, wide, g);
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) load_eight<S>(slot[k], i, n, wide, s[k]);
  const float factor = gradient_factor<float>(u);
  PLANNER_UNROLL
  for (int j = 0; j < kEach; ++j) {
    float own[3] = {s[0][j], s[1][j], s[2][j]};
    w[j] = stepped(kKind, t.decays, f, w[j], g[j] * factor, own);
    PLANNER_UNROLL
    for (int k = 0; k < kSlots; ++k) s[k][j] = own[k];
  }
  PLANNER_UNROLL
  for (int k = 0; k < kSlots; ++k) store_eight<S>(slot[k], i, n, wide, s[k]);
  if constexpr (kMaster) store_eight<S>(master, i, n, wide, w);
  if constexpr (!kMaster && sizeof(W) == 2) {
    if (u.stochastic != 0 && u.weight.type == core::DType::bf16) {
      for (int j = 0; j < kEach; ++j)
        if (i + j < n) {
          const bf16 drawn = by_chance(w[j], u.stochastic, i + j);
          weight[i + j].bits = drawn.bits;
        }
      return;
    }
  }
  store_eight<W>(weight, i, n, wide, w);
}

template <OptimizerKind kKind, class W, class G, class S, bool kMaster>
void launch_typed(const Queue& q, std::span<const Update> all, const Factors<float>& f) {
  Tensors tensors{};
  static_assert(sizeof tensors + sizeof(Update) + sizeof f <= 4096);
  unsigned blocks = 0;
  for (const Update& u : all) {
    Tensor& t = tensors.of[tensors.count++];
    t = {u.weight.data, u.master.data, u.gradient.data, {}, u.n, blocks, u.decays};
    for (int k = 0; k < 3; ++k) t.slot[k] = u.slot[k].data;
    blocks += blocks_of(u.n, kUpdateThreads * kEach);
  }
  launch(q, "update", {blocks}, {kUpdateThreads}, 0, update_eights<kKind, W, G, S, kMaster>,
         tensors, all.front(), f);
}

// use.template operator()<W, G, S, kMaster>(), if they are types that recipes have: f32 throughout;
// 16-bit weights with a master and slots of f32; bf16 throughout.
template <class Use>
bool with_types(const Update& u, Use&& use) {
  using core::DType;
  const int slots = slots_of(u.kind);
  const bool has_master = u.master.data != nullptr;
  const DType w = u.weight.type, g = u.gradient.type,
              s = slots > 0 ? u.slot[0].type : has_master ? u.master.type : w;
  for (int k = 0; k < slots; ++k)
    if (u.slot[k].type != s) return false;
  if (!has_master) {
    if (g != w || s != w) return false;
    if (w == DType::f32) return use.template operator()<float, float, float, false>(), true;
    if (w == DType::bf16) return use.template operator()<bf16, bf16, bf16, false>(), true;
    return false;
  }
  if (u.master.type != DType::f32 || s != DType::f32 || (g != w && g != DType::f32)) return false;
  if (w == DType::bf16 && g == w) return use.template operator()<bf16, bf16, float, true>(), true;
  if (w == DType::bf16) return use.template operator()<bf16, float, float, true>(), true;
  if (w == DType::f16 && g == w) return use.template operator()<f16, f16, float, true>(), true;
  if (w == DType::f16) return use.template operator()<f16, float, float, true>(), true;
  return false;
}

struct Nothing {
  template <class W, class G, class S, bool kMaster>
  void operator()() const {}
};

template <OptimizerKind kKind>
void launch_of_kind(const Queue& q, std::span<const Update> all, const Factors<float>& f) {
  with_types(all.front(), [&]<class W, class G, class S, bool kMaster>() {
    launch_typed<kKind, W, G, S, kMaster>(q, all, f);
  });
}

}  // namespace

bool has_eights(const Update& u) {
  return u.kind != OptimizerKind::adam8bit && with_types(u, Nothing{});
}

bool alike(const Update& a, const Update& b) {
  bool same = a.kind == b.kind && a.weight.type == b.weight.type &&
              a.gradient.type == b.gradient.type && a.master.type == b.master.type &&
              (a.master.data == nullptr) == (b.master.data == nullptr) &&
              a.stochastic == b.stochastic && a.now == b.now && a.squares == b.squares &&
              a.clip == b.clip && a.loss_scale == b.loss_scale;
  for (int k = 0; k < slots_of(a.kind); ++k) same = same && a.slot[k].type == b.slot[k].type;
  return same;
}

void eights(const Queue& q, std::span<const Update> all, const Factors<float>& f) {
  switch (all.front().kind) {
    case OptimizerKind::sgd: return launch_of_kind<OptimizerKind::sgd>(q, all, f);
    case OptimizerKind::momentum: return launch_of_kind<OptimizerKind::momentum>(q, all, f);
    case OptimizerKind::adagrad: return launch_of_kind<OptimizerKind::adagrad>(q, all, f);
    case OptimizerKind::rmsprop: return launch_of_kind<OptimizerKind::rmsprop>(q, all, f);
    case OptimizerKind::adadelta: return launch_of_kind<OptimizerKind::adadelta>(q, all, f);
    case OptimizerKind::adam: return launch_of_kind<OptimizerKind::adam>(q, all, f);
    case OptimizerKind::adamw: return launch_of_kind<OptimizerKind::adamw>(q, all, f);
    case OptimizerKind::amsgrad: return launch_of_kind<OptimizerKind::amsgrad>(q, all, f);
    case OptimizerKind::adam8bit: break;
  }
  PLANNER_CHECK(false, "an optimizer whose slots are codes");
}

}  // namespace exec::cuda
