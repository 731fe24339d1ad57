#pragma once
// PluginUse: this project's plugin as NCCL is told of it, for the life of this object. The plugin
// keeps what NCCL ran. With choices it makes NCCL run what a plan says. Made before NCCL makes its
// first communicator, on one thread. It sets variables of the environment, which NCCL reads then.

#include <string>
#include <vector>

#include "exec/cuda/nccl/plugin/abi.hpp"
#include "exec/cuda/nccl/plugin/choices.hpp"

namespace exec::cuda {

// A collective that NCCL ran.
struct Ran {
  std::string algorithm, protocol;     // "ring", "ll128": kAlgorithmNames, kProtocolNames
  int channels = 0;
  std::int64_t bytes = 0;              // that each rank contributed
};

class PluginUse {
 public:
  // path: of libplanner-nccl.so. choices: empty: NCCL's own. Throws std::runtime_error where there
  // are choices and the plugin, or the file that it reads, cannot be had.
  PluginUse(const std::string& path, const std::vector<nccl::Choice>& choices);
  ~PluginUse();
  PluginUse(const PluginUse&) = delete;
  PluginUse& operator=(const PluginUse&) = delete;

  // The collectives that NCCL ran in this process since this was last asked.
  std::vector<Ran> take() const;
  // Where the record has them, or why they are not known.
  std::string told() const;

 private:
  void* library_ = nullptr;            // it stays open: NCCL may still use it
  nccl::TakeRan take_ = nullptr;
  std::string file_;                   // of the choices
  std::string unknown_;                // why calls are not known
};

}  // namespace exec::cuda
