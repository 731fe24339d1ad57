// The shipped numbers against arithmetic and against the facts they must reproduce.

#include <cmath>
#include <string>
#include <vector>

#include "core/machine_memory.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

namespace {

using namespace hw_profiles;

Profile load(const std::string& name) {
  auto profile = find_profile(name);
  INFO((profile.ok() ? std::string() : core::to_text(profile.problems())));
  REQUIRE(profile.ok());
  return *profile;
}

std::vector<Profile> all() {
  std::vector<Profile> profiles;
  for (const std::string& name : profile_names()) profiles.push_back(load(name));
  return profiles;
}

double gib(core::Bytes b) { return static_cast<double>(b.value()) / 1073741824.0; }

double tensor_peak_tflops(const Gpu& g) {
  return g.enabled_sms * g.tensor_cores_per_sm.value() * double(g.tensor_fma_per_cycle.value()) *
         2 * g.tensor_clock.value() * 1e-12;
}

}  // namespace

TEST_CASE("every shipped profile loads and is called by its own id") {
  REQUIRE(profile_names().size() == 39);
  for (const std::string& name : profile_names()) CHECK(load(name).gpu.id == name);
}

TEST_CASE("every number of every shipped profile has a source and no field is stated twice") {
  for (const Profile& p : all()) {
    INFO(p.gpu.id);
    for (const Sourced& s : p.sources) {
      INFO(s.field);
      CHECK(s.source.size() >= 8);
      CHECK(p.lookup(s.field) == &s);
    }
  }
}

TEST_CASE("the tensor peak of the RTX 3090 is 82 x 4 x 64 x 2 x 1.695 GHz = 71.15 TFLOP/s") {
  // 82 SMs x 4 tensor cores = 328; x 64 FMA = 20,992 a cycle; x 2 = 41,984; x 1.695e9 = 7.1163e13
  CHECK(tensor_peak_tflops(load("rtx3090").gpu) == Approx(71.163).epsilon(1e-4));
}

TEST_CASE("stated 16-bit peaks are within 1.5 % of SMs x tensor cores x FMA x 2 x clock") {
  for (const Profile& p : all()) {
    if (!p.gpu.tensor_cores_per_sm) continue;
    INFO(p.gpu.id);
    CHECK(p.gpu.peak_16bit.value() * 1e-12 == Approx(tensor_peak_tflops(p.gpu)).epsilon(0.015));
  }
}

TEST_CASE("stated f32 peaks are within 1.5 % of SMs x lanes x 2 x boost clock") {
  const auto lanes = [](const Gpu& g) { return g.compute_capability <= 80 ? 64 : 128; };
  for (const Profile& p : all()) {
    if (!p.gpu.compute_capability) continue;
    INFO(p.gpu.id);
    const double peak = p.gpu.enabled_sms * lanes(p.gpu) * 2 * p.gpu.boost_clock.value();
    CHECK(p.gpu.peak_f32.value() == Approx(peak).epsilon(0.015));
  }
}

TEST_CASE("memory sizes are those of the founding notes, and usable is less than nominal") {
  CHECK(load("rtx3080").gpu.memory == core::gib(10));
  CHECK(load("rtx3090").gpu.memory == core::gib(24));
  CHECK(load("a100-sxm-40g").gpu.memory == core::gib(40));
  CHECK(load("a100-sxm-80g").gpu.memory == core::gib(80));
  CHECK(load("h100-sxm-80g").gpu.memory == core::gib(80));
  for (const Profile& p : all()) {
    if (p.gpu.id == "host") continue;
    INFO(p.gpu.id);
    CHECK(p.gpu.usable < p.gpu.memory);
    CHECK(gib(p.gpu.usable) > 0.97 * gib(p.gpu.memory));
  }
  CHECK(gib(load("rtx3090").gpu.usable) == Approx(23.70));
  CHECK(gib(load("a100-sxm-80g").gpu.usable) == Approx(79.15));
}

TEST_CASE("dies and enabled multiprocessors are those of the founding notes") {
  const Gpu ga102 = load("rtx3090").gpu, gh100 = load("h100-sxm-80g").gpu;
  CHECK((ga102.die_gpcs == 7 && ga102.die_sms == 84 && ga102.enabled_sms == 82));
  CHECK((gh100.die_gpcs == 8 && gh100.die_sms == 144 && gh100.enabled_sms == 132));
  CHECK(load("rtx3080").gpu.enabled_sms == 68);
  for (const Profile& p : all()) CHECK(p.gpu.die_sms.value_or(1000) >= p.gpu.enabled_sms);
}

TEST_CASE("peaks rise as types shrink, and a type the device lacks has none") {
  for (const Profile& p : all()) {
    INFO(p.gpu.id);
    CHECK(p.gpu.peak_16bit >= p.gpu.peak_f32);
    if (p.gpu.peak_tf32) CHECK(*p.gpu.peak_tf32 >= p.gpu.peak_f32);
    if (p.gpu.peak_f8) CHECK(*p.gpu.peak_f8 > p.gpu.peak_16bit);
  }
  for (const char* older : {"v100-sxm-32g", "t4", "rtx2080ti"}) {
    const Gpu g = load(older).gpu;
    CHECK_FALSE(peak(g, core::DType::bf16).has_value());
    CHECK(peak(g, core::DType::f16) == g.peak_16bit);
    CHECK_FALSE(g.peak_tf32.has_value());
    CHECK_FALSE(g.attention_flash2.has_value());
  }
  const Gpu a100 = load("a100-sxm-80g").gpu;
  CHECK_FALSE(peak(a100, core::DType::f8).has_value());
  CHECK(peak(a100, core::DType::bf16) == a100.peak_16bit);
  CHECK(peak(a100, core::DType::f32) == a100.peak_f32);
  CHECK(peak(load("h100-sxm-80g").gpu, core::DType::f8).has_value());
}

TEST_CASE("a link never outruns the wires that carry it") {
  for (const Profile& p : all()) {
    if (p.gpu.id == "host") continue;
    INFO(p.gpu.id);
    const auto wires =
        links_all(p.node.link) ? p.gpu.nvlink_bandwidth : p.gpu.pcie_bandwidth;
    CHECK(p.node.link_bandwidth < wires.value());
    const int sold = p.node.id == "gb200-nvl72" ? 72 : p.node.id == "single" ? 1 : 8;
    CHECK(p.node.gpus_per_node == sold);
  }
}

TEST_CASE("a node's network is its cards: 8 x 200 and 8 x 400 Gbit/s") {
  CHECK(load("a100-sxm-80g").node.internode_bandwidth.value() == Approx(8 * 200e9 / 8));
  CHECK(load("h100-sxm-80g").node.internode_bandwidth.value() == Approx(8 * 400e9 / 8));
}

TEST_CASE("the host's memory is that of this machine") {
  const auto memory = core::machine_memory();
  REQUIRE(memory);
  const Profile host = load("host");
  CHECK(host.gpu.usable == memory->total);
  CHECK(host.node.host_memory == memory->total);
  CHECK(host.lookup("gpu.usable")->source.find("/proc/meminfo") != std::string::npos);
}
