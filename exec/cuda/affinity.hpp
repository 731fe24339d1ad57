#pragma once
// A rank's process on the CPUs that are nearest to its GPU: those of the NUMA node that the GPU's
// PCI slot belongs to, as the kernel says in sysfs. A thread that gives work to a GPU, and pinned
// memory that such a thread touches first, are then on the GPU's side of the machine.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exec::cuda {

// "0-3,8" as 0 1 2 3 8; nothing where it is no such list, or an empty one.
std::optional<std::vector<int>> cpus_from(std::string_view list);

struct NearCpus {
  int node = -1;
  std::vector<int> cpus;               // empty: not known
  std::string unknown;                 // why
};
inline constexpr const char* kPciDevices = "/sys/bus/pci/devices";
// Of a PCI device; nothing where the firmware does not say, or there is one node alone.
// pci: as the driver ("0000:1B:00.0") or NVML ("00000000:1B:00.0") writes it. root: where sysfs has
// PCI devices.
std::optional<int> numa_node(const std::string& pci, const std::string& root = kPciDevices);
NearCpus cpus_near(const std::string& pci, const std::string& root = kPciDevices);

// Keeps the calling thread, and those that it starts from now on, on the near ones of the CPUs that
// it may run on. It stays where it is where none of these is near, so that what a launcher decided
// holds. Returns what was done, for the record: "NUMA node 1: 32 of 64 CPUs".
std::string stay_near(const NearCpus& near);

}  // namespace exec::cuda
