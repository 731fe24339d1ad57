#include "reports/html/document.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/json_reader.hpp"
#include "core/parse_units.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "reports/subjects_comparison.hpp"
#include "reports/text.hpp"

namespace reports::html {
namespace {

using core::Json;
using core::JsonReader;

constexpr std::array<std::string_view, 6> kKinds{"plan",    "simulate", "run",
                                                 "compare", "validate", "sweep"};
constexpr core::NumberRange kAny{-1e30, 1e30};

void number(JsonReader& reader, std::string_view key) {
  std::optional<double> value;
  reader.optional(key, value, kAny);
}
void numbers(JsonReader reader, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) number(reader, key);
}
void text(JsonReader& reader, std::string_view key) {
  std::string value;
  reader.required(key, value);
}

void check_loads(JsonReader& loads) {
  for (JsonReader& layer : loads.objects("layers")) {
    text(layer, "layer");
    number(layer, "count");
  }
  for (JsonReader& tier : loads.objects("tiers")) {
    text(tier, "tier");
    numbers(tier, {"links", "bandwidth", "mean", "most", "links_per_cell"});
    std::vector<double> cells;
    tier.required("cells", cells);
    for (JsonReader& worst : tier.objects("worst")) {
      text(worst, "link");
      numbers(worst, {"bytes", "share"});
    }
  }
}

void check_goodput(JsonReader& goodput) {
  numbers(goodput, {"gpu_between_failures", "job_between_failures", "checkpoint_bytes", "save",
                    "behind", "detect", "restart", "spare_nodes", "wait", "interval_steps",
                    "expected", "horizon", "played", "steps", "failures", "lost_steps"});
  if (auto shares = goodput.optional_object("shares"))
    numbers(*shares, {"saving", "repeated", "restarting", "waiting"});
  for (JsonReader& kind : goodput.optional_objects("kinds")) {
    text(kind, "kind");
    numbers(kind, {"parts", "between_failures", "nodes_taken", "repair", "failures"});
  }
  for (JsonReader& rule : goodput.optional_objects("rules")) {
    text(rule, "rule");
    numbers(rule, {"interval_steps", "first_order", "daly", "expected", "played"});
  }
  std::vector<std::string> assumed;
  goodput.optional("assumed", assumed);
}

void check_simulate(JsonReader& root) {
  planner::read_strategy(root.object("strategy"));
  planner::read_time(root.object("time"));
  planner::read_memory(root.object("memory"));
  for (const JsonReader& entry : root.objects("communication"))
    planner::read_communication(entry);
  numbers(root, {"ranks", "ranks_played", "planned_step", "first_step", "critical_rank"});
  for (JsonReader& stream : root.objects("streams")) {
    text(stream, "stream");
    numbers(stream, {"rank", "busy", "idle"});
  }
  for (JsonReader& part : root.objects("critical_path")) {
    text(part, "kind");
    number(part, "seconds");
  }
  for (JsonReader& point : root.optional_objects("scaling")) {
    planner::read_time(point.object("time"));
    numbers(point, {"copies", "gpus", "samples_per_second", "speed_up", "efficiency"});
  }
  if (auto loads = root.optional_object("link_loads")) check_loads(*loads);
  if (auto checkpoint = root.optional_object("checkpoint_traffic")) {
    text(*checkpoint, "to");
    numbers(*checkpoint, {"bytes", "storage", "alone", "behind", "delay", "step"});
  }
  if (auto variation = root.optional_object("variation"))
    numbers(*variation, {"steps", "slowed_steps", "slow_ranks", "mean", "p50", "p95", "p99",
                         "least", "most"});
  if (auto goodput = root.optional_object("goodput")) check_goodput(*goodput);
}

void check_terms(JsonReader& reader) {
  for (JsonReader& term : reader.objects("terms")) {
    text(term, "term");
    numbers(term, {"predicted", "measured", "relative_error"});
  }
}

void check_compare(JsonReader& root) {
  check_terms(root);
  for (JsonReader& subject : root.optional_objects("subjects")) {
    for (const std::string_view key : {"label", "model", "gpu", "summary"}) text(subject, key);
    for (const Figure& figure : figures()) number(subject, figure.key);
  }
  for (JsonReader& run : root.optional_objects("runs")) {
    text(run, "run");
    check_terms(run);
  }
}

void check_validate(JsonReader& root) {
  numbers(root, {"rows", "predicted"});
  numbers(root.object("time"), {"rows", "mape", "median_ape", "p90_ape", "bias"});
  for (const std::string_view key : {"memory", "memory_device"})
    if (const auto memory = root.optional_object(key))
      numbers(*memory, {"rows", "mape", "median_ape", "p90_ape", "max_ape", "bias"});
  numbers(root.object("fit"), {"rows", "correct", "false_fit", "false_oom"});
  numbers(root.object("ranking"), {"groups", "mean_regret", "p90_regret", "kendall_tau"});
  for (JsonReader& row : root.objects("by")) {
    for (const std::string_view key : {"dataset", "framework", "gpu"}) text(row, key);
    numbers(row, {"rows", "mape", "bias"});
  }
  for (JsonReader& row : root.objects("per_row")) {
    text(row, "id");
    text(row, "kind");
    numbers(row, {"measured", "predicted", "relative_error"});
  }
}

void check_sweep(JsonReader& root) {
  for (JsonReader& point : root.objects("points")) {
    text(point, "gpu");
    numbers(point, {"gpus", "seq_len", "global_batch", "step_seconds", "tokens_per_second", "mfu",
                    "device_bytes", "usable_bytes", "training_seconds", "gpu_hours", "cost_usd",
                    "energy_joules"});
    if (const auto strategy = point.optional_object("strategy"))
      planner::read_strategy(*strategy);
  }
}

// "0.0036", "12.80", "4,132", "12.3 M": of the currency that its heading names.
std::string money_text(double amount) {
  if (std::abs(amount) < 0.995) return fmt::format("{:.3g}", amount);
  if (std::abs(amount) < 99.995) return fmt::format("{:.2f}", amount);
  if (std::abs(amount) >= 999'999.5) return core::count_text(std::llround(amount));
  std::string text = fmt::format("{}", std::llround(amount));
  const std::size_t digits = text.size() - (amount < 0 ? 1 : 0);
  if (digits > 3) text.insert(text.size() - 3, ",");
  return text;
}

// Which file this is, or what was expected.
core::Result<DocumentKind> kind_of(const Json& root, std::string_view source) {
  const Json* schema = root.find("schema");
  const std::string expected = fmt::format("\"schema\": one of {}/1", fmt::join(kKinds, "/1, "));
  if (schema == nullptr || !schema->is_string())
    return core::Problem{core::place_of(root, source, ""), expected,
                         schema == nullptr ? "none" : core::describe(*schema),
                         "give files that planner wrote with --out"};
  const std::string& text = schema->as_string();
  const std::size_t slash = text.find('/');
  const auto kind = std::ranges::find(kKinds, std::string_view(text).substr(0, slash));
  const std::string where = core::place_of(*schema, source, "/schema");
  if (kind == kKinds.end())
    return core::Problem{where, expected, core::describe(*schema),
                         "give files that planner wrote with --out"};
  if (slash == std::string::npos || text.substr(slash) != "/1")
    return core::Problem{where, fmt::format("{}/1", *kind), core::describe(*schema),
                         "another version of planner wrote it: use that one, or write it anew"};
  return static_cast<DocumentKind>(kind - kKinds.begin());
}

core::Problems check_shape(const Json& root, DocumentKind kind, std::string_view source) {
  core::Problems problems;
  JsonReader reader(root, std::string(source), "", problems);
  if (kind == DocumentKind::simulate) check_simulate(reader);
  if (kind == DocumentKind::compare) check_compare(reader);
  if (kind == DocumentKind::validate) check_validate(reader);
  if (kind == DocumentKind::sweep) check_sweep(reader);
  return problems;
}

}  // namespace

std::string_view name(DocumentKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

core::Result<Document> parse_document(std::string text, std::string_view source_name) {
  core::Result<Json> root = core::parse_json(text, source_name);
  if (!root.ok()) return root.problems();
  const core::Result<DocumentKind> kind = kind_of(*root, source_name);
  if (!kind.ok()) return kind.problems();
  Document document;
  document.name = source_name;
  document.kind = *kind;
  if (const core::Problems wrong = check_shape(*root, *kind, source_name); !wrong.empty())
    return wrong;
  if (*kind == DocumentKind::plan) {
    core::Result<planner::Plan> plan = planner::parse_plan(text, source_name);
    if (!plan.ok()) return plan.problems();
    document.plan = std::move(plan).value();
  }
  if (*kind == DocumentKind::run) {
    core::Result<exec::RunRecord> run = exec::parse_run(text, source_name);
    if (!run.ok()) return run.problems();
    document.run = std::move(run).value();
  }
  document.root = std::move(root).value();
  return document;
}

std::string shown(const Json& value, Unit unit) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "yes" : "no";
  if (!value.is_number()) return core::dump(value, 0);
  const double x = value.as_double();
  switch (unit) {
    case Unit::bytes:
      return core::to_text(core::Bytes(value.is_int64() ? value.as_int64()
                                                        : static_cast<std::int64_t>(x)));
    case Unit::seconds: return core::to_text(core::Seconds(x));
    case Unit::fraction: return percent_text(x);
    case Unit::count:
      return core::count_text(value.is_int64() ? value.as_int64() : std::llround(x));
    case Unit::money: return money_text(x);
    case Unit::energy: return energy_text(x);
    case Unit::text:
    case Unit::number: return fmt::format("{:.6g}", x);
  }
  return "";
}

const Json* at(const Json& root, std::string_view pointer) {
  const Json* value = &root;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string_view key = pointer.substr(0, end);
    pointer.remove_prefix(end);
    if (value->is_array()) {
      std::size_t i = 0;
      for (const char c : key) i = i * 10 + static_cast<std::size_t>(c - '0');
      value = i < value->size() ? &value->items()[i] : nullptr;
    } else {
      value = value->find(key);
    }
    if (value == nullptr) return nullptr;
  }
  return value;
}

Cell cell(const Document& document, std::string_view pointer, Unit unit) {
  const Json* value = at(document.root, pointer);
  if (value == nullptr || value->is_null()) return words("-");
  return {shown(*value, unit), value->is_number() ? *value : Json(),
          fmt::format("{}{}", document.index, pointer), false};
}

Cell made(Json value, Unit unit) {
  std::string text = shown(value, unit);
  return {std::move(text), std::move(value), "", false};
}

}  // namespace reports::html
