#pragma once
// What kernels are handed: typed views of buffers and a workspace, both owned by the caller, so
// that every byte stands in the ledger. Kernels never allocate. Value types, thread-compatible.

#include <cstddef>
#include <cstdint>

#include "core/check.hpp"
#include "core/dtype.hpp"
#include "planner/question/f8_matrix.hpp"

namespace exec::host {

// A buffer argument. data null: absent (an optional bias, no master copy).
struct View {
  void* data = nullptr;
  core::DType type = core::DType::f32;
  // Of a matrix in 8 bits: its order and scales (f8.hpp). Then data is where the matrix begins, and
  // `first` the element at which the view does, counted row by row.
  const planner::F8Matrix* f8 = nullptr;
  std::int64_t first = 0;

  explicit operator bool() const { return data != nullptr; }
  // REQUIRES: a type of whole bytes.
  View at(std::int64_t elements) const {
    if (f8 != nullptr) return {data, type, f8, first + elements};
    return {static_cast<std::byte*>(data) + elements * (core::bits(type) / 8), type};
  }
};

// Scratch memory, handed out front to back. Copies are independent: a callee's takes are given
// back when it returns. Contents are never assumed.
class Workspace {
 public:
  Workspace() = default;
  Workspace(void* data, core::Bytes size)
      : next_(static_cast<std::byte*>(data)), left_(size.value()) {}

  // n elements, 64 bytes aligned. REQUIRES: they fit (size what you pass with *_workspace).
  template <class T>
  T* take(std::int64_t n) {
    const auto skip = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(next_) & 63U);
    const std::int64_t used = skip + n * static_cast<std::int64_t>(sizeof(T));
    PLANNER_CHECK(used <= left_, "kernel workspace too small");
    T* const out = reinterpret_cast<T*>(next_ + skip);
    next_ += used;
    left_ -= used;
    return out;
  }

  // What take(n) may use at most.
  template <class T>
  static constexpr core::Bytes room(std::int64_t n) {
    return core::Bytes(n * static_cast<std::int64_t>(sizeof(T)) + 63);
  }

 private:
  std::byte* next_ = nullptr;
  std::int64_t left_ = 0;
};

}  // namespace exec::host
