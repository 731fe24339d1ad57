// NCCL's choice and the time of collectives, against hand-worked values and published runs.

#include "sim/cost/nccl.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hw_profiles/load.hpp"
#include "tests/catch.hpp"

namespace {

using namespace cost;
using program::Collective;

Fabric fabric_of(const std::string& gpu, const std::string& node = "") {
  hw_profiles::Profile profile = *hw_profiles::find_profile(gpu);
  if (!node.empty()) REQUIRE(hw_profiles::use_node(profile, node, "test").ok());
  return make_fabric(profile);
}

core::Bytes mib(std::int64_t n) { return core::mib(n); }

CollectiveCost reduce(core::Bytes size, const Place& place, const Fabric& f) {
  return nccl_collective(Collective::all_reduce, size, place, f);
}

// Rows of measured/nccl_busbw.csv. 001-022: 2 x 8 H100, GCP A3 Mega, 8 x 200 Gbit/s (lessizzmore,
// ztan-NCCL-test-result). 046-057: A100, facebookresearch gcm, check_nccl samples. 058-061:
// li-plus/playground, cuda/nccl.md. 083-137: stas00/ml-engineering, network/README.md and
// benchmarks (times from bus bandwidth). Rows whose machine is not stated, whose collective is
// uncertain, that reduce inside InfiniBand switches, or whose GPU has no profile are left out, and
// so is 084, whose bandwidth is one digit.
struct Row {
  const char* id;
  const char* gpu;
  const char* node;  // "": the GPU's own
  int ranks, nodes;
  bool message;
  std::int64_t bytes;
  double microseconds;
};
constexpr Row kRows[] = {
    {"nccl-001", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 1024, 147.1},
    {"nccl-002", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 8192, 131.6},
    {"nccl-003", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 16384, 138.6},
    {"nccl-004", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 32768, 155.2},
    {"nccl-005", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 65536, 159.4},
    {"nccl-006", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 131072, 159.3},
    {"nccl-007", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 262144, 167.1},
    {"nccl-008", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 524288, 174.2},
    {"nccl-009", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 1048576, 203.2},
    {"nccl-010", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 2097152, 254.0},
    {"nccl-011", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 4194304, 364.6},
    {"nccl-012", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 8388608, 571.9},
    {"nccl-013", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 16777216, 977.6},
    {"nccl-014", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 33554432, 1059.9},
    {"nccl-015", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 67108864, 1261.6},
    {"nccl-016", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 134217728, 1652.2},
    {"nccl-017", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 268435456, 2360.9},
    {"nccl-018", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 536870912, 3817.5},
    {"nccl-019", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 1073741824, 6759.0},
    {"nccl-020", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 2147483648, 12646.0},
    {"nccl-021", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 4294967296, 24361.0},
    {"nccl-022", "h100-sxm-80g", "gcp-a3-mega", 16, 2, false, 8589934592, 47535.0},
    {"nccl-046", "a100-sxm-80g", "", 8, 1, false, 33554432, 344.8},
    {"nccl-047", "a100-sxm-80g", "", 8, 1, false, 67108864, 557.4},
    {"nccl-048", "a100-sxm-80g", "", 8, 1, false, 134217728, 1149.9},
    {"nccl-049", "a100-sxm-80g", "", 8, 1, false, 268435456, 2106.1},
    {"nccl-050", "a100-sxm-80g", "", 8, 1, false, 536870912, 4145.6},
    {"nccl-051", "a100-sxm-80g", "", 8, 1, false, 1073741824, 8109.1},
    {"nccl-052", "a100-sxm-80g", "", 16, 2, false, 33554432, 650.2},
    {"nccl-053", "a100-sxm-80g", "", 16, 2, false, 67108864, 956.9},
    {"nccl-054", "a100-sxm-80g", "", 16, 2, false, 134217728, 1740.3},
    {"nccl-055", "a100-sxm-80g", "", 16, 2, false, 268435456, 2966.1},
    {"nccl-056", "a100-sxm-80g", "", 16, 2, false, 536870912, 5693.6},
    {"nccl-057", "a100-sxm-80g", "", 16, 2, false, 1073741824, 11013.0},
    {"nccl-058", "a100-sxm-80g", "", 8, 1, true, 134217728, 1211.2},
    {"nccl-059", "a100-sxm-80g", "", 8, 1, true, 268435456, 1423.3},
    {"nccl-060", "a100-sxm-80g", "", 8, 1, true, 536870912, 2785.4},
    {"nccl-061", "a100-sxm-80g", "", 8, 1, true, 1073741824, 5503.4},
    {"nccl-083", "b200-sxm-180g", "", 8, 1, false, 32768, 47.8},
    {"nccl-085", "b200-sxm-180g", "", 8, 1, false, 262144, 48.1},
    {"nccl-086", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 262144, 381.9},
    {"nccl-087", "b200-sxm-180g", "", 8, 1, false, 1048576, 50.9},
    {"nccl-088", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 1048576, 378.3},
    {"nccl-089", "b200-sxm-180g", "", 8, 1, false, 2097152, 58.2},
    {"nccl-090", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 2097152, 391.4},
    {"nccl-091", "b200-sxm-180g", "", 8, 1, false, 4194304, 96.0},
    {"nccl-092", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 4194304, 430.0},
    {"nccl-093", "b200-sxm-180g", "", 8, 1, false, 8388608, 116.1},
    {"nccl-094", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 8388608, 462.8},
    {"nccl-095", "b200-sxm-180g", "", 8, 1, false, 16777216, 115.2},
    {"nccl-096", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 16777216, 504.5},
    {"nccl-097", "b200-sxm-180g", "", 8, 1, false, 33554432, 180.1},
    {"nccl-098", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 33554432, 712.9},
    {"nccl-099", "b200-sxm-180g", "", 8, 1, false, 67108864, 293.2},
    {"nccl-100", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 67108864, 829.5},
    {"nccl-101", "b200-sxm-180g", "", 8, 1, false, 134217728, 413.2},
    {"nccl-102", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 134217728, 1313.8},
    {"nccl-103", "b200-sxm-180g", "", 8, 1, false, 268435456, 727.1},
    {"nccl-104", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 268435456, 2270.3},
    {"nccl-105", "b200-sxm-180g", "", 8, 1, false, 536870912, 1363.6},
    {"nccl-106", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 536870912, 3182.0},
    {"nccl-107", "b200-sxm-180g", "", 8, 1, false, 1073741824, 2597.7},
    {"nccl-108", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 1073741824, 5747.1},
    {"nccl-109", "b200-sxm-180g", "", 8, 1, false, 2147483648, 5113.3},
    {"nccl-110", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 2147483648, 11172.2},
    {"nccl-111", "b200-sxm-180g", "", 8, 1, false, 4294967296, 10148.2},
    {"nccl-112", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 4294967296, 22053.1},
    {"nccl-113", "b200-sxm-180g", "", 8, 1, false, 8589934592, 17915.5},
    {"nccl-114", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 8589934592, 43752.5},
    {"nccl-115", "b200-sxm-180g", "", 8, 1, false, 17179869184, 35551.4},
    {"nccl-116", "b200-sxm-180g", "aws-p6-b200", 32, 4, false, 17179869184, 87181.8},
    {"nccl-137", "h200-sxm-141g", "", 8, 1, false, 17179869184, 62341.4},
};

double predicted(const Row& row) {
  const Fabric f = fabric_of(row.gpu, row.node);
  const Place place{row.ranks, row.nodes, row.ranks / row.nodes};
  const core::Bytes size(row.bytes);
  const core::Picoseconds t = row.message ? message_time(size, place, f)
                                          : reduce(size, place, f).time;
  return static_cast<double>(t.value()) * 1e-6;
}

double microseconds(const CollectiveCost& c) { return static_cast<double>(c.time.value()) * 1e-6; }

}  // namespace

TEST_CASE("published collectives are predicted within the errors that were seen") {
  std::vector<double> all, clouds, large;
  for (const Row& row : kRows) {
    const double error = std::abs(predicted(row) / row.microseconds - 1);
    UNSCOPED_INFO(row.id << " " << row.bytes << " B: " << predicted(row) << " us, measured "
                         << row.microseconds << ", error " << error);
    all.push_back(error);
    if (*row.node != '\0') clouds.push_back(error);
    if (row.bytes >= 256 << 20) large.push_back(error);
  }
  std::ranges::sort(all);
  std::ranges::sort(clouds);
  std::ranges::sort(large);
  // The worst is a message of 128 MiB between two A100, slower than one of 256 MiB beside it.
  CHECK(all[all.size() / 2] < 0.06);
  CHECK(all.back() < 0.53);
  // Networks of clouds from 1 KiB to 16 GiB: TCPXO and EFA.
  CHECK(clouds[clouds.size() / 2] < 0.04);
  CHECK(clouds.back() < 0.31);
  CHECK(large[large.size() / 2] < 0.035);
  CHECK(large.back() < 0.20);
}

TEST_CASE("the bandwidth of large all-reduces in one node is NCCL's closed form") {
  // 8 x H100: multicast 0.85 x 2 x 40 GB/s x 7 = 476 bus, 476 x 8 / 14 = 272 GB/s of payload.
  // 2 GiB: 2 x 25 us + 2147483648 B / 272 GB/s, and the first step of 16 channels x 8 heads x
  // 128 KiB = 16 MiB passes two stages before: 50 + 7895 + 2 x 62 = 8069 us.
  const CollectiveCost nvls = reduce(mib(2048), {8, 1, 8}, fabric_of("h100-sxm-80g"));
  CHECK(nvls.method == Method::nvls);
  CHECK(microseconds(nvls) == Approx(50 + (2147483648e-3 + 2 * 16777216e-3) / 272));
  // Four GPUs: 306 of multicast is less than the ring's 367.
  CHECK(reduce(mib(2048), {4, 1, 4}, fabric_of("h100-sxm-80g")).method == Method::ring);
  // 8 x A100 cannot multicast; 14 hops of 3.1 + 2 x (3.4 - 0.6) us; 2 x 7/8 S / 234.9 GB/s.
  const CollectiveCost ring = reduce(mib(2048), {8, 1, 8}, fabric_of("a100-sxm-80g"));
  CHECK(ring.method == Method::ring);
  CHECK(ring.protocol == Protocol::simple);
  CHECK(microseconds(ring) == Approx(14 * 8.7 + 2147483648e-3 * 1.75 / 234.9));
}

TEST_CASE("a tree is a pipeline: the first step passes every hop, the rest follow at its pace") {
  // 2 x 8 H100 over TCPXO, Simple alone: 14 hops inside of 2.9 + 2 x 2.8 us and 2 between of 14 us.
  // A step has 16 channels x 8 MiB / 8 = 16 MiB; it passes 14 hops of 367.2 GB/s and 2 of 188.
  const Fabric f = fabric_of("h100-sxm-80g", "gcp-a3-mega");
  const auto time = [&](std::int64_t size) {
    const CollectiveCost c = reduce(mib(size), {16, 2, 8}, f);
    CHECK(c.method == Method::tree);
    CHECK(c.protocol == Protocol::simple);
    return microseconds(c);
  };
  const double start = 14 * 8.5 + 2 * 14, each = 14 / 367.2 + 2 / 188.0, mebi = 1048.576;
  CHECK(time(1) == Approx(start + mebi * each));
  CHECK(time(16) == Approx(start + 16 * mebi * each));
  CHECK(time(64) == Approx(start + 16 * mebi * each + 48 * mebi * 2 / 367.2));
}

TEST_CASE(
    "a stated latency moves NCCL's choice, what the wire yields the time, neither the other") {
  const Place place{16, 2, 8};
  const Fabric plain = fabric_of("h100-sxm-80g");
  Fabric stated = plain, slow = plain, simple = plain;
  stated.stated_latency = core::Seconds(75e-6);
  slow.network_efficiency = 0.5;
  simple.low_latency = false;
  bool moved = false;
  for (std::int64_t size = 1024; size <= std::int64_t{1} << 33; size *= 2) {
    INFO(size);
    const core::Bytes bytes(size);
    const CollectiveCost as_is = reduce(bytes, place, plain), told = reduce(bytes, place, stated);
    moved = moved || told.method != as_is.method || told.protocol != as_is.protocol;
    for (const Method m : {Method::ring, Method::tree, Method::nvls_tree}) {
      const auto of = [&](const Fabric& f) {
        return nccl_collective(Collective::all_reduce, bytes, place, f, m);
      };
      if (of(stated).protocol == of(plain).protocol) CHECK(of(stated).time == of(plain).time);
      CHECK(of(slow).protocol == of(plain).protocol);
      CHECK(of(slow).time >= of(plain).time);
      CHECK(of(simple).protocol == Protocol::simple);
    }
    CHECK(reduce(bytes, place, slow).method == as_is.method);
  }
  CHECK(moved);
  // A slower hop costs each protocol in proportion of NCCL's steps: LL 2.7 of Simple's 14 us.
  Fabric far = plain;
  far.network_hop = core::Seconds(84e-6);
  const auto ring = [&](const Fabric& f, std::int64_t size) {
    return microseconds(
        nccl_collective(Collective::all_reduce, core::Bytes(size), place, f, Method::ring));
  };
  CHECK(ring(far, 1024) - ring(plain, 1024) == Approx(2 * 70 * 2.7 / 14));
  CHECK(ring(far, 1 << 30) - ring(plain, 1 << 30) == Approx(2 * 70));
}

TEST_CASE("gathers and scatters gain nothing from multicast: every link carries every shard") {
  // 8 x H200, 16 GiB: 361.4 and 362.9 GB/s of bus (stas00/ml-engineering, network/README.md).
  const double bus = 17179869184e-3 * 7 / 8;
  for (const auto& [collective, measured] : {std::pair{Collective::all_gather, 361.4},
                                             std::pair{Collective::reduce_scatter, 362.9}}) {
    const CollectiveCost c =
        nccl_collective(collective, mib(16384), {8, 1, 8}, fabric_of("h200-sxm-141g"));
    CHECK(c.method == Method::ring);
    CHECK(bus / (static_cast<double>(c.time.value()) * 1e-6) == Approx(measured).epsilon(0.02));
  }
}

TEST_CASE("small messages take the low-latency protocol, large ones Simple") {
  for (const char* gpu : {"a100-sxm-80g", "h100-sxm-80g", "rtx3090", "a100-pcie-80g"}) {
    INFO(gpu);
    CHECK(reduce(core::Bytes(1024), {8, 1, 8}, fabric_of(gpu)).protocol == Protocol::ll);
    CHECK(reduce(mib(1024), {8, 1, 8}, fabric_of(gpu)).protocol == Protocol::simple);
    CHECK(reduce(core::Bytes(1024), {64, 8, 8}, fabric_of(gpu)).method == Method::tree);
  }
}

TEST_CASE("a group of one is free and time grows with the message for a fixed choice") {
  const Fabric f = fabric_of("h100-sxm-80g");
  CHECK(reduce(mib(64), {1, 1, 1}, f).time.value() == 0);
  for (const Place& place : {Place{2, 1, 2}, Place{8, 1, 8}, Place{16, 2, 8}, Place{8, 8, 1}}) {
    for (int m = 0; m < 5; ++m) {
      const auto method = static_cast<Method>(m);
      for (const Collective c : {Collective::all_reduce, Collective::all_gather}) {
        if (!allowed(c, method, place, f)) continue;
        const auto time = [&](std::int64_t size) {
          return nccl_collective(c, mib(size), place, f, method).time;
        };
        CHECK(time(64) < time(128));
        CHECK(time(128) < time(4096));
      }
    }
  }
}

TEST_CASE("copies through host memory lose against peer access, and pairs against neither") {
  // C6: the same cards and message, once with peer access over PCIe, once through host memory.
  const Fabric peer = fabric_of("rtx-a5000"), staged = fabric_of("rtx-a5000", "geforce-box");
  const Fabric pairs = fabric_of("rtx-a5000", "geforce-nvlink-pairs");
  for (const int ranks : {2, 4, 8}) {
    const Place place{ranks, 1, ranks};
    CHECK(reduce(mib(64), place, staged).time > reduce(mib(64), place, peer).time);
    CHECK(message_time(mib(64), place, staged) > message_time(mib(64), place, peer));
  }
  const Place two{2, 1, 2};
  CHECK(message_time(mib(64), two, pairs, true) < message_time(mib(64), two, peer));
  CHECK(message_time(mib(64), two, pairs, false) == message_time(mib(64), two, staged));
  // Two copies through a host of 20 GB/s: eight GPUs leave 20 / 16 = 1.25 GB/s to each.
  hw_profiles::Profile slow = *hw_profiles::find_profile("rtx3090");
  REQUIRE(hw_profiles::set(slow, "node.host_bandwidth", "20 GB/s", "test").ok());
  CHECK(make_fabric(slow).ring.value() == Approx(1.25e9));
}

TEST_CASE("a group of a mesh has the links that stay inside it: 1, 4 and 6 of a V100's") {
  const Fabric mesh = fabric_of("v100-sxm-32g"), flat = fabric_of("v100-sxm-32g", "dgx2-v100");
  // S = 4 GiB: seconds x rate / S = 2 (n - 1) / n. 20, 40 x 2 and 40 x 3 GB/s for 2, 4 and 8 GPUs.
  const double bytes = 4294967296.0;
  const auto rate = [&](int n) {
    const core::Seconds t = core::to_seconds(
        nccl_collective(Collective::all_reduce, core::gib(4), {n, 1, n}, mesh, Method::ring).time);
    return bytes / t.value() * 2 * (n - 1) / n / 1e9;
  };
  CHECK(rate(2) == Approx(20).epsilon(0.01));
  CHECK(rate(4) == Approx(80).epsilon(0.01));
  CHECK(rate(8) == Approx(120).epsilon(0.01));
  // A message has its one link, on a switch all six.
  const Place two{2, 1, 2}, eight{8, 1, 8};
  CHECK(core::to_seconds(message_time(core::gib(4), two, mesh)).value() ==
        Approx(bytes / 20e9).epsilon(0.001));
  CHECK(message_time(core::gib(4), eight, mesh) == message_time(core::gib(4), two, mesh));
  CHECK(core::to_seconds(message_time(core::gib(4), two, flat)).value() ==
        Approx(bytes / 117e9).epsilon(0.001));
  CHECK_FALSE(allowed(Collective::all_reduce, Method::nvls, eight, mesh));
  CHECK_FALSE(allowed(Collective::all_reduce, Method::nvls, eight, flat));
}

TEST_CASE("as many channels as NCCL fits on a card's links, twice") {
  CHECK(fabric_of("v100-sxm-32g").channels == 12);   // 6 x 20 GB/s
  CHECK(fabric_of("a100-sxm-80g").channels == 24);   // 12 x 20
  CHECK(fabric_of("h800-sxm-80g").channels == 16);   // 164.8 / 20 = 8.24
  CHECK(fabric_of("h100-sxm-80g").channels == 24);   // 12 of 30 are seen
  CHECK(fabric_of("t4").channels == 4);
  CHECK(fabric_of("rtx5090").channels == 2);
}

TEST_CASE("a token is sent once to each rank and node that hold some of its experts") {
  // 8 ranks on 2 nodes of 4, 8 experts, two of them chosen, 1,000 bytes a token, 1,000 tokens. A
  // rank has one expert: a token's two are on two ranks, 1 / 8 of the time one is its own. None of
  // the other node's four is chosen with probability (4 x 3) / (8 x 7).
  Fabric f;
  f.gpus_per_node = 4;
  f.ring = core::BytesPerSecond(1e9);
  f.network = core::BytesPerSecond(40e9);
  f.hop = core::Seconds(2e-6);
  f.network_hop = core::Seconds(10e-6);
  const auto seconds = [&](Place place, Routed routed) {
    const core::Bytes copies(1'000'000 * routed.chosen);
    return static_cast<double>(once_each_time(copies, routed, place, f).value()) * 1e-12;
  };
  CHECK(seconds({8, 2, 4}, {8, 2}) == Approx(12e-6 + 1e6 * 2 * 7 / 8 / 1e9));
  f.ring = core::BytesPerSecond(1e12);
  CHECK(seconds({8, 2, 4}, {8, 2}) == Approx(12e-6 + 4 * 1e6 * (1 - 12.0 / 56) / 40e9));
  CHECK(seconds({8, 1, 8}, {8, 2}) == Approx(2e-6 + 1e6 * 2 * 7 / 8 / 1e12));
  // Experts of one of two groups alone, which are the nodes: half of the tokens go to the other
  // one, and there both copies do.
  const Routed grouped{8, 2, 2, 1};
  CHECK(seconds({8, 2, 4}, grouped) == Approx(12e-6 + 4 * 1e6 * 0.5 / 40e9));
  // Two of four groups, of two experts each: a node has both, one or none of them, by 1, 4 and 1
  // of 6 ways; of one, both experts are the other's with probability (2 x 1) / (4 x 3).
  CHECK(seconds({8, 2, 4}, {8, 2, 4, 2}) ==
        Approx(12e-6 + 4 * 1e6 * (1 + 4 * (1 - 2.0 / 12)) / 6 / 40e9));
  // Both of 8 experts are on one of two ranks now and then: fewer than two copies.
  CHECK(seconds({2, 1, 2}, {8, 2}) == Approx(2e-6 + 1e6 * (1 - 12.0 / 56) / 1e12));
}

TEST_CASE("an exchange moves near and far parts at once") {
  // 8 ranks on 2 nodes of 4, S = 8 MB, 1 MB to each: far 4 x 4 MB over 40 GB/s = 400 us, near
  // 3 MB at 100 GB/s = 30 us; 7 messages of 10 us to start.
  Fabric f;
  f.gpus_per_node = 4;
  f.ring = core::BytesPerSecond(100e9);
  f.network = core::BytesPerSecond(40e9);
  f.network_hop = core::Seconds(10e-6);
  const core::Picoseconds t = exchange_time(core::Bytes(8'000'000), {8, 2, 4}, f);
  CHECK(static_cast<double>(t.value()) * 1e-6 == Approx(70 + 400));
}
