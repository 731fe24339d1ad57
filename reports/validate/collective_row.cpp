#include "reports/validate/collective_row.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "sim/cost/nccl.hpp"

namespace reports::validation {
namespace {

using program::Collective;

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

// The shipped GPU that "A100-SXM4 80GB" names: of its family (the longest that fits: H200, not
// H20), on the card that it says (SXM where it says none), of its memory where several are.
std::optional<hw_profiles::Profile> gpu_of(std::string_view text) {
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

enum class Kind { collective, message, exchange };
struct Named {
  std::string_view starts;
  Kind kind;
  Collective collective;
};
constexpr std::array kNames{Named{"all_reduce", Kind::collective, Collective::all_reduce},
                            Named{"all_gather", Kind::collective, Collective::all_gather},
                            Named{"reduce_scatter", Kind::collective, Collective::reduce_scatter},
                            Named{"broadcast", Kind::collective, Collective::broadcast},
                            Named{"sendrecv", Kind::message, Collective::all_reduce},
                            Named{"alltoall", Kind::exchange, Collective::all_reduce}};

// Bus bandwidth over algorithm bandwidth, nccl-tests' doc/PERFORMANCE.md.
double bus_factor(const Named& named, double n) {
  if (named.kind == Kind::message || named.collective == Collective::broadcast) return 1;
  if (named.kind == Kind::exchange) return (n - 1) / n;
  return (named.collective == Collective::all_reduce ? 2 : 1) * (n - 1) / n;
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

void predict(CollectiveRow& row, const Named& named, const cost::Fabric& fabric, bool paired) {
  const cost::Place place{row.gpus, row.nodes, row.gpus / row.nodes, paired};
  const core::Bytes size(row.bytes);
  const auto seconds = [](core::Picoseconds t) { return static_cast<double>(t.value()) * 1e-12; };
  row.choice = "message";
  if (named.kind == Kind::message) {
    // Neighbours round a ring at once: those on two nodes are the last to end.
    const bool far = row.nodes > 1;
    const cost::Place two{2, far ? 2 : 1, far ? 1 : 2, paired};
    row.predicted = seconds(cost::message_time(size, two, fabric, paired));
  } else if (named.kind == Kind::exchange) {
    row.choice = "exchange";
    row.predicted = seconds(cost::exchange_time(size, place, fabric));
  } else {
    const cost::CollectiveCost c =
        cost::nccl_collective(named.collective, size, place, fabric, std::nullopt, paired);
    row.choice = fmt::format("{} {}", name(c.method), name(c.protocol));
    row.predicted = seconds(c.time);
  }
}

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

std::optional<std::string> score_row(const core::CsvRow& cells, CollectiveRow& row,
                                     core::Problems& problems) {
  const std::size_t before = problems.size();
  std::int64_t gpus = 0, nodes = 1;
  double microseconds = 0, bus = 0;
  cells.required("id", row.id, problems);
  cells.required("n_gpus", gpus, kGpus, problems);
  cells.required("nodes", nodes, kGpus, problems);
  cells.optional("bytes", row.bytes, core::IntRange{1, kMostBytes}, problems);
  cells.optional("time_us", microseconds, core::positive(), problems);
  cells.optional("busbw_GBps", bus, core::NumberRange{0, 1e9}, problems);
  if (problems.size() == before && gpus % nodes != 0)
    cells.problem("nodes", "a divisor of n_gpus", "as many GPUs on each node", problems);
  if (problems.size() != before) return "";
  row.gpus = static_cast<int>(gpus), row.nodes = static_cast<int>(nodes);
  cells.optional("collective", row.collective, problems);
  const auto named = std::ranges::find_if(
      kNames, [&](const Named& n) { return row.collective.starts_with(n.starts); });
  if (named == kNames.end()) return "no collective of a known name: " + row.collective;
  row.collective = named->starts;
  if (row.bytes == 0) return "states no size of a message";
  if (row.gpus < 2) return "one GPU alone";
  if (microseconds > 0) row.measured = microseconds * 1e-6;
  else if (bus >= kLeastBus)
    row.measured = static_cast<double>(row.bytes) * bus_factor(*named, row.gpus) / (bus * 1e9);
  else return "states neither a time nor a bandwidth above its rounding";
  const std::string_view topology = cells.text("topology");
  if (topology.find("SHARP") != std::string_view::npos)
    return "switches that reduce (SHARP) are not modelled";
  if (cells.text("note").find("uncertain") != std::string_view::npos)
    return "which collective was timed is uncertain";
  std::optional<hw_profiles::Profile> profile = gpu_of(cells.text("gpu"));
  if (!profile) return fmt::format("no profile of the GPU \"{}\"", cells.text("gpu"));
  row.gpu = profile->gpu.id;
  if (auto reason = place_on_network(topology, row, *profile)) return reason;
  cost::Fabric fabric = cost::make_fabric(*profile);
  if (const auto gbps = network_gbps(topology))
    fabric.network = core::BytesPerSecond(*gbps * 1.25e8);
  if (gpus / nodes > fabric.gpus_per_node) return "more GPUs on a node than the profile's node has";
  predict(row, *named, fabric, bridged(topology) && row.gpus == 2);
  return std::nullopt;
}

}  // namespace reports::validation
