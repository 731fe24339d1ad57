#include "hw_profiles/failures.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/parse_units.hpp"
#include "core/untrusted.hpp"
#include "hw_profiles/names.hpp"
#include "hw_profiles/parts.hpp"
#include "hw_profiles/quantity_text.hpp"

namespace hw_profiles {
namespace {

constexpr Part kFailures{"failures", "file of failures", "failures/"};
constexpr std::size_t kMostRatesBytes = std::size_t{1} << 20;
constexpr double kMostSwitchNodes = 65536;

class RatesReader {
 public:
  RatesReader(const core::Json& json, std::string_view where)
      : root_(json, std::string(where), "", problems_) {}

  core::Result<FailureRates> run() {
    std::string schema;
    constexpr std::string_view kSchemas[] = {"failures/1"};
    root_.one_of("schema", kSchemas, schema);
    if (root_.required("id", all_.id) && all_.id.empty())
      root_.problem("id", "a text of at least one character", "\"\"");
    root_.optional("about", all_.about);
    std::vector<core::JsonReader> rates = root_.objects("rates");
    if (rates.empty() && problems_.empty())
      root_.problem("rates", "at least one kind of part", "none", "leave the file out");
    for (core::JsonReader& r : rates) read(r);
    root_.allow_only_known();
    if (!problems_.empty()) return problems_;
    return std::move(all_);
  }

 private:
  // ["79000 h", "source"]
  std::optional<std::string> sourced(core::JsonReader& r, std::string_view kind,
                                     std::string_view key, bool needed) {
    core::Json json;
    if (!(needed ? r.required(key, json) : r.optional(key, json))) return std::nullopt;
    if (json.size() == 2 && json.items()[0].is_string() && json.items()[1].is_string()) {
      const std::string text = json.items()[0].as_string(), source = json.items()[1].as_string();
      if (!text.empty() && !source.empty() && !core::hidden_in(text + source)) {
        all_.sources.push_back({fmt::format("{}.{}", kind, key), text, source});
        return text;
      }
    }
    r.problem(key, "[\"value unit\", \"source\"], neither of them empty", core::describe(json),
              "state where the number comes from");
    return std::nullopt;
  }

  std::optional<core::Seconds> duration(core::JsonReader& r, std::string_view kind,
                                        std::string_view key, bool needed) {
    const auto text = sourced(r, kind, key, needed);
    if (!text) return std::nullopt;
    const core::Result<core::Seconds> value = core::parse_duration(*text, key);
    if (value.ok()) return *value;
    const core::Problem& p = value.problems().front();
    r.problem(key, p.expected, p.found, p.fix);
    return std::nullopt;
  }

  void read(core::JsonReader& r) {
    FailureRate rate;
    if (!r.named("kind", kFailing, rate.what)) return;
    const std::string kind(name(rate.what));
    if (std::ranges::find(all_.rates, rate.what, &FailureRate::what) != all_.rates.end())
      r.problem("kind", "each kind once", '"' + kind + "\" twice", "add up their rates");
    if (const auto between = duration(r, kind, "between", true)) rate.between = *between;
    if (rate.between.value() <= 0 && problems_.empty())
      r.problem("between", "a duration above 0", "0", "leave out what never fails");
    rate.repair = duration(r, kind, "repair", false);
    if (rate.what == Failing::a_switch) read_nodes(r, kind, rate);
    r.allow_only_known();
    all_.rates.push_back(rate);
  }

  void read_nodes(core::JsonReader& r, const std::string& kind, FailureRate& rate) {
    const auto text = sourced(r, kind, "nodes", true);
    if (!text) return;
    const core::Result<double> nodes = parse_quantity(*text, Kind::count);
    if (nodes.ok() && *nodes <= kMostSwitchNodes)
      rate.nodes = static_cast<std::int64_t>(*nodes);
    else
      r.problem("nodes", fmt::format("a number of nodes from 1 to {:.0f}", kMostSwitchNodes),
                '"' + *text + '"');
  }

  core::Problems problems_;
  core::JsonReader root_;
  FailureRates all_;
};

}  // namespace

std::string_view name(Failing what) {
  constexpr std::array<std::string_view, 5> kNames{"gpu", "node", "network", "switch", "software"};
  return kNames[static_cast<std::size_t>(what)];
}

std::vector<std::string> failure_names() { return ids(kFailures); }

core::Result<FailureRates> failures_from_json_text(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  return RatesReader(*json, where).run();
}

core::Result<FailureRates> find_failures(const std::string& wanted) {
  if (const core::EmbeddedFile* file = shipped_file(kFailures, wanted))
    return failures_from_json_text(file->text, file->name);
  if (!is_path(wanted)) return unknown(wanted, kFailures, "--failures");
  const auto text = core::read_file(wanted, kMostRatesBytes);
  if (!text.ok()) return text.problems();
  return failures_from_json_text(*text, wanted);
}

}  // namespace hw_profiles
