#include "hw_profiles/detect.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace hw_profiles {
namespace {

struct PciGpu {
  unsigned device;
  std::string_view profile;
};

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kVgaController = 0x0300;
constexpr unsigned k3dController = 0x0302;

// The PCI ID database (pci-ids.ucw.cz), Debian's pci.ids of 2023-04-11, and for later cards
// NVIDIA/open-gpu-kernel-modules, README.md and g_nv_name_released.h (H20, L40S, RTX 5090), and
// `lspci -nn` of machines that have them (H200, B200, GB200, RTX PRO 6000). A card whose numbers no
// shipped profile states, such as an L40 (26b5), is left out on purpose.
constexpr std::array<PciGpu, 40> kGpus{{
    {0x2204, "rtx3090"},
    {0x2206, "rtx3080"},
    {0x2216, "rtx3080"},  // Lite Hash Rate: the same card to a matrix multiplication
    {0x2684, "rtx4090"},
    {0x20f1, "a100-pcie-40g"},
    {0x20b5, "a100-pcie-80g"},
    {0x2231, "rtx-a5000"},
    {0x26b1, "rtx6000-ada"},
    {0x20b0, "a100-sxm-40g"},
    {0x20b2, "a100-sxm-80g"},
    {0x2330, "h100-sxm-80g"},
    {0x2331, "h100-pcie-80g"},
    {0x2335, "h200-sxm-141g"},
    {0x2901, "b200-sxm-180g"},
    {0x2941, "gb200-186g"},
    {0x1db1, "v100-sxm-16g"},
    {0x1df5, "v100-sxm-16g"},
    {0x1db5, "v100-sxm-32g"},
    {0x1db8, "v100-sxm-32g"},  // SXM3, of the DGX-2
    {0x1db4, "v100-pcie-16g"},
    {0x1eb8, "t4"},
    {0x1e04, "rtx2080ti"},
    {0x1e07, "rtx2080ti"},
    {0x20f3, "a800-sxm-80g"},
    {0x2230, "rtx-a6000"},
    {0x2235, "a40"},
    {0x2236, "a10"},
    {0x2237, "a10g"},
    {0x2203, "rtx3090ti"},
    {0x2503, "rtx3060-12g"},
    {0x2504, "rtx3060-12g"},
    {0x2509, "rtx3060-12g"},
    {0x2324, "h800-sxm-80g"},
    {0x2329, "h20-sxm-96g"},
    {0x26b9, "l40s"},
    {0x27b8, "l4"},
    {0x2704, "rtx4080"},
    {0x2b85, "rtx5090"},
    {0x2bb1, "rtx-pro6000-blackwell"},
    {0x20b1, "a100-pcie-40g"},
}};

// The hexadecimal number in a sysfs file ("0x10de"), 0 where it cannot be read.
unsigned hex_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 16));
}

bool is_nvidia_gpu(const std::filesystem::path& device) {
  if (hex_file(device / "vendor") != kNvidia) return false;
  const unsigned device_class = hex_file(device / "class") >> 8;  // drop the programming interface
  return device_class == kVgaController || device_class == k3dController;
}

}  // namespace

std::vector<LocalGpu> local_gpus(const std::string& root) {
  std::error_code error;  // an absent or unreadable root means no GPU
  std::vector<std::filesystem::path> devices;
  for (const auto& entry : std::filesystem::directory_iterator(root, error))
    devices.push_back(entry.path());
  std::sort(devices.begin(), devices.end());
  std::vector<LocalGpu> gpus;
  for (const auto& device : devices) {
    if (!is_nvidia_gpu(device)) continue;
    LocalGpu found{device.filename().string(), hex_file(device / "device"), std::nullopt};
    for (const PciGpu& gpu : kGpus)
      if (gpu.device == found.device) found.profile = gpu.profile;
    gpus.push_back(std::move(found));
  }
  return gpus;
}

std::optional<std::string> detect_local_gpu(const std::string& root) {
  for (const LocalGpu& gpu : local_gpus(root))
    if (gpu.profile) return gpu.profile;
  return std::nullopt;
}

}  // namespace hw_profiles
