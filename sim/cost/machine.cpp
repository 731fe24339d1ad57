#include "sim/cost/machine.hpp"

#include <algorithm>

namespace cost {

// K0 of cards whose profile states none, in a K loop step of common 16-bit kernels: the value that
// every GPU profile carries. CPUs state none and get no prologue.
static double prologue(const hw_profiles::Gpu& gpu) { return gpu.gemm_prologue_k.value_or(0); }

Machine make_machine(const hw_profiles::Profile& profile, std::string_view attention) {
  const hw_profiles::Gpu& gpu = profile.gpu;
  const hw_profiles::Node& node = profile.node;
  Machine machine;
  for (std::size_t i = 0; i < kTypes; ++i)
    machine.peak[i] = hw_profiles::peak(gpu, static_cast<core::DType>(i)).value_or(
        core::FlopsPerSecond{});
  // A sustained fraction above the best measured one speaks of the sheet's clock, not of kernels.
  machine.gemm_efficiency =
      std::min(gpu.gemm_sustained.value_or(gpu.gemm_efficiency), gpu.gemm_efficiency);
  machine.gemm_efficiency_f8 = gpu.gemm_efficiency_f8.value_or(machine.gemm_efficiency);
  machine.gemm_prologue_k = prologue(gpu);
  machine.attention_efficiency = attention == "flash1"
                                     ? gpu.attention_flash1.value_or(gpu.attention_flash2)
                                     : gpu.attention_flash2;
  machine.multiprocessors = gpu.enabled_sms;
  machine.memory = gpu.memory_bandwidth * gpu.memory_efficiency;
  machine.launch = profile.native.graph_launch;
  machine.submit = profile.native.kernel_submit;
  machine.gpus_per_node = node.gpus_per_node;
  machine.link_latency = node.link_latency;
  machine.internode_latency = node.internode_latency;
  machine.link = node.link_bandwidth;
  // [C6] A staged copy passes the host's memory twice, and all GPUs of the node copy at once.
  if (node.link == hw_profiles::LinkKind::host_staged && node.host_bandwidth)
    machine.link = std::min(machine.link, *node.host_bandwidth / (2.0 * node.gpus_per_node));
  if (node.link == hw_profiles::LinkKind::nvlink_pairs) {
    machine.pair = node.pair_bandwidth.value_or(core::BytesPerSecond{});
    machine.pair_latency = node.pair_latency.value_or(node.link_latency);
  }
  machine.internode = node.internode_bandwidth;
  return machine;
}

}  // namespace cost
