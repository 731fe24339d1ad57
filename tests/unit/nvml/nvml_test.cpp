// NVML: what is read of a GPU, how GPUs are joined, and where that is not as a profile says.
#include "exec/cuda/nvml/nvml.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "exec/cuda/nvml/topology.hpp"
#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

using namespace exec::cuda;

namespace {

// PLANNER_FAKE_NVML while it lives.
class Words {
 public:
  explicit Words(const char* words) { ::setenv("PLANNER_FAKE_NVML", words, 1); }
  ~Words() { ::unsetenv("PLANNER_FAKE_NVML"); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
};

Topology topology_with(const char* words) {
  const Words fake(words);
  return read_topology(NvmlLibrary(FAKE_NVML_PATH), "/no/such");
}

std::vector<std::string> differences_with(const char* words, const char* gpu) {
  return differences(topology_with(words), *hw_profiles::find_profile(gpu));
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("clocks, power, what lowers clocks and what NVLinks carried are read of a GPU") {
  const Words words("mhz=1755 milliwatts=690000 reasons=36 sent=3");
  const Nvml nvml("0000:1b:00.0", FAKE_NVML_PATH);
  CHECK(nvml.problem() == "");
  CHECK(nvml.clock_mhz(Nvml::Clock::sm) == 1755u);
  CHECK(nvml.power_watts() == 690.0);
  CHECK(clock_reasons_text(nvml.clock_reasons().value()) == "SW power cap, SW thermal slowdown");
  CHECK(nvml.nvlink_bytes()->sent == 3 * 1024);
  // What this library does not have.
  CHECK_FALSE(nvml.temperature_celsius());
  CHECK_FALSE(nvml.memory());
  CHECK(clock_reasons_text(0) == "");
}

TEST_CASE("without the library, or where it does not start, nothing is read and it says why") {
  const Nvml none("0000:1b:00.0", "/no/such/libnvidia-ml.so.1");
  CHECK(none.problem() == "/no/such/libnvidia-ml.so.1 cannot be opened");
  CHECK_FALSE(none.clock_mhz(Nvml::Clock::sm));
  CHECK_FALSE(none.nvlink_bytes());
  const Words words("init=9");
  const Topology t = read_topology(NvmlLibrary(FAKE_NVML_PATH));
  CHECK(to_text(t) == "unknown: nvmlInit_v2 returned 9");
  CHECK(differences(t, *hw_profiles::find_profile("h100-sxm-80g")).empty());
}

TEST_CASE("how GPUs are joined is one line, and each GPU's own where they differ") {
  CHECK(to_text(topology_with("")) ==
        "8 GPUs; 18 NVLinks of version 4, 478 GB/s, to switches; PCIe 5 x16; NUMA node unknown; "
        "28 of 28 pairs read each other's memory");
  CHECK(to_text(topology_with("gpus=2 odd=1 switched=0 mbps=25000 version=3 links=4 peers=0")) ==
        "2 GPUs; 4 NVLinks of version 3, 100 GB/s, to GPUs, 3 NVLinks of version 3, 75 GB/s, to "
        "GPUs; PCIe 5 x16; NUMA node unknown; 0 of 1 pairs read each other's memory");
  CHECK(to_text(topology_with("gpus=1 links=0")) ==
        "1 GPUs; no NVLink; PCIe 5 x16; NUMA node unknown");
}

TEST_CASE("the NUMA node of a GPU is that of its slot in sysfs") {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("nvml-" + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "0000:1c:00.0");
  std::ofstream(root / "0000:1c:00.0" / "numa_node") << "1\n";
  const Words words("gpus=2");
  const Topology t = read_topology(NvmlLibrary(FAKE_NVML_PATH), root.string());
  std::filesystem::remove_all(root);
  REQUIRE(t.gpus.size() == 2);
  CHECK_FALSE(t.gpus[0].numa_node);
  CHECK(t.gpus[1].numa_node == 1);
}

TEST_CASE("a machine as its profile says has no differences, with fewer GPUs too") {
  CHECK(differences_with("", "h100-sxm-80g") == Texts{});
  CHECK(differences_with("gpus=4", "h100-sxm-80g") == Texts{});
  CHECK(differences_with("links=12 mbps=25000 version=3 generation=4", "a100-sxm-80g") == Texts{});
  CHECK(differences_with("gpus=2 links=0 generation=4 peers=0", "rtx4090") == Texts{});
}

TEST_CASE("each thing that is not as the profile says is a sentence") {
  CHECK(differences_with("gpus=1 odd=0 links=16", "h100-sxm-80g") ==
        Texts{"GPU 00000000:1B:00.0: expected NVLinks of 450 GB/s, found 398 GB/s (15 links)"});
  CHECK(differences_with("gpus=1 links=0", "h100-sxm-80g") ==
        Texts{"GPU 00000000:1B:00.0: expected NVLinks to switches, found no NVLink"});
  CHECK(differences_with("gpus=1 switched=0", "h100-sxm-80g") ==
        Texts{"GPU 00000000:1B:00.0: expected NVLinks to switches, found 18 NVLinks of version 4, "
              "478 GB/s, to GPUs"});
  CHECK(differences_with("gpus=1 generation=4 width=8", "h100-sxm-80g") ==
        Texts{"GPU 00000000:1B:00.0: expected PCIe 5 x16, found PCIe 4 x8"});
  CHECK(differences_with("peers=0", "h100-sxm-80g") ==
        Texts{"expected all GPUs to read each other's memory, found 0 of 28 pairs"});
  CHECK(differences_with("gpus=9", "h100-sxm-80g") ==
        Texts{"expected at most 8 GPUs in a node, found 9"});
}

TEST_CASE("what an older driver does not tell is no difference") {
  CHECK(differences_with("old=1 gpus=2", "h100-sxm-80g") == Texts{});
  CHECK(to_text(topology_with("old=1 gpus=2")) ==
        "2 GPUs; 18 NVLinks of version 4; PCIe 5 x16; NUMA node unknown");
}
