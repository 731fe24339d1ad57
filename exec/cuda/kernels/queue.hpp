#pragma once
// Queue: where kernels are launched: a stream, its workspace, the API. Value.

#include <cstddef>

#include "core/check.hpp"
#include "exec/cuda/api/api.hpp"

namespace exec::cuda {

struct Queue {
  Api& api;
  StreamHandle stream;
  int multiprocessors;
  std::byte* workspace;                // of this stream, for one kernel at a time
  std::size_t workspace_bytes;

  // The workspace from its start. REQUIRES: it is large enough (see kWorkspace in kernels.hpp).
  template <class T>
  T* take(std::int64_t n) const {
    PLANNER_CHECK(static_cast<std::size_t>(n) * sizeof(T) <= workspace_bytes,
                  "kernel workspace too small");
    return reinterpret_cast<T*>(workspace);
  }
};

}  // namespace exec::cuda
