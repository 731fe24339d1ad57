// Optimizers of operands of any type: one thread an element (adam8bit: one block a block of 256).
// The rules are those of exec/host/optimizers.cpp.
#include <algorithm>
#include <vector>

#include "exec/cuda/kernels/optimizer.cuh"

namespace exec::cuda {
namespace {

template <class T>
__global__ void update_elements(Update u, Factors<T> f, int slots) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= u.n || u.skipped()) return;
  read_step(u, f);
  T s[3] = {};
  for (int k = 0; k < slots; ++k) s[k] = load_real<T>(u.slot[k], i);
  const T w = load_real<T>(u.master.data != nullptr ? u.master : u.weight, i);
  const T g = load_real<T>(u.gradient, i) * gradient_factor<T>(u);
  store_weight(u, i, stepped(u.kind, u.decays, f, w, g, s));
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
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kUpdateThreads + threadIdx.x;
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
    const float g = load_real<float>(u.gradient, i) * gradient_factor<float>(u);
    changed = stepped(u.kind, u.decays, f, w, g, s);
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

// partial[block] = sum of squares of its strided packs; then one block adds them.
template <class A>
__global__ void squares(double* partial, const A* x, int64_t n) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x * kSize;
  const bool wide = aligned(x);
  double sum = 0;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize; i < n;
       i += all) {
    Compute<A> v[kSize];
    load_pack(x, i, n, wide, v);
    for (int j = 0; j < kSize; ++j) sum += static_cast<double>(v[j]) * static_cast<double>(v[j]);
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

static void update_alone(const Queue& q, const Update& u, const Hyper& hyper,
                         const StepNumbers& numbers, int slots, const float* maps) {
  const Extent grid{blocks_of(u.n, kUpdateThreads)};
  if (u.kind == OptimizerKind::adam8bit) {
    static_assert(kUpdateThreads == host::kQuantBlock);
    launch(q, "adam8bit", grid, {kUpdateThreads}, 0, update_codes, u,
           factors<float>(hyper, numbers), maps);
    return;
  }
  const Real& own = u.master.data != nullptr ? u.master : u.weight;
  if (own.type == core::DType::f64)
    launch(q, "update", grid, {kUpdateThreads}, 0, update_elements<double>, u,
           factors<double>(hyper, numbers), slots);
  else
    launch(q, "update", grid, {kUpdateThreads}, 0, update_elements<float>, u,
           factors<float>(hyper, numbers), slots);
}

void update(const Queue& q, OptimizerKind kind, const Hyper& hyper, int64_t step_number,
            std::span<const ParameterUpdate> all, const float* maps, std::uint64_t stochastic,
            const StepNumbers* now) {
  const StepNumbers numbers = step_numbers(hyper, step_number, stochastic);
  std::vector<Update> run;             // of the next launch
  const auto give = [&] {
    if (!run.empty()) eights(q, run, factors<float>(hyper, numbers));
    run.clear();
  };
  for (const auto& [p, slots] : all) {
    PLANNER_CHECK(slots.size() <= 4, "at most four slots");
    if (p.n == 0) continue;
    Update u{real(p.weight), real(p.master), real(p.gradient), {}, p.n,
             kind,           p.decays,       numbers.seed,     now, p.squares, p.clip,
             p.loss_scale};
    for (std::size_t k = 0; k < slots.size(); ++k) u.slot[k] = real(slots[k]);
    if (!has_eights(u)) {
      give();
      update_alone(q, u, hyper, numbers, static_cast<int>(slots.size()), maps);
      continue;
    }
    if (!run.empty() && (run.size() == kMostUpdates || !alike(run.front(), u))) give();
    run.push_back(u);
  }
  give();
}

void step_loss_scale(const Queue& q, host::LossScaleState* state, const double* squares,
                     const host::LossScaleRule& rule) {
  launch(q, "scale_step", {1}, {1}, 0, scale_step, state, squares, rule);
}

void add_squares(const Queue& q, double* sum, View x, int64_t n) {
  const int64_t most = 4 * static_cast<int64_t>(q.multiprocessors);
  const int64_t blocks = std::min<int64_t>(blocks_of(n, kUpdateThreads), most);
  if (blocks == 0) return;
  auto* const partial = q.take<double>(blocks);
  with_type(x.type, [&]<class A>() {
    launch(q, "squares", {static_cast<unsigned>(blocks)}, {kUpdateThreads}, 0, squares<A>, partial,
           typed<A>(x), n);
  });
  launch(q, "add_partials", {1}, {kUpdateThreads}, 0, add_partials, sum,
         static_cast<const double*>(partial), static_cast<int>(blocks));
}

}  // namespace exec::cuda
