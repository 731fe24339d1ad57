// Batch normalisation: one channel of all samples at a time.
#include <cmath>

#include "exec/host/channel_blocks.hpp"
#include "exec/host/graphs.hpp"

namespace exec::host {
namespace {

struct Statistics { double mean, rstd; };

template <class T>
Statistics statistics(const View& x, const ChannelShape& s, std::int64_t channel, double epsilon) {
  T buffer[kChunk];
  const auto average = [&](auto&& of) {
    double sum = 0;
    for_blocks(s, channel, [&](std::int64_t at, std::int64_t m) {
      const T* const v = read(x.at(at), m, buffer);
      for (std::int64_t i = 0; i < m; ++i) sum += of(static_cast<double>(v[i]));
    });
    return sum / static_cast<double>(s.samples * s.places);
  };
  const double mean = average([](double v) { return v; });
  const double variance = average([&](double v) { return (v - mean) * (v - mean); });
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

}  // namespace

void batch_norm(View y, View x, View gamma, View beta, const ChannelShape& s, double epsilon) {
  with_compute_type(x.type, [&]<class T>() {
    T buffer[kChunk], out[kChunk];
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const Statistics of = statistics<T>(x, s, c, epsilon);
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

void batch_norm_gradient(View dx, View dgamma, View dbeta, View dy, View x, View gamma,
                         const ChannelShape& s, double epsilon, bool accumulate) {
  with_compute_type(dy.type, [&]<class T>() {
    T x_buffer[kChunk], dy_buffer[kChunk], out[kChunk];
    const auto count = static_cast<double>(s.samples * s.places);
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const Statistics of = statistics<T>(x, s, c, epsilon);
      const T mean = static_cast<T>(of.mean), rstd = static_cast<T>(of.rstd);
      double sum = 0, sum_h = 0;
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, x_buffer);
        const T* const d = read(dy.at(at), m, dy_buffer);
        for (std::int64_t i = 0; i < m; ++i) {
          sum += static_cast<double>(d[i]);
          sum_h += static_cast<double>(d[i] * ((v[i] - mean) * rstd));
        }
      });
      if (dgamma) put(dgamma, c, static_cast<T>(get<T>(dgamma, c) + static_cast<T>(sum_h)));
      if (dbeta) put(dbeta, c, static_cast<T>(get<T>(dbeta, c) + static_cast<T>(sum)));
      const T a = static_cast<T>(sum / count), b = static_cast<T>(sum_h / count);
      if (!dx) continue;               // nobody wants it
      const T scale = rstd * get<T>(gamma, c);
      for_blocks(s, c, [&](std::int64_t at, std::int64_t m) {
        const T* const v = read(x.at(at), m, x_buffer);
        const T* const d = read(dy.at(at), m, dy_buffer);
        for (std::int64_t i = 0; i < m; ++i)
          out[i] = scale * (d[i] - a - (v[i] - mean) * rstd * b);
        give_block(dx, at, m, out, accumulate);
      });
    }
  });
}

}  // namespace exec::host
