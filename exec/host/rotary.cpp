// Rotary positions [rope]: element i of a head turns with element i + rotated / 2, as Hugging
// Face's Llama pairs them. Angles are computed in double, once per position and sample.
#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/vector_math.hpp"

namespace exec::host {
namespace {

// Pairs [first, first + m) of one head: (a, b) becomes (a cos - b sin, a sin + b cos).
template <class T>
void turn(const View& a, const View& b, std::int64_t m, const T* cosine, const T* sine) {
  T a_buffer[kChunk], b_buffer[kChunk];
  T* const x = target(a, a_buffer);
  T* const y = target(b, b_buffer);
  if (x == a_buffer) load(a, m, x);
  if (y == b_buffer) load(b, m, y);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < m; ++i) {
    const T u = x[i], v = y[i];
    x[i] = u * cosine[i] - v * sine[i];
    y[i] = u * sine[i] + v * cosine[i];
  }
  finish(a, m, x);
  finish(b, m, y);
}

template <class T>
void rotate_as(View qkv, const HeadShape& s, const Rotation& rotation) {
  const std::int64_t half = rotation.rotated / 2;
  const double direction = rotation.inverse ? -1.0 : 1.0;
  double speed[kChunk];
  T cosine[kChunk], sine[kChunk];
  for_chunks(half, [&](std::int64_t c, std::int64_t m) {
    for (std::int64_t i = 0; i < m; ++i)
      speed[i] = std::pow(rotation.base, -2.0 * static_cast<double>(c + i) /
                                     static_cast<double>(rotation.rotated));
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const auto position = static_cast<double>(rotation.places.of(r % rotation.seq));
      for (std::int64_t i = 0; i < m; ++i) {
        cosine[i] = static_cast<T>(std::cos(position * speed[i]));
        sine[i] = static_cast<T>(direction * std::sin(position * speed[i]));
      }
      for (std::int64_t h = 0; h < s.heads + s.kv_heads; ++h) {
        const View head = qkv.at(r * s.columns() + h * s.head_dim + c);
        turn(head, head.at(half), m, cosine, sine);
      }
    }
  });
}

}  // namespace

void rotate(View qkv, const HeadShape& s, const Rotation& rotation) {
  PLANNER_CHECK(rotation.rotated % 2 == 0 && rotation.rotated <= s.head_dim,
                "rotary positions turn pairs within a head");
  with_compute_type(qkv.type, [&]<class T>() { rotate_as<T>(qkv, s, rotation); });
}

}  // namespace exec::host
