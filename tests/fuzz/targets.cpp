#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <string>

#include "core/check.hpp"
#include "core/csv.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "exec/record/run_record.hpp"
#include "hw_profiles/fabric.hpp"
#include "hw_profiles/failures.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/quantity_text.hpp"
#include "hw_profiles/site.hpp"
#include "models/spec_file.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/pins.hpp"
#include "reports/comparison.hpp"
#include "reports/emit/emit.hpp"
#include "reports/html/build_page.hpp"
#include "reports/html/document.hpp"
#include "reports/imports/imports.hpp"
#include "reports/logs/training_log.hpp"
#include "reports/validate/nccl_tests.hpp"
#include "sim/chakra/read.hpp"
#include "sim/program/trace_scope.hpp"

namespace fuzz {
namespace {

constexpr const char* kName = "input";

// What is refused says why.
template <class T>
bool read(const core::Result<T>& result) {
  if (result.ok()) return true;
  PLANNER_CHECK(!result.problems().empty(), "refused without a reason");
  static_cast<void>(core::to_text(result.problems()));
  return false;
}

bool json(std::string_view bytes) {
  const core::Result<core::Json> value = core::parse_json(bytes, kName);
  if (!read(value)) return false;
  const core::Result<core::Json> again = core::parse_json(core::dump(*value, 0), kName);
  PLANNER_CHECK(again.ok() && *again == *value, "JSON that is written comes back");
  return true;
}

bool csv(std::string_view bytes) {
  core::Problems bad;
  read(core::parse_csv(bytes, kName, &bad));
  return read(core::parse_csv(bytes, kName));
}

bool units(std::string_view bytes) {
  bool any = read(core::parse_bytes(bytes, kName));
  any |= read(core::parse_duration(bytes, kName));
  any |= read(core::parse_bandwidth(bytes, kName));
  return any | read(program::parse_index_ranges(bytes, kName));
}

bool pins(std::string_view bytes) {
  planner::Constraints constraints;
  bool any = false;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    any |= apply_pin(constraints, line).ok();
    static_cast<void>(apply_forbid(constraints, line));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  static_cast<void>(constraints.admits(planner::Strategy{}));
  return any;
}

bool model(std::string_view bytes) {
  bool any = false;
  for (const char* like : {"", "llama"}) {
    const auto spec = models::parse_spec(bytes, kName, "model", like);
    if (!read(spec)) continue;
    const std::string text = models::spec_to_json(*spec);
    const auto again = models::parse_spec(text, kName);
    PLANNER_CHECK(again.ok() && models::spec_to_json(*again) == text,
                  "a model that is written comes back");
    any = true;
  }
  return any;
}

bool profile(std::string_view bytes) {
  const auto profile = hw_profiles::profile_from_json_text(bytes, kName);
  if (!read(profile)) return false;
  const std::string text = hw_profiles::to_json_text(*profile);
  const auto again = hw_profiles::profile_from_json_text(text, kName);
  PLANNER_CHECK(again.ok() && hw_profiles::to_json_text(*again) == text,
                "a profile that is written comes back");
  return true;
}

bool fabric(std::string_view bytes) {
  const auto fabric = hw_profiles::fabric_from_json_text(bytes, kName);
  if (!read(fabric)) return false;
  static_cast<void>(size_of(*fabric, std::min<std::int64_t>(64, room(*fabric))));
  return true;
}

bool failures(std::string_view bytes) {
  return read(hw_profiles::failures_from_json_text(bytes, kName));
}

bool site(std::string_view bytes) { return read(hw_profiles::read_site(bytes, kName)); }

bool accuracy(std::string_view bytes) { return read(planner::read_accuracy(bytes, kName)); }

// A plan, and what verbs make of it without simulating it.
bool plan(std::string_view bytes) {
  const auto plan = planner::parse_plan(bytes, kName);
  if (!read(plan)) return false;
  const std::string text = planner::to_json_text(*plan);
  const auto again = planner::parse_plan(text, kName);
  PLANNER_CHECK(again.ok() && planner::to_json_text(*again) == text,
                "a plan that is written comes back");
  if (!plan->chosen) return true;
  for (const std::string_view framework : reports::emit::frameworks()) {
    read(reports::emit::launch_of(*plan, *plan->chosen, framework));
    if (!reports::emit::has_launchers(framework)) continue;
    for (const std::string_view launcher : reports::emit::launchers())
      read(reports::emit::launcher_of(*plan, *plan->chosen, framework, launcher, {}));
  }
  return true;
}

bool run(std::string_view bytes) {
  const auto run = exec::parse_run(bytes, kName);
  if (!read(run)) return false;
  const std::string text = exec::to_json_text(*run);
  const auto again = exec::parse_run(text, kName);
  PLANNER_CHECK(again.ok() && exec::to_json_text(*again) == text,
                "a record that is written comes back");
  return true;
}

bool document(std::string_view bytes) {
  namespace html = reports::html;
  auto document = html::parse_document(std::string(bytes), kName);
  if (!read(document)) return false;
  if (document->plan) return true;     // its page plays it
  std::vector<html::Document> documents;
  documents.push_back(std::move(document).value());
  return read(html::build_page(documents, "test", [](const std::string&) {}));
}

bool chakra(std::string_view bytes) { return read(engine::read_chakra(kName, bytes, 0, 10'000)); }

bool chakra_groups(std::string_view bytes) {
  return read(engine::read_chakra_groups(bytes, kName));
}

// The first line is the name, whose ending says what the rest is.
bool setup(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  const reports::imports::File file{std::string(bytes.substr(0, end)),
                                    std::string(bytes.substr(std::min(end + 1, bytes.size())))};
  reports::imports::Given given;
  given.variables.emplace("N", "4");
  const bool alone = read(reports::imports::read_setup({&file, 1}, given));
  given.model = "gpt2-124m";
  return read(reports::imports::read_setup({&file, 1}, given)) || alone;
}

bool training_log(std::string_view bytes) { return read(reports::logs::read_log(bytes, kName)); }

bool collectives(std::string_view bytes) {
  const bool text = read(reports::validation::read_timed_collectives(bytes, "all_reduce.txt"));
  return read(reports::validation::read_timed_collectives(bytes, "all_reduce.csv")) || text;
}

constexpr Target kTargets[] = {
    {"accuracy", accuracy}, {"chakra", chakra},     {"chakra_groups", chakra_groups},
    {"collectives", collectives}, {"csv", csv},     {"document", document},
    {"fabric", fabric},     {"failures", failures}, {"json", json},
    {"model", model},       {"pins", pins},         {"plan", plan},
    {"profile", profile},   {"run", run},           {"setup", setup},
    {"site", site},         {"training_log", training_log}, {"units", units},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto at = std::ranges::find(kTargets, name, &Target::name);
  return at == std::end(kTargets) ? nullptr : at;
}

}  // namespace fuzz
