#pragma once
// Panels: elements of the compute type that a kernel prepares in its workspace, on their way into
// an operand of any type. Stateless, thread-safe.

#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"

namespace exec::host {

// to[0:n) (=|+=) panel, rounded once.
template <class T>
void give(const View& to, T* panel, std::int64_t n, bool accumulate) {
  const View from{panel, dtype_of<T>()};
  accumulate ? add(to, to, from, n) : cast(to, from, n);
}

// Bytes of elements of the compute type, each kind of panel aligned by itself.
template <class... Sizes>
core::Bytes panel_bytes(core::DType activation, Sizes... elements) {
  if (activation == core::DType::f64) return (Workspace::room<double>(elements) + ...);
  return (Workspace::room<float>(elements) + ...);
}

}  // namespace exec::host
