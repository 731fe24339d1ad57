#pragma once
// RangeMemory: gives the range of device memory in which a rank has all its buffers, where that is
// not a pool of the driver's. A communication library moves faster what lies in memory of its own.
// Used by the rank's thread.

#include <cstddef>

namespace exec::cuda {

class RangeMemory {
 public:
  virtual ~RangeMemory() = default;
  // Device memory, or null: the driver's pool is to have it. layout: ranks of the same number have
  // their buffers at the same places of their ranges. Throws what the library says.
  virtual void* allocate_range(std::size_t bytes, int layout) = 0;
  // Nothing given before may still use it.
  virtual void release_range(void* range) noexcept = 0;
};

}  // namespace exec::cuda
