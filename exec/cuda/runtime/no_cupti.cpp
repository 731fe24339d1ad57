// Built where CUPTI's headers were not found.
#include "exec/cuda/runtime/cupti_activity.hpp"

namespace exec::cuda {

OpenedActivity open_cupti() {
  return {nullptr,
          "this binary was built without CUPTI's headers: they are part of the CUDA toolkit "
          "(extras/CUPTI/include), and of the wheel nvidia-cuda-cupti; build again where they are"};
}

}  // namespace exec::cuda
