// Convolutions as matrix products of their windows, a block of places of one sample and group at a
// time: shapes of products depend on the sample alone, never on the batch.
#include <algorithm>

#include "exec/host/gemm.hpp"
#include "exec/host/graphs.hpp"
#include "exec/host/panel.hpp"
#include "exec/host/row_sum.hpp"

namespace exec::host {
namespace {

constexpr std::int64_t kPlaces = 4096;  // of a block, and at least one row of them

std::int64_t block_rows(const ConvolutionShape& s) {
  return std::clamp<std::int64_t>(kPlaces / s.x.out_width(), 1, s.x.out_height());
}

// Rows [first, last) of the result's places.
struct Block {
  std::int64_t first, last, width;
  std::int64_t begin() const { return first * width; }
  std::int64_t places() const { return (last - first) * width; }
};

template <class Body>
void for_blocks(const ConvolutionShape& s, Body&& body) {
  const std::int64_t rows = s.x.out_height(), each = block_rows(s);
  for (std::int64_t first = 0; first < rows; first += each)
    body(Block{first, std::min(first + each, rows), s.x.out_width()});
}

// visit(element of the group's planes, element of the windows [k, places], count): the block's
// windows in runs of a row, a stride apart in the planes; padding(element of the windows, count).
template <class Visit, class Padding>
void for_runs(const ConvolutionShape& s, const Block& b, Visit&& visit, Padding&& padding) {
  const WindowShape& x = s.x;
  const std::int64_t stride = x.stride.width, padding_left = x.padding.width;
  for (std::int64_t k = 0; k < s.k(); ++k) {
    const std::int64_t column = k % x.kernel.width, row = k / x.kernel.width % x.kernel.height;
    const std::int64_t plane = k / x.kernel.area() * x.plane();
    // Places whose column lies in the image: first <= place < last.
    const std::int64_t first =
        std::clamp<std::int64_t>((padding_left - column + stride - 1) / stride, 0, b.width);
    const std::int64_t beyond = x.width + padding_left - column;
    const std::int64_t last =
        beyond <= 0 ? first : std::clamp((beyond + stride - 1) / stride, first, b.width);
    for (std::int64_t i = b.first; i < b.last; ++i) {
      const std::int64_t y = i * x.stride.height - x.padding.height + row;
      const std::int64_t to = k * b.places() + (i - b.first) * b.width;
      if (y < 0 || y >= x.height) {
        padding(to, b.width);
        continue;
      }
      padding(to, first);
      if (last > first)
        visit(plane + y * x.width + first * stride - padding_left + column, to + first,
              last - first);
      padding(to + last, b.width - last);
    }
  }
}

template <class T>
void gather(const ConvolutionShape& s, const Block& b, const T* x, T* windows) {
  const std::int64_t stride = s.x.stride.width;
  for_runs(
      s, b,
      [&](std::int64_t from, std::int64_t to, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) windows[to + i] = x[from + i * stride];
      },
      [&](std::int64_t to, std::int64_t n) { std::fill_n(windows + to, n, T(0)); });
}

template <class T>
void scatter(const ConvolutionShape& s, const Block& b, const T* windows, T* x) {
  const std::int64_t stride = s.x.stride.width;
  for_runs(
      s, b,
      [&](std::int64_t to, std::int64_t from, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) x[to + i * stride] += windows[from + i];
      },
      [](std::int64_t, std::int64_t) {});
}

template <class T>
struct Panels {
  Panels(const ConvolutionShape& s, Workspace ws) {
    const std::int64_t places = block_rows(s) * s.x.out_width();
    windows = ws.take<T>(s.k() * places);
    out = ws.take<T>(s.n() * places);
    image = ws.take<T>(s.inputs() * s.x.plane());
    weights = ws.take<T>(s.n() * s.k());
  }
  T *windows, *out, *image, *weights;
};

// A matrix [rows of it, block.places()] of T, in place or copied.
template <class T>
struct Rows { const T* data; std::int64_t ld; };

// dy of one sample and group in the block's places.
template <class T>
Rows<T> result_rows(const ConvolutionShape& s, const Block& b, const View& dy, T* buffer) {
  const std::int64_t all = s.x.places(), n = b.places();
  if (dy.type == dtype_of<T>()) return {static_cast<const T*>(dy.at(b.begin()).data), all};
  for (std::int64_t c = 0; c < s.n(); ++c) load(dy.at(c * all + b.begin()), n, buffer + c * n);
  return {buffer, n};
}

// body(where the group of the sample begins in x, the same in y).
View image_of(const ConvolutionShape& s, const View& x, std::int64_t sample, std::int64_t group) {
  return x.at((sample * s.x.channels + group * s.inputs()) * s.x.plane());
}
View result_of(const ConvolutionShape& s, const View& y, std::int64_t sample, std::int64_t group) {
  return y.at((sample * s.outputs + group * s.n()) * s.x.places());
}

template <class T>
void finish_results(const ConvolutionShape& s, const Block& b, T* out, const View& y,
                    const View& bias) {
  const std::int64_t n = b.places();
  for (std::int64_t c = 0; c < s.n(); ++c) {
    T* const row = out + c * n;
    if (bias) {
      const T each = get<T>(bias, c);
      for (std::int64_t i = 0; i < n; ++i) row[i] += each;
    }
    store(y.at(c * s.x.places() + b.begin()), n, row);
  }
}

}  // namespace

void convolution(View y, View x, View w, View bias, const ConvolutionShape& s, Workspace ws) {
  with_compute_type(y.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const std::int64_t n = s.n(), k = s.k(), pixels = s.inputs() * s.x.plane();
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const T* const weights = read(w.at(g * n * k), n * k, p.weights);
      for (std::int64_t i = 0; i < s.x.samples; ++i) {
        const T* const image = read(image_of(s, x, i, g), pixels, p.image);
        for_blocks(s, [&](const Block& b) {
          const std::int64_t m = b.places();
          gather(s, b, image, p.windows);
          gemm(false, false, n, m, k, T(1), weights, k, p.windows, m, T(0), p.out, m);
          finish_results(s, b, p.out, result_of(s, y, i, g), bias ? bias.at(g * n) : bias);
        });
      }
    }
  });
}

void convolution_input_gradient(View dx, View dy, View w, const ConvolutionShape& s,
                                bool accumulate, Workspace ws) {
  with_compute_type(dy.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const std::int64_t n = s.n(), k = s.k(), pixels = s.inputs() * s.x.plane();
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const T* const weights = read(w.at(g * n * k), n * k, p.weights);
      for (std::int64_t i = 0; i < s.x.samples; ++i) {
        std::fill_n(p.image, pixels, T(0));
        for_blocks(s, [&](const Block& b) {
          const Rows<T> d = result_rows(s, b, result_of(s, dy, i, g), p.out);
          gemm(true, false, k, b.places(), n, T(1), weights, k, d.data, d.ld, T(0), p.windows,
               b.places());
          scatter(s, b, p.windows, p.image);
        });
        give(image_of(s, dx, i, g), p.image, pixels, accumulate);
      }
    }
  });
}

void convolution_weight_gradient(View dw, View db, View dy, View x, const ConvolutionShape& s,
                                 Workspace ws) {
  with_compute_type(dy.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const std::int64_t n = s.n(), k = s.k(), pixels = s.inputs() * s.x.plane();
    for (std::int64_t g = 0; g < s.groups; ++g) {
      load(dw.at(g * n * k), n * k, p.weights);
      for (std::int64_t i = 0; i < s.x.samples; ++i) {
        const T* const image = read(image_of(s, x, i, g), pixels, p.image);
        for_blocks(s, [&](const Block& b) {
          gather(s, b, image, p.windows);
          const Rows<T> d = result_rows(s, b, result_of(s, dy, i, g), p.out);
          gemm(false, true, n, k, b.places(), T(1), d.data, d.ld, p.windows, b.places(), T(1),
               p.weights, k);
        });
      }
      store(dw.at(g * n * k), n * k, p.weights);
    }
    for (std::int64_t c = 0; db && c < s.outputs; ++c) {
      T sum = get<T>(db, c);
      for (std::int64_t i = 0; i < s.x.samples; ++i)
        sum += row_sum<T>(s.x.places(), [](T d) { return d; },
                          dy.at((i * s.outputs + c) * s.x.places()));
      put(db, c, sum);
    }
  });
}

core::Bytes convolution_workspace(core::DType activation, const ConvolutionShape& s) {
  const std::int64_t places = block_rows(s) * s.x.out_width();
  return panel_bytes(activation, s.k() * places, s.n() * places, s.inputs() * s.x.plane(),
                     s.n() * s.k());
}

}  // namespace exec::host
