#pragma once
// Which GPU this machine has, read from the PCI ids in sysfs: no driver is loaded or initialised,
// so it takes microseconds and works where CUDA is absent. Thread-safe.

#include <optional>
#include <string>

namespace hw_profiles {

// The profile id of the first NVIDIA display or 3D controller, in PCI address order, that a shipped
// profile describes; empty where there is none. `root` holds one folder per PCI device with the
// files vendor, device and class.
std::optional<std::string> detect_local_gpu(const std::string& root = "/sys/bus/pci/devices");

}  // namespace hw_profiles
