// Batch normalisation over the samples of several ranks, from sums that these add up.
#include <algorithm>
#include <cmath>

#include "exec/host/channel_blocks.hpp"

namespace exec::host {
namespace {

struct Statistics { double count, mean, rstd; };

Statistics statistics(const View& sums, const ChannelShape& s, std::int64_t channel,
                      std::int64_t ranks, double epsilon) {
  const auto count = static_cast<double>(s.samples * s.places * ranks);
  const double mean = get<double>(sums, channel) / count;
  const double squares = get<double>(sums, s.channels + channel) / count;
  return {count, mean, 1 / std::sqrt(std::max(0.0, squares - mean * mean) + epsilon)};
}

void give_number(const View& to, std::int64_t at, double value, bool accumulate) {
  put(to, at, accumulate ? get<double>(to, at) + value : value);
}

}  // namespace

void channel_sums(View sums, View x, const ChannelShape& s) {
  with_compute_type(x.type, [&]<class T>() {
    T buffer[kChunk];
    for (std::int64_t c = 0; c < s.channels; ++c) {
      double sum = 0, squares = 0;
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, buffer);
        for (std::int64_t i = 0; i < m; ++i) {
          const auto each = static_cast<double>(v[i]);
          sum += each;
          squares += each * each;
        }
      });
      put(sums, c, sum);
      put(sums, s.channels + c, squares);
    }
  });
}

void channel_sums_gradient(View dx, View dsums, View x, const ChannelShape& s, bool accumulate) {
  with_compute_type(x.type, [&]<class T>() {
    T buffer[kChunk], out[kChunk];
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const double sum = get<double>(dsums, c), squares = get<double>(dsums, s.channels + c);
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, buffer);
        for (std::int64_t i = 0; i < m; ++i)
          out[i] = static_cast<T>(sum + 2 * static_cast<double>(v[i]) * squares);
        give_block(dx, at, m, out, accumulate);
      });
    }
  });
}

void channel_norm(View y, View x, View sums, View gamma, View beta, const ChannelShape& s,
                  std::int64_t ranks, double epsilon) {
  with_compute_type(x.type, [&]<class T>() {
    T buffer[kChunk], out[kChunk];
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const Statistics of = statistics(sums, s, c, ranks, epsilon);
      const T scale = static_cast<T>(of.rstd) * get<T>(gamma, c), b = get<T>(beta, c);
      const T mean = static_cast<T>(of.mean);
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, buffer);
        for (std::int64_t i = 0; i < m; ++i) out[i] = (v[i] - mean) * scale + b;
        store(y.at(at), m, out);
      });
    }
  });
}

// Of the mean m and the variance v: y = gamma (x - m) (v + epsilon)^-1/2 + beta, so d_m is -gamma
// rstd times the sum of d_y, and d_v is -gamma rstd^2 / 2 times that of d_y h. With m = sum / n and
// v = squares / n - m^2, d_squares is d_v / n and d_sum is (d_m - 2 m d_v) / n.
void channel_norm_gradient(View dx, View dsums, View dgamma, View dbeta, View dy, View x, View sums,
                           View gamma, const ChannelShape& s, std::int64_t ranks, double epsilon,
                           bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    T x_buffer[kChunk], dy_buffer[kChunk], out[kChunk];
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const Statistics of = statistics(sums, s, c, ranks, epsilon);
      const T mean = static_cast<T>(of.mean), rstd = static_cast<T>(of.rstd);
      const T scale = rstd * get<T>(gamma, c);
      double sum = 0, sum_h = 0;
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, x_buffer);
        const T* const d = read(dy.at(at), m, dy_buffer);
        for (std::int64_t i = 0; i < m; ++i) {
          sum += static_cast<double>(d[i]);
          sum_h += static_cast<double>(d[i] * ((v[i] - mean) * rstd));
          out[i] = scale * d[i];
        }
        give_block(dx, at, m, out, accumulate);
      });
      if (dgamma) put(dgamma, c, static_cast<T>(get<T>(dgamma, c) + static_cast<T>(sum_h)));
      if (dbeta) put(dbeta, c, static_cast<T>(get<T>(dbeta, c) + static_cast<T>(sum)));
      const double g = get<double>(gamma, c);
      const double d_mean = -g * of.rstd * sum, d_variance = -g * of.rstd * of.rstd * sum_h / 2;
      give_number(dsums, c, (d_mean - 2 * of.mean * d_variance) / of.count, accumulate);
      give_number(dsums, s.channels + c, d_variance / of.count, accumulate);
    }
  });
}

}  // namespace exec::host
