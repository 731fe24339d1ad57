#include "reports/validate/collectives.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/csv.hpp"
#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "sim/cost/nccl.hpp"

namespace reports::validation {
namespace {

using program::Collective;

constexpr std::array<std::string_view, 6> kColumns{"id",    "gpu",        "n_gpus",
                                                   "nodes", "collective", "bytes"};
constexpr core::IntRange kGpus{1, 1 << 20};
constexpr std::int64_t kMostBytes = std::int64_t{1} << 44;
constexpr std::size_t kShownWorst = 10;

// Letters and digits, small.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The shipped GPU that "A100-SXM4 80GB" names: of its family, on the card that it says (SXM where
// it says none), of its memory where several are.
std::optional<hw_profiles::Profile> gpu_of(std::string_view text) {
  const std::string said = plain(text);
  const bool pcie = said.find("pcie") != std::string::npos;
  std::optional<std::string> best;
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
    const std::string memory = plain(id.substr(id.rfind('-') + 1));
    if (!best || said.find(memory) != std::string::npos) best = id;
    else if (said.find("gb") == std::string::npos) best = id;  // sorted: the larger
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

void predict(CollectiveRow& row, const Named& named, const cost::Fabric& fabric, bool paired) {
  const cost::Place place{row.gpus, row.nodes, row.gpus / row.nodes, paired};
  const core::Bytes size(row.bytes);
  const auto seconds = [](core::Picoseconds t) { return static_cast<double>(t.value()) * 1e-12; };
  row.choice = "message";
  if (named.kind == Kind::message) {
    row.predicted = seconds(cost::message_time(size, place, fabric, paired));
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

// Reads and predicts one row; the reason where it cannot, empty where the cells themselves are bad.
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
  row.collective = cells.text("collective");
  const auto named = std::ranges::find_if(
      kNames, [&](const Named& n) { return row.collective.starts_with(n.starts); });
  if (named == kNames.end()) return "no collective of a known name: " + row.collective;
  row.collective = named->starts;
  if (row.bytes == 0) return "states no size of a message";
  if (row.gpus < 2) return "one GPU alone";
  if (microseconds > 0) row.measured = microseconds * 1e-6;
  else if (bus > 0)
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
  const bool bridged = topology.find("bridge") != std::string_view::npos;
  if (bridged) {
    const std::string family = row.gpu.substr(0, row.gpu.find('-'));
    const std::string node =
        (family.starts_with("rtx") ? std::string("geforce") : family) + "-nvlink-pairs";
    if (!hw_profiles::use_node(*profile, node, "the row's topology").ok())
      return "no node with bridges for this GPU";
  }
  cost::Fabric fabric = cost::make_fabric(*profile);
  if (const auto gbps = network_gbps(topology))
    fabric.network = core::BytesPerSecond(*gbps * 1.25e8);
  if (gpus / nodes > fabric.gpus_per_node) return "more GPUs on a node than the profile's node has";
  predict(row, *named, fabric, bridged && row.gpus == 2);
  return std::nullopt;
}

std::string_view size_class(std::int64_t bytes) {
  if (bytes < 1 << 20) return "below 1 MiB";
  if (bytes < 16 << 20) return "1 to 16 MiB";
  if (bytes < 256 << 20) return "16 to 256 MiB";
  return "256 MiB and more";
}

struct Group {
  std::string gpu, collective, choice, size;
  int gpus, nodes;
  auto operator<=>(const Group&) const = default;
};
std::map<Group, ErrorScore> groups_of(const CollectiveScores& s) {
  std::map<Group, std::vector<double>> errors;
  for (const CollectiveRow& r : s.rows)
    errors[{r.gpu, r.collective, r.choice, std::string(size_class(r.bytes)), r.gpus, r.nodes}]
        .push_back(r.relative_error());
  std::map<Group, ErrorScore> all;
  for (auto& [group, list] : errors) all.emplace(group, error_score(std::move(list)));
  return all;
}

ErrorScore error_of(const CollectiveScores& s, std::int64_t least) {
  std::vector<double> errors;
  for (const CollectiveRow& r : s.rows)
    if (r.bytes >= least) errors.push_back(r.relative_error());
  return error_score(std::move(errors));
}

struct Summary { std::string_view label; std::int64_t least; };
constexpr std::array kSummaries{Summary{"all sizes", 0}, Summary{"16 MiB and more", 16 << 20},
                                Summary{"256 MiB and more", 256 << 20}};

std::vector<const CollectiveRow*> worst_of(const CollectiveScores& s) {
  std::vector<const CollectiveRow*> worst;
  for (const CollectiveRow& r : s.rows) worst.push_back(&r);
  std::ranges::stable_sort(worst, std::ranges::greater{},
                           [](const CollectiveRow* r) { return std::abs(r->relative_error()); });
  if (worst.size() > kShownWorst) worst.resize(kShownWorst);
  return worst;
}

std::map<std::string, std::size_t> reasons_of(const CollectiveScores& s) {
  std::map<std::string, std::size_t> reasons;
  for (const Skipped& k : s.skipped) ++reasons[k.reason];
  return reasons;
}

}  // namespace

bool holds_collectives(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  return header.find("collective") != std::string_view::npos &&
         header.find("n_gpus") != std::string_view::npos;
}

core::Result<CollectiveScores> score_collectives(std::string_view text, std::string_view source) {
  CollectiveScores out;
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &out.problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns({kColumns.begin(), kColumns.end()}, missing)) return missing;
  for (const core::CsvRow& cells : table->rows()) {
    CollectiveRow row;
    const auto reason = score_row(cells, row, out.problems);
    if (!reason) out.rows.push_back(std::move(row));
    else out.skipped.push_back({row.id, reason->empty() ? "bad input" : *reason});
  }
  return out;
}

std::string collectives_text(const CollectiveScores& s, TextStyle style) {
  std::string text = fmt::format("{} of {} timings predicted\n", s.rows.size(),
                                 s.rows.size() + s.skipped.size());
  for (const Summary& k : kSummaries)
    if (const ErrorScore e = error_of(s, k.least); e.rows > 0)
      text += fmt::format("{:<17} {:>4} rows  mean error {}, median {}, worst {}, bias {}\n",
                          k.label, e.rows, percent_text(e.mape), percent_text(e.median),
                          percent_text(e.most), signed_percent_text(e.bias));
  Table table({{"GPU", Align::left}, {"GPUs"}, {"nodes"}, {"collective", Align::left},
               {"NCCL takes", Align::left}, {"size", Align::left}, {"rows"}, {"error"}, {"bias"}});
  for (const auto& [g, e] : groups_of(s))
    table.add({g.gpu, fmt::format("{}", g.gpus), fmt::format("{}", g.nodes), g.collective, g.choice,
               g.size, fmt::format("{}", e.rows), percent_text(e.mape),
               signed_percent_text(e.bias)});
  if (!table.empty()) text += '\n' + table.text(style);
  Table worst({{"worst", Align::left}, {"bytes"}, {"measured"}, {"predicted"}, {"error"}});
  for (const CollectiveRow* r : worst_of(s))
    worst.add({r->id, fmt::format("{}", r->bytes), fmt::format("{:.1f} us", r->measured * 1e6),
               fmt::format("{:.1f} us", r->predicted * 1e6),
               signed_percent_text(r->relative_error())});
  if (!worst.empty()) text += '\n' + worst.text(style);
  if (!s.skipped.empty()) text += fmt::format("\n{} rows skipped\n", s.skipped.size());
  for (const auto& [reason, count] : reasons_of(s))
    text += wrapped(fmt::format("{} x {}", count, reason), 2, 6, style);
  return text;
}

std::string collectives_page(const CollectiveScores& s, std::string_view file) {
  std::string text = fmt::format(
      "## Collectives\n\n{} of {} timings of `{}` (--collectives) predicted by the model that "
      "plans and "
      "simulations "
      "take, from shipped profiles; the algorithm and protocol are those that NCCL's own model "
      "takes. Nothing of it is fitted on training runs.\n\n"
      "| sizes | rows | mean error | median | worst | bias |\n|---|---|---|---|---|---|\n",
      s.rows.size(), s.rows.size() + s.skipped.size(), file);
  for (const Summary& k : kSummaries) {
    const ErrorScore e = error_of(s, k.least);
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", k.label, e.rows, percent_text(e.mape),
                        percent_text(e.median), percent_text(e.most), signed_percent_text(e.bias));
  }
  text += "\n| GPU | GPUs | nodes | collective | NCCL takes | size | rows | error | bias |\n"
          "|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [g, e] : groups_of(s))
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", g.gpu, g.gpus, g.nodes,
                        g.collective, g.choice, g.size, e.rows, percent_text(e.mape),
                        signed_percent_text(e.bias));
  text += "\nNot predicted:\n\n";
  for (const auto& [reason, count] : reasons_of(s))
    text += fmt::format("- {}: {}\n", count, reason);
  return text + '\n';
}

std::string to_json_text(const CollectiveScores& s) {
  using core::Json;
  Json rows = Json::array(), skipped = Json::array(), by = Json::array();
  for (const CollectiveRow& r : s.rows)
    rows.push_back(Json::object({{"id", r.id},
                                 {"gpu", r.gpu},
                                 {"gpus", std::int64_t{r.gpus}},
                                 {"nodes", std::int64_t{r.nodes}},
                                 {"collective", r.collective},
                                 {"choice", r.choice},
                                 {"bytes", r.bytes},
                                 {"measured_seconds", r.measured},
                                 {"predicted_seconds", r.predicted},
                                 {"relative_error", r.relative_error()}}));
  for (const Skipped& k : s.skipped)
    skipped.push_back(Json::object({{"id", k.id}, {"reason", k.reason}}));
  for (const auto& [g, e] : groups_of(s)) {
    Json one = to_json(e);
    one.set("gpu", g.gpu), one.set("gpus", std::int64_t{g.gpus});
    one.set("nodes", std::int64_t{g.nodes}), one.set("collective", g.collective);
    one.set("choice", g.choice), one.set("size", g.size);
    by.push_back(std::move(one));
  }
  Json root = Json::object({{"schema", "collectives/1"},
                            {"rows", static_cast<std::int64_t>(s.rows.size() + s.skipped.size())},
                            {"predicted", static_cast<std::int64_t>(s.rows.size())},
                            {"all", to_json(error_of(s, 0))},
                            {"large", to_json(error_of(s, 16 << 20))}});
  root.set("by", std::move(by));
  root.set("per_row", std::move(rows));
  root.set("skipped", std::move(skipped));
  return core::dump(root) + '\n';
}

}  // namespace reports::validation
