#pragma once
// What this machine has. GPUs are read from the PCI ids in sysfs: no driver is loaded or
// initialised, so it takes microseconds and works where CUDA is absent. A page in a browser sees
// no machine (detect_nothing.cpp). Thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hw_profiles {

struct LocalGpu {
  std::string address;                 // of the PCI device: "0000:3b:00.0"
  unsigned device = 0;                 // its PCI device id
  std::optional<std::string> profile;  // that describes it, where one is shipped
};

// NVIDIA's display and 3D controllers, in PCI address order. `root` as below.
std::vector<LocalGpu> local_gpus(const std::string& root = "/sys/bus/pci/devices");

// The profile id of the first NVIDIA display or 3D controller, in PCI address order, that a shipped
// profile describes; empty where there is none. `root` holds one folder per PCI device with the
// files vendor, device and class.
std::optional<std::string> detect_local_gpu(const std::string& root = "/sys/bus/pci/devices");

}  // namespace hw_profiles
