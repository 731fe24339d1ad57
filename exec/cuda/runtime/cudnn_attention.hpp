#pragma once
// Attention by cuDNN, through the graphs of its frontend: headers alone, found when this is built.
// libcudnn and the runtime that the frontend calls are opened while running, so that the binary
// starts where they are absent.

#include "exec/cuda/api/attention_library.hpp"

namespace exec::cuda {

// REQUIRES: the device's context is current. Where cuDNN cannot be opened, or this was built
// without its frontend, says why and what to do.
OpenedAttention open_cudnn();

}  // namespace exec::cuda
