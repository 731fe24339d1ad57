// Pools: a plane (one channel of one sample) at a time.
#include <algorithm>

#include "exec/host/graphs.hpp"
#include "exec/host/panel.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {
namespace {

// visit(place of the result, element of the plane, place in the window): every window's elements
// that exist, windows and elements ascending.
template <class Visit>
void for_windows(const WindowShape& s, Visit&& visit) {
  const std::int64_t rows = s.out_height(), columns = s.out_width();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t top = i * s.stride.height - s.padding.height;
      const std::int64_t left = j * s.stride.width - s.padding.width;
      const std::int64_t last_y = std::min(top + s.kernel.height, s.height);
      const std::int64_t last_x = std::min(left + s.kernel.width, s.width);
      for (std::int64_t y = std::max<std::int64_t>(top, 0); y < last_y; ++y)
        for (std::int64_t x = std::max<std::int64_t>(left, 0); x < last_x; ++x)
          visit(i * columns + j, y * s.width + x, (y - top) * s.kernel.width + x - left);
    }
}

template <class T>
struct Panels {
  Panels(const WindowShape& s, Workspace ws)
      : plane(ws.take<T>(s.plane())), result(ws.take<T>(s.places())),
        where(ws.take<std::uint8_t>(s.places())) {}
  T *plane, *result;
  std::uint8_t* where;
};

// body(plane's first element in x, its first place in y), of every channel of every sample.
template <class Body>
void for_planes(const WindowShape& s, Body&& body) {
  for (std::int64_t c = 0; c < s.samples * s.channels; ++c) body(c * s.plane(), c * s.places());
}

// scatter(plane of dx, zero before; the same of dy; its first place in y).
template <class Scatter>
void gradient(View dx, View dy, const WindowShape& s, bool accumulate, Workspace ws,
              Scatter&& scatter) {
  with_compute_type(dy.type, [&]<class T>() {
    Panels<T> p(s, ws);
    for_planes(s, [&](std::int64_t from, std::int64_t to) {
      const T* const d = read(dy.at(to), s.places(), p.result);
      std::fill_n(p.plane, s.plane(), T(0));
      scatter(p.plane, d, to);
      give(dx.at(from), p.plane, s.plane(), accumulate);
    });
  });
}

std::uint8_t* bytes(const View& v) { return static_cast<std::uint8_t*>(v.data); }

}  // namespace

void max_pool(View y, View chosen, View x, const WindowShape& s, Workspace ws) {
  PLANNER_CHECK(!chosen || s.kernel.area() <= kLargestMaximum,
                "a place in the window takes one byte");
  with_compute_type(y.type, [&]<class T>() {
    Panels<T> p(s, ws);
    for_planes(s, [&](std::int64_t from, std::int64_t to) {
      const T* const in = read(x.at(from), s.plane(), p.plane);
      std::int64_t last = -1;
      for_windows(s, [&](std::int64_t place, std::int64_t element, std::int64_t in_window) {
        const T v = in[element];
        T& best = p.result[place];
        const bool first = place != std::exchange(last, place);
        if (!first && (v <= best || best != best)) return;
        best = v;
        p.where[place] = static_cast<std::uint8_t>(in_window);
      });
      store(y.at(to), s.places(), p.result);
      if (chosen) std::copy_n(p.where, s.places(), bytes(chosen) + to);
    });
  });
}

void max_pool_gradient(View dx, View dy, View chosen, const WindowShape& s, bool accumulate,
                       Workspace ws) {
  const std::int64_t columns = s.out_width();
  gradient(dx, dy, s, accumulate, ws, [&]<class T>(T* plane, const T* d, std::int64_t to) {
    const std::uint8_t* const where = bytes(chosen) + to;
    for (std::int64_t place = 0; place < s.places(); ++place) {
      const std::int64_t row = place / columns * s.stride.height - s.padding.height +
                               where[place] / s.kernel.width;
      const std::int64_t column = place % columns * s.stride.width - s.padding.width +
                                  where[place] % s.kernel.width;
      plane[row * s.width + column] += d[place];
    }
  });
}

void average_pool(View y, View x, const WindowShape& s, Workspace ws) {
  with_compute_type(y.type, [&]<class T>() {
    Panels<T> p(s, ws);
    const T share = T(1) / static_cast<T>(s.kernel.area());
    for_planes(s, [&](std::int64_t from, std::int64_t to) {
      const T* const in = read(x.at(from), s.plane(), p.plane);
      std::fill_n(p.result, s.places(), T(0));
      for_windows(s, [&](std::int64_t place, std::int64_t element, std::int64_t) {
        p.result[place] += in[element];
      });
      for (std::int64_t i = 0; i < s.places(); ++i) p.result[i] *= share;
      store(y.at(to), s.places(), p.result);
    });
  });
}

void average_pool_gradient(View dx, View dy, const WindowShape& s, bool accumulate,
                           Workspace ws) {
  gradient(dx, dy, s, accumulate, ws, [&]<class T>(T* plane, const T* d, std::int64_t) {
    const T share = T(1) / static_cast<T>(s.kernel.area());
    for_windows(s, [&](std::int64_t place, std::int64_t element, std::int64_t) {
      plane[element] += d[place] * share;
    });
  });
}

core::Bytes pool_workspace(core::DType activation, const WindowShape& s) {
  return panel_bytes(activation, s.plane(), s.places()) + Workspace::room<std::uint8_t>(s.places());
}

}  // namespace exec::host
