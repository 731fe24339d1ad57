// What a page in a browser sees of its machine (WebAssembly build): nothing.

#include "hw_profiles/detect.hpp"

namespace hw_profiles {

std::vector<LocalGpu> local_gpus(const std::string&) { return {}; }

std::optional<std::string> detect_local_gpu(const std::string&) { return std::nullopt; }

core::Result<core::Bytes> machine_memory(const std::string&) {
  return core::Problem{"this machine", "a memory that can be read", "a browser, which hides it",
                       "state gpu.memory and gpu.usable in a profile file of your own"};
}

}  // namespace hw_profiles
