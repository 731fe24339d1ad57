#pragma once
// From host functions to kernels: one launch through the API, types chosen by name.

#include <array>
#include <tuple>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/queue.hpp"
#include "exec/host/alibi.hpp"
#include "exec/host/view.hpp"

namespace exec::cuda {

template <class... P, class... A>
void launch(const Queue& q, const char* name, Extent grid, Extent block, std::size_t shared,
            void (*kernel)(P...), A... args) {
  std::tuple<P...> values(static_cast<P>(args)...);
  std::array<void*, sizeof...(P)> pointers = std::apply(
      [](auto&... v) { return std::array<void*, sizeof...(P)>{static_cast<void*>(&v)...}; },
      values);
  Launch l{name, grid, block, shared, reinterpret_cast<const void*>(kernel), pointers.data(), {}};
#if !defined(__CUDACC__)
  l.body = [kernel, values] { std::apply(kernel, values); };
#endif
  q.api.launch(l, q.stream);
}

inline unsigned blocks_of(int64_t items, int64_t each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

// body.template operator()<A>() with the storage type.
template <class Body>
void with_type(core::DType type, Body&& body) {
  switch (type) {
    case core::DType::f64: return body.template operator()<double>();
    case core::DType::f32: return body.template operator()<float>();
    case core::DType::bf16: return body.template operator()<bf16>();
    case core::DType::f16: return body.template operator()<f16>();
    default: PLANNER_CHECK(false, "kernels compute in f64, f32, bf16 and f16");
  }
}

// The data of a view of type A; null stays null.
template <class A>
A* typed(const host::View& v) {
  return static_cast<A*>(v.data);
}
inline Real real(const host::View& v) { return {v.data, v.type}; }
inline Positions positions(const host::Places& p) { return {p.early, p.early_at, p.late_at}; }

// REQUIRES that these views have one type: activations and what they are computed with.
template <class... V>
core::DType one_type(const host::View& first, const V&... others) {
  const bool same = ((!others || others.type == first.type) && ...);
  PLANNER_CHECK(same, "a kernel's activations and weights have one type");
  return first.type;
}
// The type of row statistics beside activations: f64 for f64, else f32.
template <class... V>
void check_statistics(core::DType activation, const V&... statistics) {
  const core::DType wanted =
      activation == core::DType::f64 ? core::DType::f64 : core::DType::f32;
  const bool same = ((statistics.type == wanted) && ...);
  PLANNER_CHECK(same, "row statistics are f32, of f64 activations f64");
}

}  // namespace exec::cuda
