// Losses. One block a row of logits, read in packs; what is kept of a row is its maximum, its sum
// of exponentials and its target's logit. The loss itself is a sum of these in f64, one block.
// Where a row fits in shared memory and nothing comes between, one kernel makes all of it and the
// gradient.
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kRowThreads = 512;  // two blocks of an H100 multiprocessor (GPT-2: 100 KB each)
constexpr unsigned kSumThreads = 1024;
constexpr std::size_t kStaticShared = 1024;  // of sums over a block, at most

// What of a vocabulary shard's row is real: columns [0, valid); packs of 16 bytes where all rows
// begin at such a boundary.
template <class A>
struct Logits {
  A* data;
  int64_t columns, ld, valid, first;
  PLANNER_DEVICE A* row(int64_t r) const { return data + r * ld; }
  PLANNER_EVERYWHERE bool wide() const { return ld % Pack<A>::kSize == 0 && aligned(data); }
  // Local column of a target, or -1 when another shard holds it.
  PLANNER_DEVICE int64_t column(std::int32_t target) const {
    const int64_t c = target - first;
    return c >= 0 && c < valid ? c : -1;
  }
};

template <class A, class Each>
PLANNER_DEVICE void for_row(int64_t n, Each each) {
  constexpr int kSize = Pack<A>::kSize;
  for (int64_t i = threadIdx.x * kSize; i < n; i += blockDim.x * kSize) each(i);
}

template <class A>
__global__ void row_max(Compute<A>* max, Logits<A> logits) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = blockIdx.x;
  T top = -static_cast<T>(INFINITY);
  for_row<A>(logits.valid, [&](int64_t i) {
    T v[kSize];
    load_pack(static_cast<const A*>(logits.row(r)), i, logits.valid, logits.wide(), v);
    for (int j = 0; j < kSize; ++j)
      if (i + j < logits.valid) top = max_of(top, v[j]);
  });
  top = over_block(top, Greater{});
  if (threadIdx.x == 0) max[r] = top;
}

template <class A>
__global__ void row_sum(Compute<A>* sums, Logits<A> logits, const Compute<A>* max,
                        const std::int32_t* targets, int64_t rows) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = blockIdx.x;
  const T top = max[r];
  T sum = T(0);
  for_row<A>(logits.valid, [&](int64_t i) {
    T v[kSize];
    load_pack(static_cast<const A*>(logits.row(r)), i, logits.valid, logits.wide(), v);
    for (int j = 0; j < kSize; ++j)
      if (i + j < logits.valid) sum += exp_from<A>(v[j] - top);
  });
  sum = over_block(sum, Plus{});
  if (threadIdx.x != 0) return;
  const int64_t target = logits.column(targets[r]);
  sums[r] = sum;
  sums[rows + r] = target >= 0 ? widen(logits.row(r)[target]) : T(0);
}

// Both at once: the row is read once, and what was added is scaled where the maximum grows.
template <class A>
__global__ void row_max_and_sum(Compute<A>* max, Compute<A>* sums, Logits<A> logits,
                                const std::int32_t* targets, int64_t rows) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = blockIdx.x;
  T top = -static_cast<T>(INFINITY), sum = T(0);
  for_row<A>(logits.valid, [&](int64_t i) {
    T v[kSize], most = top;
    load_pack(static_cast<const A*>(logits.row(r)), i, logits.valid, logits.wide(), v);
    for (int j = 0; j < kSize; ++j) {
      if (i + j >= logits.valid) v[j] = -static_cast<T>(INFINITY);
      most = max_of(most, v[j]);
    }
    if (most != top) {                 // also where either is no number
      sum *= exp_of(top - most);
      top = most;
    }
    for (int j = 0; j < kSize; ++j)
      if (v[j] != -static_cast<T>(INFINITY)) sum += exp_from<A>(v[j] - top);
  });
  const T all = over_block(top, Greater{});
  sum = over_block(top == all ? sum : sum * exp_of(top - all), Plus{});
  if (threadIdx.x != 0) return;
  const int64_t target = logits.column(targets[r]);
  max[r] = all;
  sums[r] = sum;
  sums[rows + r] = target >= 0 ? widen(logits.row(r)[target]) : T(0);
}

template <class T>
PLANNER_DEVICE T of_gradient(const host::LossFactor& by) {
  return static_cast<T>(by.more != nullptr ? by.scale * *by.more : by.scale);
}

// Logits become scale more (softmax - onehot), 0 in padding.
template <class A>
__global__ void row_gradient(Logits<A> logits, const Compute<A>* max, const Compute<A>* sums,
                             const std::int32_t* targets, host::LossFactor by) {
  using T = Compute<A>;
  const T scale = of_gradient<T>(by);
  constexpr int kSize = Pack<A>::kSize;
  const int64_t r = blockIdx.x;
  const T top = max[r], sum = sums[r], factor = scale / sum;
  const int64_t target = logits.column(targets[r]);
  for_row<A>(logits.columns, [&](int64_t i) {
    T v[kSize];
    load_pack(static_cast<const A*>(logits.row(r)), i, logits.columns, logits.wide(), v);
    for (int j = 0; j < kSize; ++j) {
      const T p = exp_from<A>(v[j] - top);
      v[j] = i + j == target ? (p / sum - T(1)) * scale : p * factor;
      if (i + j >= logits.valid) v[j] = T(0);
    }
    store_pack(logits.row(r), i, logits.columns, logits.wide(), v);
  });
}

// Maxima, sums and gradient of rows that are read once, and kept in shared memory. REQUIRES wide().
template <class A>
__global__ __launch_bounds__(kRowThreads) void row_loss(Compute<A>* max, Compute<A>* sums,
                                                       Logits<A> logits,
                                                       const std::int32_t* targets, int64_t rows,
                                                       host::LossFactor by) {
  using T = Compute<A>;
  constexpr int kSize = Pack<A>::kSize;
  PLANNER_SHARED(Pack<A>, kept);       // each thread reads what it wrote
  const int64_t r = blockIdx.x;
  A* const row = logits.row(r);
  const int threads = static_cast<int>(blockDim.x), valid = static_cast<int>(logits.valid);
  const int columns = static_cast<int>(logits.columns), packs = (columns + kSize - 1) / kSize;
  T top = -static_cast<T>(INFINITY);
  PLANNER_UNROLL_BY(4)
  for (int p = static_cast<int>(threadIdx.x); p < packs; p += threads) {
    const Pack<A> pack = reinterpret_cast<const Pack<A>*>(row)[p];
    kept[p] = pack;
    const int there = valid - p * kSize;
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j)
      if (j < there) top = max_of(top, widen(pack.v[j]));
  }
  top = over_block(top, Greater{});
  T sum = T(0);
  PLANNER_UNROLL_BY(2)
  for (int p = static_cast<int>(threadIdx.x); p < packs; p += threads) {
    const Pack<A> pack = kept[p];
    const int there = valid - p * kSize;
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j)
      if (j < there) sum += exp_from<A>(widen(pack.v[j]) - top);
  }
  sum = over_block(sum, Plus{});
  const auto target = static_cast<int>(logits.column(targets[r]));
  if (threadIdx.x == 0) {
    max[r] = top;
    sums[r] = sum;
    sums[rows + r] = target >= 0 ? widen(kept[target / kSize].v[target % kSize]) : T(0);
  }
  const T scale = of_gradient<T>(by), factor = scale / sum;
  PLANNER_UNROLL_BY(2)
  for (int p = static_cast<int>(threadIdx.x); p < packs; p += threads) {
    const Pack<A> pack = kept[p];
    const int i = p * kSize;
    T v[kSize];
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j) {
      const T e = exp_from<A>(widen(pack.v[j]) - top);
      v[j] = i + j >= valid ? T(0) : i + j == target ? (e / sum - T(1)) * scale : e * factor;
    }
    store_pack(row, i, columns, true, v);
  }
}

// *loss += scale sum over rows of (max + log sum - target logit); one block.
template <class T>
__global__ void add_loss(double* loss, const T* max, const T* sums, int64_t rows, double scale) {
  double sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
    sum += static_cast<double>(max[r]) + log_of(static_cast<double>(sums[r])) -
           static_cast<double>(sums[rows + r]);
  sum = over_block(sum, Plus{});
  if (threadIdx.x == 0) *loss += scale * sum;
}

// *loss += scale/2 |y - target|^2, then y becomes scale more (y - target); one block.
template <class A>
__global__ void squared(double* loss, A* y, const A* target, int64_t n, host::LossFactor by) {
  const Compute<A> scale = of_gradient<Compute<A>>(by);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const Compute<A> a = widen(y[i]), b = widen(target[i]);
    const double d = static_cast<double>(a) - static_cast<double>(b);
    sum += d * d;
    narrow(scale * (a - b), y[i]);
  }
  sum = over_block(sum, Plus{});
  if (threadIdx.x == 0) *loss += 0.5 * by.scale * sum;
}

template <class A>
Logits<A> shard(const View& logits, const host::LogitShape& s) {
  int64_t valid = s.vocab - s.first_column;
  valid = valid < 0 ? 0 : valid < s.columns ? valid : s.columns;
  return {typed<A>(logits), s.columns, s.ld, valid, s.first_column};
}

template <class T>
void add_losses(const Queue& q, double* loss, View max, View sums, int64_t rows, double scale) {
  launch(q, "cross_entropy_loss", {1}, {kSumThreads}, 0, add_loss<T>, loss, typed<T>(max),
         typed<T>(sums), rows, scale);
}

const std::int32_t* indices(const View& v) {
  PLANNER_CHECK(v.type == core::DType::i32, "targets are i32");
  return static_cast<const std::int32_t*>(v.data);
}

}  // namespace

void softmax_max(const Queue& q, View max, View logits, const host::LogitShape& s) {
  with_type(logits.type, [&]<class A>() {
    check_statistics(logits.type, max);
    launch(q, "softmax_max", {blocks_of(s.rows, 1)}, {kThreads}, 0, row_max<A>,
           typed<Compute<A>>(max), shard<A>(logits, s));
  });
}
void softmax_sum(const Queue& q, View sums, View logits, View max, View targets,
                 const host::LogitShape& s) {
  with_type(logits.type, [&]<class A>() {
    check_statistics(logits.type, max, sums);
    launch(q, "softmax_sum", {blocks_of(s.rows, 1)}, {kThreads}, 0, row_sum<A>,
           typed<Compute<A>>(sums), shard<A>(logits, s), typed<Compute<A>>(max), indices(targets),
           s.rows);
  });
}
void softmax_max_and_sum(const Queue& q, View max, View sums, View logits, View targets,
                         const host::LogitShape& s) {
  with_type(logits.type, [&]<class A>() {
    check_statistics(logits.type, max, sums);
    launch(q, "softmax_max_and_sum", {blocks_of(s.rows, 1)}, {kThreads}, 0, row_max_and_sum<A>,
           typed<Compute<A>>(max), typed<Compute<A>>(sums), shard<A>(logits, s), indices(targets),
           s.rows);
  });
}
bool softmax_and_cross_entropy(const Queue& q, double* loss, View logits, View max, View sums,
                               View targets, const host::LogitShape& s,
                               const host::LossFactor& by) {
  bool launched = false;
  with_type(logits.type, [&]<class A>() {
    using T = Compute<A>;
    check_statistics(logits.type, max, sums);
    const Logits<A> rows = shard<A>(logits, s);
    const std::size_t bytes = static_cast<std::size_t>(blocks_of(s.columns, Pack<A>::kSize)) * 16;
    if (!rows.wide() || bytes + kStaticShared > q.api.device().shared_per_block) return;
    launched = true;
    launch(q, "softmax_and_cross_entropy", {blocks_of(s.rows, 1)}, {kRowThreads}, bytes,
           row_loss<A>, typed<T>(max), typed<T>(sums), rows, indices(targets), s.rows, by);
    add_losses<T>(q, loss, max, sums, s.rows, by.scale);
  });
  return launched;
}
void cross_entropy(const Queue& q, double* loss, View logits, View max, View sums, View targets,
                   const host::LogitShape& s, const host::LossFactor& by) {
  with_type(logits.type, [&]<class A>() {
    using T = Compute<A>;
    check_statistics(logits.type, max, sums);
    add_losses<T>(q, loss, max, sums, s.rows, by.scale);
    launch(q, "cross_entropy", {blocks_of(s.rows, 1)}, {kThreads}, 0, row_gradient<A>,
           shard<A>(logits, s), typed<T>(max), typed<T>(sums), indices(targets), by);
  });
}
void squared_error(const Queue& q, double* loss, View y, View target, int64_t n,
                   const host::LossFactor& by) {
  with_type(one_type(y, target), [&]<class A>() {
    launch(q, "squared_error", {1}, {kThreads}, 0, squared<A>, loss, typed<A>(y),
           typed<A>(target), n, by);
  });
}

}  // namespace exec::cuda
