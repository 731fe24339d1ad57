// The router of a mixture of experts. Whom a token chooses is what exec/host/experts.hpp says, for
// the same logits; gates that need a sum over all experts add it up in another order.
#include "exec/cuda/kernels/integers.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/warp_rows.cuh"

namespace exec::cuda {
namespace {

// The numbers of a routing, as a kernel takes them.
struct Routes {
  int64_t samples, tokens, rows;
  int experts, chosen, window;
  bool sigmoid, normalised, open;      // open: gates are a softmax of the chosen logits
  double scale;
  explicit Routes(const host::RoutingShape& s)
      : samples(s.samples), tokens(s.tokens), rows(s.rows()), experts(static_cast<int>(s.experts)),
        chosen(static_cast<int>(s.chosen)),
        window(static_cast<int>(models::routing_window(s.experts, s.chosen))),
        sigmoid(s.router.sigmoid), normalised(s.router.normalised),
        open(s.router.chosen_alone()), scale(s.router.scale) {}
  // The first copy of an expert among those of n tokens.
  PLANNER_DEVICE int64_t first_of(int64_t n, int64_t expert) const {
    return n * chosen * expert / experts;
  }
  PLANNER_DEVICE int64_t first(int64_t expert) const { return first_of(tokens, expert); }
  PLANNER_DEVICE int expert_at(int64_t place) const {
    int64_t e = place * experts / (rows * chosen);
    while (samples * first(e) > place) --e;
    while (samples * first(e + 1) <= place) ++e;
    return static_cast<int>(e);
  }
};

// An expert and its logit; none: -1.
template <class T>
struct Candidate { T logit; int expert; };
template <class T>
PLANNER_DEVICE bool better(const Candidate<T>& a, const Candidate<T>& b) {
  if (a.expert < 0 || b.expert < 0) return b.expert < 0 && a.expert >= 0;
  return a.logit > b.logit || (!(b.logit > a.logit) && a.expert < b.expert);
}

// By insertion: whatever the logits are, every expert stays in the list once.
template <class T>
PLANNER_DEVICE void sort_best_first(int* experts, const T* logits, int count) {
  for (int i = 1; i < count; ++i) {
    const Candidate<T> own{logits[experts[i]], experts[i]};
    int at = i;
    for (; at > 0 && better(own, Candidate<T>{logits[experts[at - 1]], experts[at - 1]}); --at)
      experts[at] = experts[at - 1];
    experts[at] = own.expert;
  }
}

// Scores of a row's logits, on every lane of a warp: their sigmoids, or a softmax over all.
template <class T>
struct Scores {
  bool sigmoid;
  T most, sum;
  template <class Logit>
  PLANNER_DEVICE Scores(const Routes& s, const Logit& logit)
      : sigmoid(s.sigmoid), most(T(0)), sum(T(1)) {
    if (sigmoid) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    most = -static_cast<T>(INFINITY);
    for (int e = lane; e < s.experts; e += 32) most = max_of(most, logit(e));
    most = over_warp(most, Greater{});
    sum = T(0);
    for (int e = lane; e < s.experts; e += 32) sum += exp_of(logit(e) - most);
    sum = over_warp(sum, Plus{});
  }
  PLANNER_DEVICE T of(T logit) const {
    return sigmoid ? logistic(logit) : exp_of(logit - most) / sum;
  }
};

// What a warp that routes keeps in shared memory, in this order: logits, then integers.
template <class T>
constexpr std::size_t route_bytes(const host::RoutingShape& s) {
  return static_cast<std::size_t>(s.experts + s.chosen) * sizeof(T) +
         static_cast<std::size_t>(3 * s.experts + s.chosen) * sizeof(int);
}

// Writes the gates of one token. A gate belongs to one of the experts that the token chose, whose
// logits are in `kept`, the largest first.
template <class A>
PLANNER_DEVICE void store_gates(A* gates, const Compute<A>* logits, const Compute<A>* kept,
                                const Routes& s) {
  using T = Compute<A>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (s.open) {
    T sum = T(0);
    for (int i = 0; i < s.chosen; ++i) sum += exp_of(kept[i] - kept[0]);
    for (int i = lane; i < s.chosen; i += 32) narrow(exp_of(kept[i] - kept[0]) / sum, gates[i]);
    return;
  }
  const Scores<T> scores(s, [&](int e) { return logits[e]; });
  T sum = T(0);
  for (int i = 0; i < s.chosen; ++i) sum += scores.of(kept[i]);
  const T factor = static_cast<T>(s.scale) / (s.normalised ? sum : T(1));
  for (int i = lane; i < s.chosen; i += 32) narrow(scores.of(kept[i]) * factor, gates[i]);
}

// One warp a window of one sample. Grid: {windows, samples}.
template <class A>
__global__ void route(A* gates, std::int32_t* places, const A* logits, Routes s) {
  using T = Compute<A>;
  PLANNER_SHARED(T, row);
  T* const kept = row + s.experts;     // logits of the token's experts, best first
  int* const room = reinterpret_cast<int*>(kept + s.chosen);
  int* const taken = room + s.experts;
  int* const picked = taken + s.experts;  // by expert: whether this token has it
  int* const found = picked + s.experts;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t sample = blockIdx.y, begin = static_cast<int64_t>(blockIdx.x) * s.window;
  const int tokens = static_cast<int>(smaller<int64_t>(s.window, s.tokens - begin));
  for (int e = lane; e < s.experts; e += 32) {
    room[e] = static_cast<int>(s.first_of(tokens, e + 1) - s.first_of(tokens, e));
    // Windows before were whole ones, of which each expert took as many.
    taken[e] = static_cast<int>(begin * s.chosen / s.experts);
    picked[e] = 0;
  }
  for (int t = 0; t < tokens; ++t) {
    const int64_t r = sample * s.tokens + begin + t;
    __syncwarp();
    for (int e = lane; e < s.experts; e += 32) row[e] = widen(logits[r * s.experts + e]);
    __syncwarp();
    int count = 0;
    for (int base = 0; base < s.experts; base += 32) {  // those that must be taken
      const int e = base + lane;
      const bool forced = e < s.experts && room[e] == tokens - t;
      const unsigned ballot = __ballot_sync(kAll, forced);
      if (forced) {
        found[count + __popc(ballot & ((1U << lane) - 1U))] = e;
        picked[e] = 1;
      }
      count += __popc(ballot);
    }
    __syncwarp();
    for (; count < s.chosen; ++count) {
      Candidate<T> best{T(0), -1};
      for (int e = lane; e < s.experts; e += 32) {
        const Candidate<T> own{row[e], e};
        if (room[e] > 0 && picked[e] == 0 && better(own, best)) best = own;
      }
      for (int mask = 16; mask > 0; mask /= 2) {
        const Candidate<T> other{__shfl_xor_sync(kAll, best.logit, mask),
                                 __shfl_xor_sync(kAll, best.expert, mask)};
        if (better(other, best)) best = other;
      }
      // Lanes may disagree where a logit is NaN.
      const int e = __shfl_sync(kAll, best.expert, 0);
      if (lane == 0) found[count] = e, picked[e] = 1;
      __syncwarp();
    }
    if (lane == 0) sort_best_first(found, row, s.chosen);
    __syncwarp();
    for (int i = lane; i < s.chosen; i += 32) kept[i] = row[found[i]];
    __syncwarp();
    store_gates(gates + r * s.chosen, row, kept, s);
    for (int i = lane; i < s.chosen; i += 32) {
      const int e = found[i];
      const int64_t first = s.first(e), quota = s.first(e + 1) - first;
      places[r * s.chosen + i] =
          static_cast<std::int32_t>(s.samples * first + sample * quota + taken[e]);
      ++taken[e], --room[e], picked[e] = 0;
    }
  }
}

// One warp a row. Of open gates: gate (dgate - sum of gate dgate); of scores a, with A their sum:
// gate = factor a / A or factor a, then the score's own derivative.
template <class A>
__global__ void route_gradient(A* dlogits, const A* dgates, const A* gates,
                               const std::int32_t* places, const A* logits, Routes s) {
  using T = Compute<A>;
  PLANNER_SHARED(T, memory);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  T* const by = memory + 2 * warp * s.chosen;  // gradient of each chosen one's logit
  T* const scores_of = by + s.chosen;
  int* const own = reinterpret_cast<int*>(memory + 2 * static_cast<int>(kRowsOfBlock) * s.chosen) +
                   warp * s.chosen;
  const int64_t r = own_row(s.rows);
  if (r < 0) return;
  for (int i = lane; i < s.chosen; i += 32) own[i] = s.expert_at(places[r * s.chosen + i]);
  __syncwarp();
  const auto gradient = [&](int i) { return widen(dgates[r * s.chosen + i]); };
  T all = T(0);
  if (s.open) {
    const auto gate = [&](int i) { return widen(gates[r * s.chosen + i]); };
    for (int i = 0; i < s.chosen; ++i) all += gate(i) * gradient(i);
    for (int i = lane; i < s.chosen; i += 32) by[i] = gate(i) * (gradient(i) - all);
    __syncwarp();
    for (int e = lane; e < s.experts; e += 32) {
      T d = T(0);
      for (int i = 0; i < s.chosen; ++i)
        if (own[i] == e) d = by[i];
      narrow(d, dlogits[r * s.experts + e]);
    }
    return;
  }
  const auto logit = [&](int e) { return widen(logits[r * s.experts + e]); };
  const Scores<T> scores(s, logit);
  const T factor = static_cast<T>(s.scale);
  for (int i = lane; i < s.chosen; i += 32) scores_of[i] = scores.of(logit(own[i]));
  __syncwarp();
  T sum = T(0), dot = T(0);
  for (int i = 0; i < s.chosen; ++i) {
    sum += scores_of[i];
    dot += scores_of[i] * gradient(i);
  }
  for (int i = lane; i < s.chosen; i += 32)
    by[i] = s.normalised ? factor / sum * (gradient(i) - dot / sum) : factor * gradient(i);
  __syncwarp();
  for (int i = 0; i < s.chosen; ++i) all += scores_of[i] * by[i];
  for (int e = lane; e < s.experts; e += 32) {
    T d = s.sigmoid ? T(0) : -scores.of(logit(e)) * all;
    for (int i = 0; i < s.chosen; ++i)
      if (own[i] == e)
        d = s.sigmoid ? by[i] * scores_of[i] * (T(1) - scores_of[i]) : scores_of[i] * (by[i] - all);
    narrow(d, dlogits[r * s.experts + e]);
  }
}

}  // namespace

void top_k(const Queue& q, View gates, View places, View logits, const host::RoutingShape& shape) {
  const Routes s(shape);
  with_type(one_type(gates, logits), [&]<class A>() {
    launch(q, "top_k", {blocks_of(s.tokens, s.window), static_cast<unsigned>(s.samples)}, {32},
           route_bytes<Compute<A>>(shape), route<A>, typed<A>(gates), integers(places),
           typed<A>(logits), s);
  });
}
void top_k_gradient(const Queue& q, View dlogits, View dgates, View gates, View places,
                    View logits, const host::RoutingShape& shape) {
  const Routes s(shape);
  with_type(one_type(dlogits, dgates, gates, logits), [&]<class A>() {
    const std::size_t each = 2 * sizeof(Compute<A>) + sizeof(int);
    launch(q, "top_k_gradient", {blocks_of(s.rows, kRowsOfBlock)}, {kRowThreads},
           kRowsOfBlock * static_cast<std::size_t>(s.chosen) * each, route_gradient<A>,
           typed<A>(dlogits), typed<A>(dgates), typed<A>(gates), integers(places),
           typed<A>(logits), s);
  });
}

}  // namespace exec::cuda
