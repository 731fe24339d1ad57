#include "hw_profiles/detect.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

namespace {

using namespace hw_profiles;

// A folder like /sys/bus/pci/devices, removed at the end.
class FakeBus {
 public:
  FakeBus() : root_(std::filesystem::temp_directory_path() /
                    ("planner-pci-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeBus() { std::filesystem::remove_all(root_); }
  FakeBus(const FakeBus&) = delete;
  FakeBus& operator=(const FakeBus&) = delete;

  void add(const std::string& address, const std::string& vendor, const std::string& device,
           const std::string& device_class) const {
    std::filesystem::create_directories(root_ / address);
    std::ofstream(root_ / address / "vendor") << vendor << "\n";
    std::ofstream(root_ / address / "device") << device << "\n";
    std::ofstream(root_ / address / "class") << device_class << "\n";
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace

TEST_CASE("PCI ids name the GPU, and every name is a shipped profile") {
  const std::pair<const char*, const char*> expected[] = {
      {"0x2204", "rtx3090"},      {"0x2206", "rtx3080"},      {"0x2216", "rtx3080"},
      {"0x20b0", "a100-sxm-40g"}, {"0x20b2", "a100-sxm-80g"}, {"0x2330", "h100-sxm-80g"},
      {"0x2335", "h200-sxm-141g"}, {"0x2684", "rtx4090"},      {"0x20f1", "a100-pcie-40g"},
      {"0x20b5", "a100-pcie-80g"}, {"0x2331", "h100-pcie-80g"}, {"0x2231", "rtx-a5000"},
      {"0x26b1", "rtx6000-ada"},  {"0x20b1", "a100-pcie-40g"}, {"0x2901", "b200-sxm-180g"},
      {"0x2941", "gb200-186g"},   {"0x1db1", "v100-sxm-16g"}, {"0x1df5", "v100-sxm-16g"},
      {"0x1db5", "v100-sxm-32g"}, {"0x1db8", "v100-sxm-32g"}, {"0x1db4", "v100-pcie-16g"},
      {"0x1eb8", "t4"},           {"0x1e04", "rtx2080ti"},    {"0x1e07", "rtx2080ti"},
      {"0x20f3", "a800-sxm-80g"}, {"0x2230", "rtx-a6000"},    {"0x2235", "a40"},
      {"0x2236", "a10"},          {"0x2237", "a10g"},         {"0x2203", "rtx3090ti"},
      {"0x2503", "rtx3060-12g"},  {"0x2504", "rtx3060-12g"},  {"0x2509", "rtx3060-12g"},
      {"0x2324", "h800-sxm-80g"}, {"0x2329", "h20-sxm-96g"},  {"0x26b9", "l40s"},
      {"0x27b8", "l4"},           {"0x2704", "rtx4080"},      {"0x2b85", "rtx5090"},
      {"0x2bb1", "rtx-pro6000-blackwell"}};
  const auto names = profile_names();
  for (const auto& [id, profile] : expected) {
    FakeBus bus;
    bus.add("0000:01:00.0", "0x10de", id, "0x030200");
    CHECK(detect_local_gpu(bus.root()) == profile);
    CHECK(std::count(names.begin(), names.end(), profile) == 1);
  }
}

TEST_CASE("bridges, other vendors, the card's own audio and unknown cards are passed over") {
  FakeBus bus;
  bus.add("0000:00:01.0", "0x8086", "0x2204", "0x030000");  // another vendor's 2204
  bus.add("0000:01:00.0", "0x10de", "0x2330", "0x068000");  // a bridge
  bus.add("0000:01:00.1", "0x10de", "0x1aef", "0x040300");  // GA102 audio
  bus.add("0000:02:00.0", "0x10de", "0x26b5", "0x030200");  // L40: no profile states it
  std::filesystem::create_directories(bus.root() + "/0000:03:00.0");  // no files at all
  CHECK_FALSE(detect_local_gpu(bus.root()).has_value());
  bus.add("0000:04:00.0", "0x10de", "0x2204", "0x030000");
  CHECK(detect_local_gpu(bus.root()) == "rtx3090");
}

TEST_CASE("of several GPUs the first in address order counts") {
  FakeBus bus;
  bus.add("0000:81:00.0", "0x10de", "0x2330", "0x030200");
  bus.add("0000:0a:00.0", "0x10de", "0x2335", "0x030200");
  CHECK(detect_local_gpu(bus.root()) == "h200-sxm-141g");
}

TEST_CASE("a machine without sysfs has no GPU") {
  CHECK_FALSE(detect_local_gpu("/nowhere/at/all").has_value());
}
