#include "exec/host/experts.hpp"

#include <algorithm>

#include "exec/host/kernels.hpp"
#include "exec/host/row_sum.hpp"

namespace exec::host {
namespace {

std::int32_t* integers(const View& v) {
  PLANNER_CHECK(v.type == core::DType::i32, "places are i32");
  return static_cast<std::int32_t*>(v.data);
}

// The experts of one token: those that must be taken, then the best that have room, best first.
template <class T>
void choose(const T* logits, const std::int64_t* room, std::int64_t left, const RoutingShape& s,
            std::int64_t* chosen) {
  std::int64_t count = 0;
  const auto taken = [&](std::int64_t e) {
    return std::find(chosen, chosen + count, e) != chosen + count;
  };
  for (std::int64_t e = 0; e < s.experts; ++e)
    if (room[e] == left) chosen[count++] = e;
  while (count < s.chosen) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < s.experts; ++e)
      if (room[e] > 0 && !taken(e) && (best < 0 || logits[e] > logits[best])) best = e;
    PLANNER_CHECK(best >= 0, "a token without an expert");
    chosen[count++] = best;
  }
  std::sort(chosen, chosen + count, [&](std::int64_t a, std::int64_t b) {
    return logits[a] > logits[b] || (!(logits[b] > logits[a]) && a < b);
  });
}

// The expert of a place.
std::int64_t expert_at(std::int64_t place, const RoutingShape& s) {
  std::int64_t e = place * s.experts / (s.rows() * s.chosen);
  while (s.samples * s.first(e) > place) --e;
  while (s.samples * s.first(e + 1) <= place) ++e;
  return e;
}

// gates = softmax of the chosen logits.
template <class T>
void open_gates(const View& gates, const T* logits, const std::int64_t* chosen,
                std::int64_t count) {
  T sum{};
  const T most = logits[chosen[0]];
  for (std::int64_t i = 0; i < count; ++i) sum += exp_of(logits[chosen[i]] - most);
  for (std::int64_t i = 0; i < count; ++i)
    put<T>(gates, i, exp_of(logits[chosen[i]] - most) / sum);
}

// Scores of a row's logits: their sigmoids, or a softmax over all of them.
template <class T>
class Scores {
 public:
  Scores(const View& logits, const RoutingShape& s) : logits_(logits), sigmoid_(s.router.sigmoid) {
    if (sigmoid_) return;
    most_ = get<T>(logits, 0);
    for (std::int64_t e = 1; e < s.experts; ++e) most_ = std::max(most_, get<T>(logits, e));
    for (std::int64_t e = 0; e < s.experts; ++e) sum_ += exp_of(get<T>(logits, e) - most_);
  }
  T of(std::int64_t expert) const {
    const T logit = get<T>(logits_, expert);
    return sigmoid_ ? logistic(logit) : exp_of(logit - most_) / sum_;
  }

 private:
  View logits_;
  bool sigmoid_;
  T most_{}, sum_{};
};

// gates = scores of the chosen ones, over their sum where they are normalised, times a factor.
template <class T>
void open_scored(const View& gates, const View& logits, const std::int64_t* chosen,
                 const RoutingShape& s) {
  const Scores<T> scores(logits, s);
  T sum{};
  for (std::int64_t i = 0; i < s.chosen; ++i) sum += scores.of(chosen[i]);
  const T factor = static_cast<T>(s.router.scale) / (s.router.normalised ? sum : T(1));
  for (std::int64_t i = 0; i < s.chosen; ++i) put<T>(gates, i, scores.of(chosen[i]) * factor);
}

// body(first row, rows, expert) for each block of rows of one origin and expert.
template <class Body>
void for_blocks(const ExpertShape& s, Body&& body) {
  const std::int64_t each = s.rows / s.origins;
  for (std::int64_t o = 0; o < s.origins; ++o)
    for (std::int64_t e = 0; e < s.experts; ++e) {
      const std::int64_t first = each * e / s.experts, end = each * (e + 1) / s.experts;
      if (end > first)
        body(s.samples * (o * each + first), s.samples * (end - first), e);
    }
}

LinearShape product(const ExpertShape& s, std::int64_t rows) { return {rows, s.n, s.k, s.n, s.k}; }

}  // namespace

void top_k(View gates, View places, View logits, const RoutingShape& s, Workspace ws) {
  auto* const room = ws.take<std::int64_t>(s.experts);
  auto* const taken = ws.take<std::int64_t>(s.experts);
  auto* const chosen = ws.take<std::int64_t>(s.chosen);
  const std::int64_t window = models::routing_window(s.experts, s.chosen);
  std::int32_t* const place = integers(places);
  with_compute_type(logits.type, [&]<class T>() {
    T* const row = ws.take<T>(s.experts);
    for (std::int64_t sample = 0; sample < s.samples; ++sample) {
      std::fill_n(taken, s.experts, 0);
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        const std::int64_t r = sample * s.tokens + t, in_window = t % window;
        const std::int64_t tokens = std::min(window, s.tokens - t + in_window);
        for (std::int64_t e = 0; e < s.experts && in_window == 0; ++e)
          room[e] = s.first_of(tokens, e + 1) - s.first_of(tokens, e);
        load(logits.at(r * s.experts), s.experts, row);
        choose(row, room, tokens - in_window, s, chosen);
        if (s.router.chosen_alone())
          open_gates(gates.at(r * s.chosen), row, chosen, s.chosen);
        else
          open_scored<T>(gates.at(r * s.chosen), logits.at(r * s.experts), chosen, s);
        for (std::int64_t i = 0; i < s.chosen; ++i) {
          const std::int64_t e = chosen[i], first = s.first(e), quota = s.first(e + 1) - first;
          place[r * s.chosen + i] =
              static_cast<std::int32_t>(s.samples * first + sample * quota + taken[e]++);
          --room[e];
        }
      }
    }
  });
}

core::Bytes top_k_workspace(const RoutingShape& s) {
  return Workspace::room<std::int64_t>(s.experts) + Workspace::room<std::int64_t>(s.experts) +
         Workspace::room<std::int64_t>(s.chosen) + Workspace::room<double>(s.experts);
}

// With scores a of the chosen ones, A their sum: gate = factor a / A, or factor a. Then the score's
// own derivative: a (1 - a) of a sigmoid; of a softmax every logit of the row takes part.
template <class T>
static void scored_gradient(const View& dlogits, const View& dgates, const View& logits,
                            const std::int32_t* place, const RoutingShape& s) {
  const Scores<T> scores(logits, s);
  const auto factor = static_cast<T>(s.router.scale);
  const auto score = [&](std::int64_t i) { return scores.of(expert_at(place[i], s)); };
  T sum{}, dot{}, all{};
  for (std::int64_t i = 0; i < s.chosen; ++i) {
    sum += score(i);
    dot += score(i) * get<T>(dgates, i);
  }
  const auto by_score = [&](std::int64_t i) {
    const T d = get<T>(dgates, i);
    return s.router.normalised ? factor / sum * (d - dot / sum) : factor * d;
  };
  for (std::int64_t i = 0; i < s.chosen; ++i) all += score(i) * by_score(i);
  for (std::int64_t e = 0; e < s.experts; ++e)
    put<T>(dlogits, e, s.router.sigmoid ? T(0) : -scores.of(e) * all);
  for (std::int64_t i = 0; i < s.chosen; ++i) {
    const std::int64_t e = expert_at(place[i], s);
    const T a = score(i), d = by_score(i);
    put<T>(dlogits, e, s.router.sigmoid ? d * a * (T(1) - a) : a * (d - all));
  }
}

void top_k_gradient(View dlogits, View dgates, View gates, View places, View logits,
                    const RoutingShape& s) {
  const std::int32_t* const place = integers(places);
  if (!s.router.chosen_alone())
    return with_compute_type(dgates.type, [&]<class T>() {
      for (std::int64_t r = 0; r < s.rows(); ++r)
        scored_gradient<T>(dlogits.at(r * s.experts), dgates.at(r * s.chosen),
                           logits.at(r * s.experts), place + r * s.chosen, s);
    });
  with_compute_type(dgates.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows(); ++r) {
      T sum{};
      for (std::int64_t i = 0; i < s.chosen; ++i)
        sum += get<T>(gates, r * s.chosen + i) * get<T>(dgates, r * s.chosen + i);
      fill_zero(dlogits.at(r * s.experts), s.experts);
      for (std::int64_t i = 0; i < s.chosen; ++i) {
        const std::int64_t at = r * s.chosen + i;
        put<T>(dlogits, r * s.experts + expert_at(place[at], s),
               get<T>(gates, at) * (get<T>(dgates, at) - sum));
      }
    }
  });
}

void dispatch(View y, View x, View places, const CopyShape& s) {
  const std::int32_t* const place = integers(places);
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t i = 0; i < s.chosen; ++i)
      cast(y.at(place[r * s.chosen + i] * s.n), x.at(r * s.n), s.n);
}

void dispatch_gradient(View dx, View dy, View places, const CopyShape& s, bool accumulate) {
  const std::int32_t* const place = integers(places);
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r)
      for_chunks(s.n, [&](std::int64_t c, std::int64_t m) {
        T sum[kChunk] = {}, buffer[kChunk];
        for (std::int64_t i = 0; i < s.chosen; ++i) {
          const T* const d = read(dy.at(place[r * s.chosen + i] * s.n + c), m, buffer);
          for (std::int64_t j = 0; j < m; ++j) sum[j] += d[j];
        }
        const View out = dx.at(r * s.n + c);
        if (accumulate) {
          const T* const before = read(out, m, buffer);
          for (std::int64_t j = 0; j < m; ++j) sum[j] += before[j];
        }
        store(out, m, sum);
      });
  });
}

void combine(View y, View x, View gates, View places, const CopyShape& s) {
  const std::int32_t* const place = integers(places);
  with_compute_type(y.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r)
      for_chunks(s.n, [&](std::int64_t c, std::int64_t m) {
        T sum[kChunk] = {}, buffer[kChunk];
        for (std::int64_t i = 0; i < s.chosen; ++i) {
          const std::int64_t at = r * s.chosen + i;
          const T gate = s.weighs ? get<T>(gates, at) : T(1);
          const T* const v = read(x.at(place[at] * s.n + c), m, buffer);
          for (std::int64_t j = 0; j < m; ++j) sum[j] += gate * v[j];
        }
        store(y.at(r * s.n + c), m, sum);
      });
  });
}

void combine_gradient(View dx, View dgates, View dy, View x, View gates, View places,
                      const CopyShape& s) {
  const std::int32_t* const place = integers(places);
  with_compute_type(dy.type, [&]<class T>() {
    for (std::int64_t at = 0; at < s.rows * s.chosen; ++at) {
      const View d = dy.at(at / s.chosen * s.n), row = x.at(place[at] * s.n);
      const T gate = s.weighs ? get<T>(gates, at) : T(1);
      elementwise<T>(s.n, dx.at(place[at] * s.n), [gate](T v) { return gate * v; }, d);
      const T dot = row_sum<T>(s.n, [](T a, T b) { return a * b; }, row, d);
      put<T>(dgates, at, s.weighs ? dot : T(0));
    }
  });
}

void expert_linear(View y, View x, View w, View b, const ExpertShape& s, Workspace ws) {
  for_blocks(s, [&](std::int64_t first, std::int64_t rows, std::int64_t e) {
    linear(y.at(first * s.n), x.at(first * s.k), w.at(e * s.n * s.k), {}, product(s, rows), false,
           ws);
    const View to = y.at(first * s.n + s.first_biased);
    if (b) bias_add(to, to, b.at(e * s.bias_ld), rows, s.biased, s.n);
  });
}

void expert_linear_input_gradient(View dx, View dy, View w, const ExpertShape& s, bool accumulate,
                                  Workspace ws) {
  for_blocks(s, [&](std::int64_t first, std::int64_t rows, std::int64_t e) {
    linear_input_gradient(dx.at(first * s.k), dy.at(first * s.n), w.at(e * s.n * s.k),
                          product(s, rows), accumulate, ws);
  });
}

void expert_linear_weight_gradient(View dw, View dy, View x, const ExpertShape& s, Workspace ws) {
  for_blocks(s, [&](std::int64_t first, std::int64_t rows, std::int64_t e) {
    linear_weight_gradient(dw.at(e * s.n * s.k), dy.at(first * s.n), x.at(first * s.k),
                           product(s, rows), ws);
  });
}

void expert_bias_gradient(View db, View dy, const ExpertShape& s) {
  for_blocks(s, [&](std::int64_t first, std::int64_t rows, std::int64_t e) {
    bias_gradient(db.at(e * s.bias_ld), dy.at(first * s.n + s.first_biased), rows, s.biased, s.n);
  });
}

core::Bytes expert_linear_workspace(core::DType activation, const ExpertShape& s) {
  const std::int64_t most = (s.rows / s.origins + s.experts - 1) / s.experts * s.samples;
  return linear_workspace(activation, product(s, most));
}

}  // namespace exec::host
