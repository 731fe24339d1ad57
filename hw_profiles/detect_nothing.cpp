// What a page in a browser sees of its machine (WebAssembly build): nothing.

#include "hw_profiles/detect.hpp"

namespace hw_profiles {

std::vector<LocalGpu> local_gpus(const std::string&) { return {}; }

std::optional<std::string> detect_local_gpu(const std::string&) { return std::nullopt; }

}  // namespace hw_profiles
