#include "reports/validate/collectives.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/csv.hpp"
#include "core/json.hpp"
#include "reports/validate/collective_row.hpp"

namespace reports::validation {
namespace {

constexpr std::array<std::string_view, 6> kColumns{"id",    "gpu",        "n_gpus",
                                                   "nodes", "collective", "bytes"};
constexpr std::size_t kShownWorst = 10;

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

std::map<std::string, ErrorScore> networks_of(const CollectiveScores& s) {
  std::map<std::string, std::vector<double>> errors;
  for (const CollectiveRow& r : s.rows) errors[r.network].push_back(r.relative_error());
  std::map<std::string, ErrorScore> all;
  for (auto& [network, list] : errors) all.emplace(network, error_score(std::move(list)));
  return all;
}

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

core::Result<CollectiveScores> score_collectives(
    std::string_view text, std::string_view source,
    const std::function<void(std::string_view)>& progress) {
  CollectiveScores out;
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &out.problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns({kColumns.begin(), kColumns.end()}, missing)) return missing;
  constexpr std::size_t kStretch = 256;  // timings: a quarter of a second
  std::size_t done = 0;
  for (const core::CsvRow& cells : table->rows()) {
    core::stop_point();
    if (progress && done++ % kStretch == 0)
      progress(fmt::format("{}: {} of {} timings predicted", source, done - 1,
                           table->rows().size()));
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
  Table networks({{"network, node", Align::left}, {"rows"}, {"error"}, {"bias"}, {"worst"}});
  for (const auto& [network, e] : networks_of(s))
    networks.add({network, fmt::format("{}", e.rows), percent_text(e.mape),
                  signed_percent_text(e.bias), percent_text(e.most)});
  if (!networks.empty()) text += '\n' + networks.text(style);
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

core::Code collectives_page(const CollectiveScores& s, std::string_view file) {
  core::Code text = core::code(
      "## Collectives\n\n{} of {} timings of `{}` (--collectives) predicted by the model that "
      "plans and "
      "simulations "
      "take, from shipped profiles; the algorithm and protocol are those that NCCL's own model "
      "takes. Nothing of it is fitted on training runs. A row's network is that of the cloud's "
      "node that its words name (TCPXO, TCPX, EFA), else of the node that the GPU usually sits "
      "in. Rows themselves gave EFA's hop (3 rows), what EFA and InfiniBand yield of the wire (a "
      "row each), and rates and hops inside nodes, as the nodes' sources say; TCPXO's gave "
      "nothing.\n\n"
      "| sizes | rows | mean error | median | worst | bias |\n|---|---|---|---|---|---|\n",
      s.rows.size(), s.rows.size() + s.skipped.size(), core::Code::markdown(file));
  for (const Summary& k : kSummaries) {
    const ErrorScore e = error_of(s, k.least);
    text += core::markdown_row(k.label, e.rows, percent_text(e.mape), percent_text(e.median),
                               percent_text(e.most), signed_percent_text(e.bias));
  }
  text += "\n| network: node | rows | error | bias | worst |\n|---|---|---|---|---|\n";
  for (const auto& [network, e] : networks_of(s))
    text += core::markdown_row(network, e.rows, percent_text(e.mape), signed_percent_text(e.bias),
                               percent_text(e.most));
  text += "\n| GPU | GPUs | nodes | collective | NCCL takes | size | rows | error | bias |\n"
          "|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [g, e] : groups_of(s))
    text += core::markdown_row(g.gpu, g.gpus, g.nodes, g.collective, g.choice, g.size, e.rows,
                               percent_text(e.mape), signed_percent_text(e.bias));
  text += "\nNot predicted:\n\n";
  for (const auto& [reason, count] : reasons_of(s))
    text += core::code("- {}: {}\n", count, core::Code::markdown(reason));
  return text + "\n";
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
                                 {"network", r.network},
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
