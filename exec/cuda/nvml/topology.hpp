#pragma once
// How the GPUs of this machine are joined, as NVML tells it, and where that differs from what a
// profile says. Reading is not thread-safe; the rest is pure.

#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "exec/cuda/affinity.hpp"
#include "exec/cuda/nvml/library.hpp"
#include "hw_profiles/profile.hpp"

namespace exec::cuda {

// Where NVML does not say, a value is empty.
struct GpuLinks {
  std::string pci;                     // "00000000:1B:00.0"
  std::optional<int> pcie_generation, pcie_width;  // that GPU and slot can do
  std::optional<int> numa_node;
  int links = 0;                       // NVLinks that are up
  int to_switches = 0, to_gpus = 0;    // of them
  std::optional<int> link_version;
  std::optional<core::BytesPerSecond> link_rate;  // of one, in one direction
};

struct Topology {
  std::vector<GpuLinks> gpus;          // by NVML's index
  int pairs = 0;                       // of two GPUs, of which NVML says whether they are peers
  int peers = 0;                       // pairs that may read each other's memory
  std::string problem;                 // why nothing is known; empty: it is
};

// `pci_devices`: the folder of sysfs that names NUMA nodes.
Topology read_topology(const NvmlLibrary& library,
                       const std::string& pci_devices = kPciDevices);

// One line: "8 GPUs; 18 NVLinks of version 4 each, 478 GB/s, to switches; PCIe 5 x16; ...".
std::string to_text(const Topology& topology);

// A sentence for each thing in which the machine is not as the profile says. A machine may show
// fewer GPUs than the profile's node has, but not more. Rates differ above a tenth: NVML states the
// wire's, with what framing takes.
std::vector<std::string> differences(const Topology& topology,
                                     const hw_profiles::Profile& profile);

// The sentences on one line, at most `most` of them, then how many more there are; empty: none.
std::string to_text(const std::vector<std::string>& differences, std::size_t most);

}  // namespace exec::cuda
