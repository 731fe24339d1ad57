#pragma once
// The numbers of a profile by the names of their fields, in base units: what a fit varies and a
// calibration scales. No source is kept and no contradiction checked: hw_profiles::set
// (hw_profiles/load.hpp) is for what somebody states. Pure; thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

bool is_field(std::string_view field);

// "0.8", "9.9 us" as the field's kind has it; a problem's `where` is the field.
// REQUIRES: is_field(field), as of all below.
core::Result<double> read_number(std::string_view field, std::string_view text);
// Three digits, with the field's unit: what a fitted number is worth.
std::string rounded_text(std::string_view field, double value);

// Empty: the profile has no such thing.
std::optional<double> number_of(const Profile& profile, std::string_view field);
void put_number(Profile& profile, std::string_view field, double value);

}  // namespace hw_profiles
