#include "exec/cuda/nvml/library.hpp"

#include <dlfcn.h>

#include "exec/cuda/nvml/abi.hpp"

namespace exec::cuda {

NvmlLibrary::NvmlLibrary(const std::string& file) {
  library_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = file + " cannot be opened";
    return;
  }
  const auto init = symbol<nvml::Status()>("nvmlInit_v2");
  const nvml::Status status = init != nullptr ? init() : nvml::kNotSupported;
  if (status == nvml::kSuccess) return;
  problem_ = init == nullptr ? file + " lacks nvmlInit_v2"
                             : "nvmlInit_v2 returned " + std::to_string(status);
  library_ = nullptr;
}

// The library stays loaded: unloading a driver's code gains nothing.
NvmlLibrary::~NvmlLibrary() { call("nvmlShutdown"); }

void* NvmlLibrary::find(const char* name) const {
  return library_ != nullptr ? ::dlsym(library_, name) : nullptr;
}

}  // namespace exec::cuda
