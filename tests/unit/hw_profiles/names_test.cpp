// The names that people type for GPUs and nodes.
#include "hw_profiles/names.hpp"

#include <algorithm>

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

using namespace hw_profiles;

namespace {

std::string gpu(std::string_view typed) {
  const auto meant = gpu_meant(typed);
  return meant.ok() ? meant->id : "none";
}
std::string node(std::string_view typed) {
  const auto meant = node_meant(typed);
  return meant.ok() ? meant->id : "none";
}
std::string problem(std::string_view typed) {
  const auto meant = gpu_meant(typed);
  return meant.ok() ? "" : core::to_text(meant.problems());
}
bool mentions(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a GPU is found by what its maker, its driver and its users call it") {
  CHECK(gpu("4090") == "rtx4090");
  CHECK(gpu("RTX 4090") == "rtx4090");
  CHECK(gpu("NVIDIA GeForce RTX 4090") == "rtx4090");
  CHECK(gpu("3090") == "rtx3090");
  CHECK(gpu("3090 Ti") == "rtx3090ti");
  CHECK(gpu("NVIDIA GeForce RTX 2080 Ti") == "rtx2080ti");
  CHECK(gpu("A6000") == "rtx-a6000");
  CHECK(gpu("RTX 6000 Ada") == "rtx6000-ada");
  CHECK(gpu("RTX PRO 6000") == "rtx-pro6000-blackwell");
  CHECK(gpu("B200") == "b200-sxm-180g");
  CHECK(gpu("GB200") == "gb200-186g");
  CHECK(gpu("H200") == "h200-sxm-141g");
  CHECK(gpu("h100 pcie") == "h100-pcie-80g");
  CHECK(gpu("NVIDIA H100 80GB HBM3") == "h100-sxm-80g");
  CHECK(gpu("NVIDIA A100-SXM4-80GB") == "a100-sxm-80g");
  CHECK(gpu("NVIDIA A100-PCIE-40GB") == "a100-pcie-40g");
  CHECK(gpu("A100 40 GB PCIe") == "a100-pcie-40g");
  CHECK(gpu("V100-SXM2-32GB") == "v100-sxm-32g");
  CHECK(gpu("Tesla T4") == "t4");
  CHECK(gpu("A10 24GB") == "a10");
  CHECK(gpu("cpu") == "host");
  CHECK(gpu("my/card.json") == "my/card.json");
}

TEST_CASE("of several GPUs that fit a name the usual one is taken, and the assumption says so") {
  const auto h100 = gpu_meant("H100");
  REQUIRE(h100.ok());
  CHECK(h100->id == "h100-sxm-80g");
  CHECK(mentions(h100->assumption, "H100 is taken to mean h100-sxm-80g, the H100 of DGX"));
  CHECK(mentions(h100->assumption, "it could also be h100-hbm2e-96g-500w, h100-pcie-80g"));
  CHECK(gpu("a100-80gb") == "a100-sxm-80g");
  CHECK(gpu("A100 40GB") == "a100-sxm-40g");
  CHECK(gpu_meant("4090")->assumption.empty());  // nothing else could be meant
  CHECK(gpu_meant("h100-sxm-80g")->assumption.empty());
}

TEST_CASE("a name that several GPUs fit and none of them is usual lists them") {
  CHECK(mentions(problem("V100"), "write one of v100-pcie-16g, v100-sxm-16g, v100-sxm-32g"));
  CHECK(mentions(problem("RTX 6000"), "write one of rtx-pro6000-blackwell, rtx6000-ada"));
}

TEST_CASE("a GPU that is not shipped is never taken for its neighbour") {
  for (std::string_view other : {"2080", "L40", "RTX 3080 12GB", "H100 NVL", "4090 D", "A100X",
                                 "3080 Ti", "", "80GB HBM3", "GB10"}) {
    INFO(other);
    CHECK(gpu(other) == "none");
  }
}

TEST_CASE("a node is found by the name that its cloud rents it under") {
  CHECK(node("p5.48xlarge") == "aws-p5");
  CHECK(node("AWS P5") == "aws-p5");
  CHECK(node("DGX H100") == "dgx-h100");
  CHECK(node("Standard_ND96isr_H100_v5") == "azure-nd-h100-v5");
  CHECK(node("a3-megagpu-8g") == "gcp-a3-mega");
  CHECK(node("BM.GPU.H100.8") == "oci-h100");
  CHECK(node("dgx") == "none");
}

TEST_CASE("every spelling and every usual GPU is shipped, and every id means itself") {
  const auto gpus = profile_names(), nodes = node_names();
  const auto is_in = [](const auto& ids, const std::string& id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  for (const auto& [typed, id] : gpu_spellings()) {
    INFO(typed);
    CHECK(is_in(gpus, id));
    CHECK(gpu(typed) == id);
  }
  for (const auto& [typed, id] : node_spellings()) {
    INFO(typed);
    CHECK(is_in(nodes, id));
    CHECK(node(typed) == id);
  }
  for (const std::string& id : usual_gpus()) CHECK(is_in(gpus, id));
  for (std::string id : gpus) {
    const std::string as_shipped = id;
    std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::toupper(c); });
    CHECK(gpu(id) == as_shipped);
  }
}

TEST_CASE("frameworks are meant by how people write them, and by what is built on them") {
  const auto meant = [](const char* typed) { return hw_profiles::framework_meant(typed); };
  CHECK(meant("megatron_core").id == "megatron_core");
  CHECK(meant("Megatron-Core").id == "megatron_core");
  CHECK(meant("Megatron-Core").assumption.empty());
  CHECK(meant("NeMo").id == "megatron_core");
  CHECK(meant("NeMo").assumption == "NeMo is predicted as megatron_core");
  CHECK(meant("torchtitan").id == "fsdp2");
  CHECK(meant("My/Own.json").id == "My/Own.json");
  CHECK(meant("colossal").id == "colossal");
  const std::vector<std::string> ids = hw_profiles::framework_names();
  for (const auto& [typed, id] : hw_profiles::framework_spellings()) {
    INFO(typed);
    CHECK(std::ranges::find(ids, id) != ids.end());
    CHECK(std::ranges::find(ids, typed) == ids.end());
    CHECK(meant(typed.c_str()).id == id);
  }
}
