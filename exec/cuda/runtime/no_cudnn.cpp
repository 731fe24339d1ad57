// Built where cuDNN's headers or its frontend's were not found.
#include "exec/cuda/runtime/cudnn_attention.hpp"

namespace exec::cuda {

OpenedAttention open_cudnn() {
  return {nullptr,
          "this binary was built without cuDNN's frontend: pip install nvidia-cudnn-frontend and "
          "nvidia-cudnn-cu13 (or cu12, as the toolkit is), or set CUDNN_PATH and "
          "CUDNN_FRONTEND_PATH to where they lie, and build again"};
}

}  // namespace exec::cuda
