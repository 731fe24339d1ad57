#pragma once
// PluginUse: this project's plugin as NCCL is told of it, for the life of this object. The plugin
// counts what NCCL ran. With choices it makes NCCL run what a plan says. Made before NCCL makes its
// first communicator, on one thread. It sets variables of the environment, which NCCL reads then.

#include <string>
#include <vector>

#include "exec/cuda/nccl/plugin/choices.hpp"

namespace exec::cuda {

class PluginUse {
 public:
  // path: of libplanner-nccl.so. choices: empty: NCCL's own. Throws std::runtime_error where there
  // are choices and the plugin, or the file that it reads, cannot be had.
  PluginUse(const std::string& path, const std::vector<nccl::Choice>& choices);
  ~PluginUse();
  PluginUse(const PluginUse&) = delete;
  PluginUse& operator=(const PluginUse&) = delete;

  // What NCCL ran in this process until now, or why that is not known.
  std::string calls() const;

 private:
  void* library_ = nullptr;            // it stays open: NCCL may still use it
  std::string file_;                   // of the choices
  std::string unknown_;                // why calls are not known
};

}  // namespace exec::cuda
