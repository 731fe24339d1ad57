#include "hw_profiles/quantity_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "core/check.hpp"
#include "core/read_number.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {
namespace {

struct Unit {
  Kind kind;
  std::string_view name;
  double scale;
};

// The first unit of a kind is its base unit; the others are what people write.
constexpr std::array<Unit, 29> kUnits{{
    {Kind::bytes, "B", 1},
    {Kind::bytes, "KiB", 1024.0},
    {Kind::bytes, "MiB", 1048576.0},
    {Kind::bytes, "GiB", 1073741824.0},
    {Kind::bytes, "TiB", 1099511627776.0},
    {Kind::bytes, "MB", 1e6},
    {Kind::bytes, "GB", 1e9},
    {Kind::bytes, "TB", 1e12},
    {Kind::bytes_per_second, "B/s", 1},
    {Kind::bytes_per_second, "MB/s", 1e6},
    {Kind::bytes_per_second, "GB/s", 1e9},
    {Kind::bytes_per_second, "TB/s", 1e12},
    {Kind::bytes_per_second, "Gbps", 1.25e8},
    {Kind::flops_per_second, "FLOP/s", 1},
    {Kind::flops_per_second, "GFLOP/s", 1e9},
    {Kind::flops_per_second, "TFLOP/s", 1e12},
    {Kind::flops_per_second, "PFLOP/s", 1e15},
    {Kind::seconds, "s", 1},
    {Kind::seconds, "ms", 1e-3},
    {Kind::seconds, "us", 1e-6},
    {Kind::seconds, "ns", 1e-9},
    {Kind::hertz, "Hz", 1},
    {Kind::hertz, "MHz", 1e6},
    {Kind::hertz, "GHz", 1e9},
    {Kind::watts, "W", 1},
    {Kind::dollars_per_hour, "USD/h", 1},
    {Kind::count, "", 1},
    {Kind::fraction, "", 1},
    {Kind::ratio, "", 1},
}};

core::Problem problem(std::string expected, std::string_view text) {
  return {"", std::move(expected), '"' + std::string(text) + '"', ""};
}

std::string units_of(Kind kind) {
  std::string list;
  for (const Unit& unit : kUnits) {
    if (unit.kind != kind) continue;
    if (!list.empty()) list += ", ";
    list += unit.name;
  }
  return list;
}

const Unit* find_unit(Kind kind, std::string_view name) {
  for (const Unit& unit : kUnits)
    if (unit.kind == kind && unit.name == name) return &unit;
  return nullptr;
}

core::Result<double> parse_capability(std::string_view text) {
  if (text.size() >= 3 && text[text.size() - 2] == '.') {
    int major = 0, minor = 0;
    const char* dot = text.data() + text.size() - 2;
    const auto a = std::from_chars(text.data(), dot, major);
    const auto b = std::from_chars(dot + 1, text.data() + text.size(), minor);
    const bool read = a.ec == std::errc() && a.ptr == dot && b.ec == std::errc();
    if (read && b.ptr == text.data() + text.size() && major >= 1 && minor >= 0)
      return double(major * 10 + minor);
  }
  return problem("a compute capability such as 8.6", text);
}

core::Result<double> parse_flag(std::string_view text) {
  if (text == "yes") return 1.0;
  if (text == "no") return 0.0;
  return problem("yes or no", text);
}

core::Result<double> parse_link(std::string_view text) {
  if (const auto kind = link_kind_from_name(text)) return double(static_cast<int>(*kind));
  return problem("nvswitch, nvlink_mesh, nvlink_pairs, pcie_p2p or host_staged", text);
}

// Range of a scaled value; a profile states nothing that is negative or infinite, and zero only as
// a ratio, a time or a size.
std::optional<core::Problem> out_of_range(double value, Kind kind, std::string_view text) {
  const bool may_be_none = kind == Kind::ratio || kind == Kind::seconds || kind == Kind::bytes;
  if (may_be_none && value == 0) return std::nullopt;
  if (!std::isfinite(value) || value <= 0) return problem("a finite number above zero", text);
  if (kind == Kind::fraction && value > 1) return problem("a fraction of at most 1", text);
  if (kind == Kind::count && (value != std::floor(value) || value > 1e6))
    return problem("a whole number of at most 1000000", text);
  if (kind == Kind::bytes && value > 9e15) return problem("at most 9e15 bytes", text);
  return std::nullopt;
}

}  // namespace

core::Result<double> parse_quantity(std::string_view text, Kind kind) {
  if (kind == Kind::capability) return parse_capability(text);
  if (kind == Kind::flag) return parse_flag(text);
  if (kind == Kind::link) return parse_link(text);

  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = core::read_double(text.data(), end, number);
  if (error != std::errc()) return problem("a number with its unit", text);
  std::string_view rest(stop, static_cast<std::size_t>(end - stop));
  if (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const Unit* unit = find_unit(kind, rest);
  if (unit == nullptr) {
    const std::string units = units_of(kind);
    return problem(units.empty() ? "a bare number" : "a number in one of " + units, text);
  }
  double value = number * unit->scale;
  if (kind == Kind::bytes) value = std::round(value);
  if (auto p = out_of_range(value, kind, text)) return *std::move(p);
  return value;
}

std::string quantity_text(double value, Kind kind) {
  switch (kind) {
    case Kind::capability: {
      const int v = static_cast<int>(value);
      return fmt::format("{}.{}", v / 10, v % 10);
    }
    case Kind::flag: return value != 0 ? "yes" : "no";
    case Kind::link: return std::string(name(static_cast<LinkKind>(static_cast<int>(value))));
    case Kind::bytes: return fmt::format("{:.0f} B", value);
    case Kind::count: return fmt::format("{:.0f}", value);
    default: break;
  }
  for (const Unit& unit : kUnits)  // fmt's shortest form that reads back to the same double
    if (unit.kind == kind && !unit.name.empty()) return fmt::format("{} {}", value, unit.name);
  return fmt::format("{}", value);
}

std::string readable_text(double value, Kind kind) {
  if (kind == Kind::capability || kind == Kind::flag || kind == Kind::link || kind == Kind::count)
    return quantity_text(value, kind);
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits) {
    if (unit.kind != kind || unit.name == "Gbps") continue;
    const bool smaller = best != nullptr && unit.scale < best->scale;
    if (best == nullptr || (best->scale > value ? smaller : unit.scale <= value && !smaller))
      best = &unit;
  }
  PLANNER_CHECK(best != nullptr, "a kind without units");
  const std::string number = fmt::format("{:.3g}", value / best->scale);
  return best->name.empty() ? number : fmt::format("{} {}", number, best->name);
}

}  // namespace hw_profiles
