#include "hw_profiles/numbers.hpp"

#include "core/check.hpp"
#include "hw_profiles/fields.hpp"

namespace hw_profiles {

static const Field& known(std::string_view name) {
  const Field* field = find_field(name);
  PLANNER_CHECK(field != nullptr, "not a field of a profile");
  return *field;
}

bool is_field(std::string_view field) { return find_field(field) != nullptr; }

core::Result<double> read_number(std::string_view field, std::string_view text) {
  core::Result<double> value = parse_quantity(text, known(field).kind);
  if (value.ok()) return value;
  core::Problems problems = value.problems();
  for (core::Problem& p : problems) p.where = field;
  return problems;
}

std::string rounded_text(std::string_view field, double value) {
  return readable_text(value, known(field).kind);
}

std::optional<double> number_of(const Profile& profile, std::string_view field) {
  return known(field).get(profile);
}

void put_number(Profile& profile, std::string_view field, double value) {
  known(field).put(profile, value);
}

}  // namespace hw_profiles
