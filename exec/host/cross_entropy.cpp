#include <algorithm>
#include <limits>

#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {
namespace {

// Local columns that stand for classes.
std::int64_t valid_columns(const LogitShape& s) {
  return std::clamp<std::int64_t>(s.vocab - s.first_column, 0, s.columns);
}

// Local column of the row's target, or -1 when another shard holds it.
std::int64_t target_column(const View& targets, std::int64_t row, const LogitShape& s) {
  PLANNER_CHECK(targets.type == core::DType::i32, "targets are i32");
  const std::int64_t column = static_cast<const std::int32_t*>(targets.data)[row] - s.first_column;
  return column >= 0 && column < valid_columns(s) ? column : -1;
}

template <class T>
T row_max(const View& row, std::int64_t n) {
  T lane[kLanes];
  std::fill_n(lane, kLanes, -std::numeric_limits<T>::infinity());
  for_chunks(n, [&](std::int64_t c, std::int64_t m) {
    T buffer[kChunk];
    const T* const x = read(row.at(c), m, buffer);
    std::int64_t i = 0;
    for (; i + kLanes <= m; i += kLanes) {
      for (std::int64_t j = 0; j < kLanes; ++j) lane[j] = max_of(lane[j], x[i + j]);
    }
    for (; i < m; ++i) lane[0] = max_of(lane[0], x[i]);
  });
  T result = lane[0];
  for (const T v : lane) result = max_of(result, v);
  return result;
}

template <class T>
T row_exp_sum(const View& row, std::int64_t n, T max) {
  LaneSum<T> sum;
  for_chunks(n, [&](std::int64_t c, std::int64_t m) {
    T buffer[kChunk];
    const T* const x = read(row.at(c), m, buffer);
    sum.add(m, [&](std::int64_t i) { return exp_of(x[i] - max); });
  });
  return sum.value();
}

// The row becomes scale (softmax - onehot), 0 in padding.
template <class T>
void gradient_row(const View& row, const LogitShape& s, std::int64_t target, T max, T sum,
                  T scale) {
  const std::int64_t valid = valid_columns(s);
  const T logit = target >= 0 ? get<T>(row, target) : T(0);
  const T factor = scale / sum;
  elementwise<T>(valid, row, [=](T v) { return exp_of(v - max) * factor; }, row);
  if (target >= 0) put(row, target, (exp_of(logit - max) / sum - T(1)) * scale);
  if (valid < s.columns) fill_zero(row.at(valid), s.columns - valid);
}

}  // namespace

void softmax_max(View max, View logits, const LogitShape& s) {
  with_compute_type(logits.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      put(max, r, row_max<T>(logits.at(r * s.ld), valid_columns(s)));
    }
  });
}

void softmax_sum(View sums, View logits, View max, View targets, const LogitShape& s) {
  with_compute_type(logits.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const View row = logits.at(r * s.ld);
      const std::int64_t target = target_column(targets, r, s);
      put(sums, r, row_exp_sum(row, valid_columns(s), get<T>(max, r)));
      put(sums, s.rows + r, target >= 0 ? get<T>(row, target) : T(0));
    }
  });
}

void cross_entropy(double* loss, View logits, View max, View sums, View targets,
                   const LogitShape& s, const LossFactor& by) {
  const double of_gradient = by.more != nullptr ? by.scale * *by.more : by.scale;
  with_compute_type(logits.type, [&]<class T>() {
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const T top = get<T>(max, r), sum = get<T>(sums, r);
      const auto logit = static_cast<double>(get<T>(sums, s.rows + r));
      *loss += by.scale * (static_cast<double>(top) + std::log(static_cast<double>(sum)) - logit);
      gradient_row(logits.at(r * s.ld), s, target_column(targets, r, s), top, sum,
                   static_cast<T>(of_gradient));
    }
  });
}

void squared_error(double* loss, View y, View target, std::int64_t n, const LossFactor& by) {
  const double of_gradient = by.more != nullptr ? by.scale * *by.more : by.scale;
  with_compute_type(y.type, [&]<class T>() {
    for_chunks(n, [&](std::int64_t c, std::int64_t m) {
      T a_buffer[kChunk], b_buffer[kChunk];
      const T* const a = read(y.at(c), m, a_buffer);
      const T* const b = read(target.at(c), m, b_buffer);
      for (std::int64_t i = 0; i < m; ++i) {
        const auto d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        *loss += 0.5 * by.scale * d * d;
      }
    });
    const T factor = static_cast<T>(of_gradient);
    elementwise<T>(n, y, [=](T a, T b) { return factor * (a - b); }, y, target);
  });
}

}  // namespace exec::host
