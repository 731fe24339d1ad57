#include "exec/calibrate/calibrate.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hw_profiles/load.hpp"
#include "sim/cost/kernel.hpp"
#include "tests/catch.hpp"

using namespace exec;
namespace fs = std::filesystem;

namespace {

// What a host of known constants would measure, by the formulas of sim/cost.
Measured ideal(double rate, double efficiency, double k0) {
  Measured m;
  m.ranks = 2;
  const auto product = [&](std::int64_t a, std::int64_t b, std::int64_t k, double slower) {
    const double flops = 2.0 * static_cast<double>(a * b * k);
    const double kept = efficiency * static_cast<double>(k) / (static_cast<double>(k) + k0);
    return ProductRow{a, b, k, slower * flops / (rate * kept)};
  };
  for (const std::int64_t k : {64, 256, 768, 3072}) {
    m.products.f32.push_back(product(512, 768, k, 1));
    m.products.bf16.push_back(product(512, 768, k, 1.25));
    m.products.f64.push_back(product(512, 768, k, 2));
  }
  using Kind = TrafficRow::Kind;
  m.update = {Kind::elementwise, core::Bytes(1 << 30), static_cast<double>(1 << 30) / 5e9};
  const std::pair<Kind, double> ratios[] = {{Kind::elementwise, 2}, {Kind::norm, 3},
                                            {Kind::loss, 4},        {Kind::rotary, 0.5},
                                            {Kind::gated, 1.5}};
  for (const auto& [kind, ratio] : ratios)
    m.traffic.push_back({kind, core::Bytes(5000), ratio * 1e-6});
  m.action = 2e-6;
  // Causal: half the FLOPs; rate P e s / (s + 256) and 0.85 of it for narrow heads; e = 0.5.
  const double best = rate * efficiency * 3072 / (3072 + k0);
  m.attention.push_back({512, 64, core::Flops(1e9), core::Bytes(1),
                         0.5e9 / (best * 0.5 * (512.0 / 768.0) * 0.85)});
  for (const std::int64_t bytes : {1 << 12, 1 << 16, 1 << 24})
    m.links.push_back({core::Bytes(bytes), 2 * (3e-6 + static_cast<double>(bytes) / 2 / 4e9)});
  m.hold = HoldRow{core::Bytes(300'000'000), 0.1, 0.15};
  return m;
}

hw_profiles::Profile host() {
  auto profile = hw_profiles::find_profile("host");
  REQUIRE(profile.ok());
  return std::move(*profile);
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "points-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file() const { return path_ + "/me.points"; }

 private:
  std::string path_;
};

BookOptions options(const std::string& file, int ranks = 2) {
  BookOptions o;
  o.ranks = ranks;
  o.budget = core::Seconds(0.001);
  o.file = file;
  return o;
}

}  // namespace

TEST_CASE("a profile fitted to a host of known constants has them") {
  const double k0 = 40, efficiency = 0.9, rate = 100e9;
  const Measured m = ideal(rate, efficiency, k0);
  const double best = rate * efficiency * 3072 / (3072 + k0);  // the fastest product, by hand
  const hw_profiles::Profile p = fit_profile(m, host(), "a test").profile;
  CHECK(p.gpu.peak_f32.value() == Approx(best).epsilon(1e-3));
  CHECK(p.gpu.gemm_efficiency == 1.0);  // rate e / best = 1.013, of which a peak is the most
  CHECK(p.gpu.gemm_prologue_k == 40);
  CHECK(p.gpu.peak_16bit.value() == Approx(best / 1.25).epsilon(1e-3));
  CHECK(p.gpu.peak_f64->value() == Approx(best / 2).epsilon(1e-3));
  CHECK(p.gpu.memory_bandwidth.value() == Approx(5e9).epsilon(1e-3));
  CHECK(p.gpu.attention_flash2 == Approx(0.5).epsilon(1e-3));
  CHECK(p.framework.traffic_elementwise == Approx(2).epsilon(1e-3));
  CHECK(p.framework.traffic_norm == Approx(3).epsilon(1e-3));
  CHECK(p.framework.traffic_loss == Approx(4).epsilon(1e-3));
  CHECK(p.framework.traffic_rotary == Approx(0.5).epsilon(1e-3));
  CHECK(p.framework.traffic_gated == Approx(1.5).epsilon(1e-3));
  CHECK(p.native.graph_launch.value() == Approx(2e-6).epsilon(1e-3));
  CHECK(p.node.link_latency.value() == Approx(3e-6).epsilon(1e-3));
  CHECK(p.node.link_bandwidth.value() == Approx(4e9).epsilon(1e-3));
  REQUIRE(p.node.hold_bandwidth);
  CHECK(p.node.hold_bandwidth->value() == Approx(6e9).epsilon(1e-3));
  CHECK(p.node.gpus_per_node == 2);
  CHECK(p.lookup("gpu.peak_f32")->source.starts_with("a test"));
}

TEST_CASE("where sums beside products take none of their time, transfers hold no computing") {
  Measured m = ideal(100e9, 0.9, 40);
  m.hold->beside = m.hold->alone;
  CHECK(!fit_profile(m, host(), "a test").profile.node.hold_bandwidth);
}

TEST_CASE("links that a busy machine measured alike at every size still have a bandwidth") {
  Measured m = ideal(100e9, 0.9, 40);
  for (LinkRow& row : m.links) row.seconds = 1e-3;
  const hw_profiles::Profile p = fit_profile(m, host(), "a test").profile;
  // The largest, of two ranks: half its bytes in half the time, one hop there and one back.
  const double bytes = static_cast<double>(m.links.back().payload.value()) / 2;
  CHECK(p.node.link_bandwidth.value() == Approx(bytes / 0.5e-3).epsilon(0.001));
}

TEST_CASE("a fitted profile goes through its text as --gpu reads it") {
  const hw_profiles::Profile p = fit_profile(ideal(100e9, 0.9, 40), host(), "a test").profile;
  const auto back = hw_profiles::profile_from_json_text(hw_profiles::to_json_text(p), "me.json");
  REQUIRE(back.ok());
  CHECK(hw_profiles::to_json_text(*back) == hw_profiles::to_json_text(p));
  CHECK(back->gpu == p.gpu);
  CHECK(back->node == p.node);
  CHECK(back->native == p.native);
  CHECK(back->framework == p.framework);
}

TEST_CASE("points that a book holds are not measured again") {
  const Folder folder;
  int bodies = 0;
  const MakeBody make = [&](int rank) {
    if (rank == 0) ++bodies;
    return [] {};
  };
  Point first;
  {
    auto book = PointBook::open(options(folder.file()));
    REQUIRE(book.ok());
    first = book->measure("nothing", make);
    CHECK(first.repeats >= 7);
    CHECK(first.p10 <= first.median);
    CHECK(first.median <= first.p90);
  }
  auto book = PointBook::open(options(folder.file()));
  REQUIRE(book.ok());
  CHECK(book->measure("nothing", make).median == first.median);
  CHECK(bodies == 1);
  book->measure("another", make);
  CHECK(bodies == 2);
}

TEST_CASE("a book of another machine, of other ranks, or no book is refused") {
  const Folder folder;
  {
    auto book = PointBook::open(options(folder.file()));
    REQUIRE(book.ok());
    book->measure("nothing", [](int) { return [] {}; });
  }
  const auto other = PointBook::open(options(folder.file(), 3));
  REQUIRE(!other.ok());
  CHECK(core::to_text(other.problems()).find("/device: expected 3 threads") != std::string::npos);
  std::ofstream(folder.file()) << "[]";
  CHECK(!PointBook::open(options(folder.file())).ok());
}
