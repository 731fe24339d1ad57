#include "reports/laws.hpp"

#include <array>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "sim/program/collective.hpp"

namespace reports {
namespace {

using core::Json;
using program::Algorithm;
using program::Collective;

// One law: what it says and how the tool computes it. In bytes, d elements of type t, K, M.
struct Law {
  std::string_view law, what, formula, source;
  LawRun run;
  double (*stated)(double d_bytes, double k, double m);
  core::Bytes (*predicted)(const LawQuestion& q);
  std::string_view collective;  // whose counter measures it
  bool payload;                 // the payload, not the wire bytes
};

core::Bytes all_reduce(const LawQuestion& q, Algorithm algorithm) {
  return program::wire_bytes(Collective::all_reduce, algorithm, q.gpus, 0, q.elements, q.type);
}
program::ServerTraffic servers(const LawQuestion& q, int count, bool colocated, int index) {
  return program::server_traffic(q.gpus, count, colocated, index, q.elements, q.type, q.type);
}

constexpr std::array kLaws{
    Law{"C1", "naive all-reduce, per GPU", "d (K - 1)", "[nccl-tests]", LawRun::naive,
        [](double d, double k, double) { return d * (k - 1); },
        [](const LawQuestion& q) { return all_reduce(q, Algorithm::naive_all_reduce); },
        "all_reduce", false},
    Law{"C2", "one server, per GPU", "d", "[parameter-server]", LawRun::one_server,
        [](double d, double, double) { return d; },
        [](const LawQuestion& q) { return servers(q, 1, false, 0).push_per_worker; },
        "parameter_server", false},
    Law{"C2", "one server, the server", "d K", "[parameter-server]", LawRun::one_server,
        [](double d, double k, double) { return d * k; },
        [](const LawQuestion& q) { return servers(q, 1, false, 0).reply_per_server; },
        "parameter_server.server", false},
    Law{"C3", "M servers, per server", "d K / M", "[parameter-server]", LawRun::servers,
        [](double d, double k, double m) { return d * k / m; },
        [](const LawQuestion& q) { return servers(q, q.servers, false, 0).reply_per_server; },
        "parameter_server.server", false},
    Law{"C3", "M servers on workers", "d (K - 1) / M", "[parameter-server]",
        LawRun::colocated_servers,
        [](double d, double k, double m) { return d * (k - 1) / m; },
        [](const LawQuestion& q) { return servers(q, q.servers, true, 0).reply_per_server; },
        "parameter_server.server", false},
    Law{"C4", "ring all-reduce, per GPU", "2 d (K - 1) / K", "[ring]", LawRun::ring,
        [](double d, double k, double) { return 2 * d * (k - 1) / k; },
        [](const LawQuestion& q) { return all_reduce(q, Algorithm::ring); }, "all_reduce", false},
    Law{"C5", "server form: gradients", "d", "[distbelief]", LawRun::one_server,
        [](double d, double, double) { return d; },
        [](const LawQuestion& q) { return servers(q, 1, false, 0).push_per_worker; },
        "parameter_server", false},
    Law{"C5", "server form: weights", "d K", "[distbelief]", LawRun::one_server,
        [](double d, double k, double) { return d * k; },
        [](const LawQuestion& q) { return servers(q, 1, false, 0).reply_per_server; },
        "parameter_server.server", false},
    Law{"C5", "data-parallel form", "d", "[ddp]", LawRun::ring,
        [](double d, double, double) { return d; },
        [](const LawQuestion& q) {
          return program::payload_bytes(Collective::all_reduce, Algorithm::ring, q.gpus, 0,
                                        q.elements, q.type);
        },
        "all_reduce", true},
};

// The counter of gradients and weights, summed over the entries of the collective. The loss has
// an exchange of its own and does not count.
std::optional<std::int64_t> measured(const Law& law, const exec::RunRecord& run) {
  std::int64_t sum = 0;
  for (const exec::MeasuredCommunication& e : run.communication) {
    if (e.collective != law.collective || (e.what != "gradients" && e.what != "parameters"))
      continue;
    const std::optional<core::Bytes> bytes = law.payload ? e.payload : e.wire_per_rank;
    if (!bytes) return std::nullopt;
    sum += bytes->value();
  }
  return sum;
}

std::string difference(const LawRow& row) {
  if (!row.measured) return "-";
  return fmt::format("{}", *row.measured - row.predicted);
}

}  // namespace

std::optional<LawStrategy> law_strategy(LawRun run, const LawQuestion& q) {
  std::vector<std::string> pins{fmt::format("data={}", q.gpus), "sharding=none"};
  const auto server_pins = [&](int count, bool colocated) {
    pins.insert(pins.end(), {"grad_sync=parameter_server", fmt::format("servers={}", count),
                             fmt::format("servers_colocated={}", colocated)});
    return LawStrategy{pins, q.gpus + (colocated ? 0 : count)};
  };
  switch (run) {
    case LawRun::naive: pins.emplace_back("grad_sync=naive_all_reduce"); break;
    case LawRun::ring: pins.emplace_back("grad_sync=ring"); break;
    case LawRun::one_server: return server_pins(1, false);
    case LawRun::servers: return server_pins(q.servers, false);
    case LawRun::colocated_servers:
      if (q.servers > q.gpus) return std::nullopt;
      return server_pins(q.servers, true);
  }
  return LawStrategy{pins, q.gpus};
}

std::vector<LawRow> law_table(const LawQuestion& q,
                              std::span<const std::optional<exec::RunRecord>> runs) {
  PLANNER_CHECK(q.elements >= 1 && q.gpus >= 2 && q.servers >= 1 && runs.size() == kLawRuns);
  const auto d_bytes = static_cast<double>(core::bytes_of(q.elements, q.type).value());
  std::vector<LawRow> rows;
  for (const Law& law : kLaws) {
    if (!law_strategy(law.run, q)) continue;
    const auto& run = runs[static_cast<std::size_t>(law.run)];
    rows.push_back({law.law, law.what, law.formula, law.source, law.run,
                    law.stated(d_bytes, q.gpus, q.servers), law.predicted(q).value(),
                    run ? measured(law, *run) : std::nullopt});
  }
  return rows;
}

std::string to_json_text(const LawQuestion& q, const std::vector<LawRow>& rows) {
  Json array = Json::array();
  for (const LawRow& r : rows)
    array.push_back(Json::object({{"law", r.law},
                                  {"what", r.what},
                                  {"formula", r.formula},
                                  {"stated_bytes", r.stated},
                                  {"predicted_bytes", r.predicted},
                                  {"measured_bytes", r.measured},
                                  {"difference", r.measured ? Json(*r.measured - r.predicted)
                                                            : Json()},
                                  {"source", r.source}}));
  return core::dump(Json::object({{"schema", "laws/1"},
                                  {"elements", q.elements},
                                  {"type", core::name(q.type)},
                                  {"gpus", q.gpus},
                                  {"servers", q.servers},
                                  {"laws", array}})) +
         '\n';
}

std::string laws_text(const LawQuestion& q, const std::vector<LawRow>& rows) {
  Table table({{"law", Align::left}, {"who", Align::left}, {"bytes of", Align::left},
               {"predicted"}, {"measured"}, {"differ"}});
  for (const LawRow& r : rows)
    table.add({std::string(r.law), std::string(r.what), std::string(r.formula),
               std::to_string(r.predicted),
               r.measured ? std::to_string(*r.measured) : std::string("-"), difference(r)});
  return fmt::format("Sent in one step: d = {} elements of {}, K = {} GPUs, M = {} server{}\n",
                     q.elements, core::name(q.type), q.gpus, q.servers,
                     q.servers == 1 ? "" : "s") +
         table.text() +
         "  predicted: the law with the padding that the algorithm needs, in bytes\n";
}

}  // namespace reports
