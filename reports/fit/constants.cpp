#include "reports/fit/constants.hpp"

#include <algorithm>
#include <set>
#include <span>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/json_reader.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"

std::span<const core::EmbeddedFile> fit_data();

namespace reports::fit {
namespace {

constexpr std::string_view kSchema = "constants/1";

std::vector<std::string> known_owners() {
  std::vector<std::string> all = hw_profiles::profile_names();
  for (const auto& more : {hw_profiles::node_names(), hw_profiles::framework_names()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

void read_value(core::JsonReader& reader, std::string_view key, const std::string& field,
                double& out) {
  std::string text;
  if (!reader.required(key, text)) return;
  const core::Result<double> value = hw_profiles::read_number(field, text);
  if (value.ok() && *value > 0) {
    out = *value;
    return;
  }
  reader.problem(key, value.ok() ? "more than 0" : value.problems().front().expected,
                 '"' + text + '"');
}

void check_owner(core::JsonReader& reader, const std::string& owner,
                 const std::vector<std::string>& owners) {
  if (std::ranges::count(owners, owner) > 0) return;
  reader.problem("of", "ids of shipped GPUs, nodes or frameworks", '"' + owner + '"',
                 "did you mean " + std::string(core::nearest(owner, {owners.begin(),
                                                                     owners.end()})) + "?");
}

// Of a constant and what follows it.
std::vector<std::string> owners_of(const Constant& c) {
  std::vector<std::string> all = c.of;
  for (const Scaled& s : c.scaled) all.push_back(s.of);
  return all;
}

Constant read_constant(core::JsonReader& reader, const std::vector<std::string>& owners) {
  Constant c;
  reader.required("field", c.field);
  reader.required("of", c.of);
  reader.required("spread", c.spread, core::positive());
  reader.required("why", c.why);
  for (const std::string& owner : c.of) check_owner(reader, owner, owners);
  for (core::JsonReader& one : reader.optional_objects("scaled")) {
    Scaled scaled;
    one.required("of", scaled.of);
    one.required("by", scaled.by, core::positive());
    one.required("why", scaled.why);
    one.allow_only_known();
    check_owner(one, scaled.of, owners);
    c.scaled.push_back(std::move(scaled));
  }
  if (!hw_profiles::is_field(c.field)) {
    reader.problem("field", "a field of a profile", '"' + c.field + '"');
    return c;
  }
  read_value(reader, "prior", c.field, c.prior);
  read_value(reader, "low", c.field, c.low);
  read_value(reader, "high", c.field, c.high);
  if (c.low > c.prior || c.prior > c.high)
    reader.problem("prior", "between low and high", fmt::format("{}", c.prior));
  reader.allow_only_known();
  return c;
}

}  // namespace

std::string Constant::name() const {
  const std::string first = field + " of " + of.front();
  return of.size() == 1 ? first : fmt::format("{} and {} more", first, of.size() - 1);
}

bool Constant::concerns(const hw_profiles::Profile& p) const {
  const std::string& owner = field.starts_with("gpu.")    ? p.gpu.id
                             : field.starts_with("node.") ? p.node.id
                                                          : p.framework.id;
  return std::ranges::count(of, owner) > 0;
}

core::Result<std::vector<Constant>> read_constants(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader root(*json, std::string(where), "", problems);
  std::string schema;
  root.one_of("schema", std::span(&kSchema, 1), schema);
  const std::vector<std::string> owners = known_owners();
  std::vector<Constant> constants;
  std::set<std::pair<std::string, std::string>> seen;
  for (core::JsonReader& reader : root.objects("constants")) {
    Constant c = read_constant(reader, owners);
    for (const std::string& owner : owners_of(c))
      if (!seen.insert({c.field, owner}).second)
        reader.problem("of", "each field of a profile once", '"' + owner + "\" again");
    if (c.of.empty()) reader.problem("of", "at least one id", "none");
    constants.push_back(std::move(c));
  }
  root.allow_only_known();
  if (!problems.empty()) return problems;
  return constants;
}

std::vector<Constant> shipped_constants() {
  const core::Result<std::string> text = core::embedded_or_override(fit_data(), "constants.json");
  PLANNER_CHECK(text.ok(), "the table of constants is embedded");
  core::Result<std::vector<Constant>> constants = read_constants(*text, "constants.json");
  PLANNER_CHECK(constants.ok(), core::to_text(constants.problems()));
  return std::move(constants).value();
}

}  // namespace reports::fit
