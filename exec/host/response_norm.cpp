// Local response normalisation: all channels of some places at a time.
#include <algorithm>
#include <cmath>

#include "exec/host/graphs.hpp"
#include "exec/host/panel.hpp"

namespace exec::host {
namespace {

constexpr double kBase = 2, kAlpha = 1e-4, kBeta = 0.75;  // [alexnet] section 3.3

// Channels [first, last) from `before` channels before c to `after` behind it, of those that exist.
struct Around { std::int64_t first, last; };
Around around(const ResponseShape& s, std::int64_t c, std::int64_t before, std::int64_t after) {
  return {std::max<std::int64_t>(c - before, 0), std::min(c + after + 1, s.channels)};
}

// d^-0.75.
template <class T>
T power(T d) {
  const T root = std::sqrt(d);
  return T(1) / (root * std::sqrt(root));
}

template <class T>
struct Panels {
  Panels(const ResponseShape& s, Workspace ws) {
    for (T** p : {&x, &scale, &part}) *p = ws.take<T>(s.channels * kChunk);
    row = ws.take<T>(kChunk);
  }
  T *x, *scale, *part, *row;
};

// visit(first element of channel 0, places): blocks of every sample.
template <class Visit>
void for_blocks(const ResponseShape& s, Visit&& visit) {
  for (std::int64_t i = 0; i < s.samples; ++i)
    for_chunks(s.places, [&](std::int64_t c, std::int64_t m) {
      visit(i * s.channels * s.places + c, m);
    });
}

// p.x = the block's x; p.scale = its d.
template <class T>
void sums_of_squares(const ResponseShape& s, const View& x, std::int64_t m, Panels<T>& p) {
  const T share = static_cast<T>(kAlpha / static_cast<double>(s.window));
  for (std::int64_t c = 0; c < s.channels; ++c) load(x.at(c * s.places), m, p.x + c * kChunk);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    T* const d = p.scale + c * kChunk;
    std::fill_n(d, m, T(0));
    const Around seen = around(s, c, s.window / 2, (s.window - 1) / 2);
    for (std::int64_t j = seen.first; j < seen.last; ++j) {
      const T* const v = p.x + j * kChunk;
      for (std::int64_t i = 0; i < m; ++i) d[i] += v[i] * v[i];
    }
    for (std::int64_t i = 0; i < m; ++i) d[i] = static_cast<T>(kBase) + share * d[i];
  }
}

}  // namespace

void local_response_norm(View y, View x, const ResponseShape& s, Workspace ws) {
  with_compute_type(x.type, [&]<class T>() {
    Panels<T> p(s, ws);
    for_blocks(s, [&](std::int64_t at, std::int64_t m) {
      sums_of_squares(s, x.at(at), m, p);
      for (std::int64_t c = 0; c < s.channels; ++c) {
        const T *const v = p.x + c * kChunk, *const d = p.scale + c * kChunk;
        for (std::int64_t i = 0; i < m; ++i) p.row[i] = v[i] * power(d[i]);
        store(y.at(at + c * s.places), m, p.row);
      }
    });
  });
}

void local_response_norm_gradient(View dx, View dy, View x, const ResponseShape& s,
                                  bool accumulate, Workspace ws) {
  with_compute_type(dy.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const T factor = static_cast<T>(-2 * kBeta * kAlpha / static_cast<double>(s.window));
    for_blocks(s, [&](std::int64_t at, std::int64_t m) {
      sums_of_squares(s, x.at(at), m, p);
      // scale becomes dy d^-0.75, part dy x d^-1.75.
      for (std::int64_t c = 0; c < s.channels; ++c) {
        const T* const v = p.x + c * kChunk;
        T *const d = p.scale + c * kChunk, *const part = p.part + c * kChunk;
        load(dy.at(at + c * s.places), m, p.row);
        for (std::int64_t i = 0; i < m; ++i) {
          const T scaled = p.row[i] * power(d[i]);
          part[i] = scaled * v[i] / d[i];
          d[i] = scaled;
        }
      }
      for (std::int64_t c = 0; c < s.channels; ++c) {
        std::fill_n(p.row, m, T(0));
        const Around readers = around(s, c, (s.window - 1) / 2, s.window / 2);
        for (std::int64_t j = readers.first; j < readers.last; ++j)
          for (std::int64_t i = 0; i < m; ++i) p.row[i] += p.part[j * kChunk + i];
        const T *const v = p.x + c * kChunk, *const own = p.scale + c * kChunk;
        for (std::int64_t i = 0; i < m; ++i) p.row[i] = own[i] + factor * v[i] * p.row[i];
        give(dx.at(at + c * s.places), p.row, m, accumulate);
      }
    });
  });
}

core::Bytes local_response_workspace(core::DType activation, const ResponseShape& s) {
  const std::int64_t block = s.channels * kChunk;
  return panel_bytes(activation, block, block, block, kChunk);
}

}  // namespace exec::host
