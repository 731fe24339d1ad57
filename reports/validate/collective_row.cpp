#include "reports/validate/collective_row.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "hw_profiles/load.hpp"

namespace reports::validation {
namespace {

constexpr core::IntRange kGpus{1, 1 << 20};
constexpr double kLeastBus = 0.1;  // GB/s; tables print two decimals: 5 % and more below
constexpr std::int64_t kMostBytes = std::int64_t{1} << 44;

// Letters and digits, small.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::optional<hw_profiles::Profile> gpu_called(std::string_view text) {
  const std::string said = plain(text);
  const bool pcie = said.find("pcie") != std::string::npos;
  std::optional<std::string> best;
  std::size_t longest = 0;
  for (const std::string& id : hw_profiles::profile_names()) {
    const std::string family = id.substr(0, id.find('-'));
    const bool carded =
        id.find("-sxm") != std::string::npos || id.find("-pcie") != std::string::npos;
    if (!said.starts_with(family) ||
        (said.size() > family.size() && !carded &&
         std::isdigit(static_cast<unsigned char>(said[family.size()]))))
      continue;
    if (carded ? (id.find("-pcie") != std::string::npos) != pcie
               : id.find('-') != std::string::npos)
      continue;
    if (family.size() < longest) continue;
    const std::string memory = plain(id.substr(id.rfind('-') + 1));
    if (family.size() > longest || said.find(memory) != std::string::npos) best = id;
    else if (said.find("gb") == std::string::npos) best = id;  // sorted: the larger
    longest = family.size();
  }
  if (!best) return std::nullopt;
  auto profile = hw_profiles::find_profile(*best);
  if (!profile.ok()) return std::nullopt;
  return std::move(profile).value();
}

namespace {

// "8x400Gb/s": cards of a node times their rate.
std::optional<double> network_gbps(std::string_view topology) {
  const std::size_t unit = topology.find("Gb/s");
  if (unit == std::string_view::npos) return std::nullopt;
  const auto number_before = [&](std::size_t end) {
    std::size_t begin = end;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(topology[begin - 1])) != 0) --begin;
    return std::pair(
        begin, begin < end ? std::stod(std::string(topology.substr(begin, end - begin))) : 0.0);
  };
  const auto [rate_at, rate] = number_before(unit);
  if (rate <= 0 || rate_at == 0 || topology[rate_at - 1] != 'x') return std::nullopt;
  const double cards = number_before(rate_at - 1).second;
  return cards > 0 ? std::optional(cards * rate) : std::nullopt;
}

bool bridged(std::string_view topology) {
  return topology.find("bridge") != std::string_view::npos;
}

// Words of `topology` and the nodes of clouds that have that network; the first that this GPU sits
// in is taken. InfiniBand and RoCE are what the GPUs' own nodes have.
struct Network {
  std::string_view word;
  std::array<std::string_view, 5> nodes;
};
constexpr std::array kNetworks{
    Network{"TCPXO", {"gcp-a3-mega"}}, Network{"TCPX", {"gcp-a3-high"}},
    Network{"EFA", {"aws-p4d", "aws-p4de", "aws-p5", "aws-p5en", "aws-p6-b200"}},
    Network{"IB", {}}, Network{"RoCE", {}}};

// The profile on the machine that `topology` tells of, and its name in row.network: a cloud's node
// where its words say one that has this GPU, cards in bridged pairs, else the GPU's own node. Its
// reason where there is none.
std::optional<std::string> place_on_network(std::string_view topology, CollectiveRow& row,
                                            hw_profiles::Profile& profile) {
  const std::string source = "the row's topology";
  if (bridged(topology)) {
    const std::string family = row.gpu.substr(0, row.gpu.find('-'));
    const std::string node =
        (family.starts_with("rtx") ? std::string("geforce") : family) + "-nvlink-pairs";
    if (!hw_profiles::use_node(profile, node, source).ok())
      return "no node with bridges for this GPU";
  }
  if (row.nodes == 1) {
    row.network = "inside a node";
    return std::nullopt;
  }
  const auto said = std::ranges::find_if(kNetworks, [&](const Network& n) {
    return topology.find(n.word) != std::string_view::npos;
  });
  const std::string word(said != kNetworks.end() ? said->word : "not said");
  if (said != kNetworks.end())
    for (const std::string_view node : said->nodes)
      if (!node.empty() && hw_profiles::use_node(profile, std::string(node), source).ok()) {
        row.network = fmt::format("{}: {}", word, node);
        return std::nullopt;
      }
  row.network = fmt::format("{}: {}, the GPU's own", word, profile.node.id);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_timing(const core::CsvRow& cells, Timing& timing,
                                       core::Problems& problems) {
  const std::size_t before = problems.size();
  std::int64_t gpus = 0, nodes = 1, bytes = 0;
  double microseconds = 0, bus = 0;
  cells.required("n_gpus", gpus, kGpus, problems);
  cells.required("nodes", nodes, kGpus, problems);
  cells.optional("bytes", bytes, core::IntRange{1, kMostBytes}, problems);
  cells.optional("time_us", microseconds, core::positive(), problems);
  cells.optional("busbw_GBps", bus, core::NumberRange{0, 1e9}, problems);
  if (problems.size() == before && gpus % nodes != 0)
    cells.problem("nodes", "a divisor of n_gpus", "as many GPUs on each node", problems);
  if (problems.size() != before) return "";
  const std::string_view called = cells.text("collective");
  const auto pattern = pattern_called(called);
  if (!pattern) return "names no known collective: " + std::string(called);
  timing = {*pattern, static_cast<int>(gpus), static_cast<int>(nodes), core::Bytes(bytes), {}};
  if (bytes == 0) return "states no size of a message";
  if (gpus < 2) return "has one GPU alone";
  if (microseconds > 0)
    timing.time = core::Seconds(microseconds * 1e-6);
  else if (bus >= kLeastBus)
    timing.time =
        timing.bytes / core::BytesPerSecond(bus * 1e9) * bus_factor(*pattern, timing.gpus);
  else
    return "states neither a time nor a bandwidth above its rounding";
  return std::nullopt;
}

std::optional<std::string> score_row(const core::CsvRow& cells, CollectiveRow& row,
                                     core::Problems& problems) {
  Timing timing;
  cells.required("id", row.id, problems);
  if (auto reason = read_timing(cells, timing, problems)) return reason;
  row.gpus = timing.gpus, row.nodes = timing.nodes, row.bytes = timing.bytes.value();
  row.collective = timing.pattern.name;
  row.measured = timing.time.value();
  const std::string_view topology = cells.text("topology");
  if (topology.find("SHARP") != std::string_view::npos)
    return "switches that reduce (SHARP) are not modelled";
  if (cells.text("note").find("uncertain") != std::string_view::npos)
    return "which collective was timed is uncertain";
  std::optional<hw_profiles::Profile> profile = gpu_called(cells.text("gpu"));
  if (!profile) return fmt::format("no profile of the GPU \"{}\"", cells.text("gpu"));
  row.gpu = profile->gpu.id;
  if (auto reason = place_on_network(topology, row, *profile)) return reason;
  cost::Fabric fabric = cost::make_fabric(*profile);
  if (const auto gbps = network_gbps(topology))
    fabric.network = core::BytesPerSecond(*gbps * 1.25e8);
  if (row.gpus / row.nodes > fabric.gpus_per_node)
    return "more GPUs on a node than the profile's node has";
  const PredictedTiming predicted =
      predicted_timing(timing, fabric, bridged(topology) && row.gpus == 2);
  row.choice = predicted.choice;
  row.predicted = predicted.time.value();
  return std::nullopt;
}

}  // namespace reports::validation
