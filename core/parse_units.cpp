#include "core/parse_units.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "core/read_number.hpp"

namespace core {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {
    {"B", 1},      {"kB", 1e3},       {"KB", 1e3},       {"MB", 1e6},       {"GB", 1e9},
    {"TB", 1e12},  {"PB", 1e15},      {"KiB", 0x1p10},   {"MiB", 0x1p20},   {"GiB", 0x1p30},
    {"TiB", 0x1p40}, {"PiB", 0x1p50}, {"", 1}};
constexpr Unit kTimeUnits[] = {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6},  {"ms", 1e-3},
                               {"s", 1},      {"min", 60},  {"h", 3600.0}, {"d", 86400.0}};
constexpr Unit kCountUnits[] = {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}, {"", 1}};
constexpr Unit kRateUnits[] = {
    {"bps", 0.125},     {"kbps", 125},      {"Mbps", 125e3},    {"Gbps", 125e6},   {"Tbps", 125e9},
    {"B/s", 1},         {"kB/s", 1e3},      {"MB/s", 1e6},      {"GB/s", 1e9},     {"TB/s", 1e12},
    {"KiB/s", 0x1p10},  {"MiB/s", 0x1p20},  {"GiB/s", 0x1p30},  {"TiB/s", 0x1p40}};

struct Quantified {
  double number;
  Unit unit;
};

// What one parser accepts, for its messages.
struct Kind {
  std::span<const Unit> units;
  std::string_view what;
};

Problem refuse(const Kind& kind, std::string_view text, std::string_view where, std::string fix) {
  return {std::string(where), std::string(kind.what), fmt::format("\"{}\"", text), std::move(fix)};
}

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x | 32) == (y | 32); });
}

std::string unit_advice(const Kind& kind, std::string_view suffix) {
  std::vector<std::string_view> names, meant;
  for (const Unit& unit : kind.units) {
    if (unit.name.empty()) continue;
    names.push_back(unit.name);
    const bool initial = suffix.size() == 1 && same_but_for_case(unit.name.substr(0, 1), suffix);
    if (initial || same_but_for_case(unit.name, suffix)) meant.push_back(unit.name);
  }
  const std::string_view near = suffix.size() > 1 ? nearest(suffix, names) : "";
  if (meant.empty() && !near.empty()) meant.push_back(near);
  return meant.empty() ? fmt::format("units: {}", fmt::join(names, ", "))
                       : fmt::format("did you mean {}?", fmt::join(meant, " or "));
}

Result<Quantified> split(const Kind& kind, std::string_view text, std::string_view where) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = read_double(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number))
    return refuse(kind, text, where, "write a number and a unit");
  if (number < 0 || std::signbit(number)) return refuse(kind, text, where, "it cannot be negative");
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  suffix.remove_prefix(std::min(suffix.find_first_not_of(' '), suffix.size()));
  for (const Unit& unit : kind.units)
    if (unit.name == suffix) return Quantified{number, unit};
  if (suffix.empty() && number == 0) return Quantified{0, kind.units[0]};
  return refuse(kind, text, where, unit_advice(kind, suffix));
}

// Doubles hold integers exactly to 2^53; beyond that the digits themselves are read.
Result<std::int64_t> whole(const Kind& kind, std::string_view text, std::string_view where) {
  const Result<Quantified> parts = split(kind, text, where);
  if (!parts) return parts.problems();
  const auto factor = static_cast<std::int64_t>(parts->unit.factor);
  std::int64_t digits = 0, product = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), digits);
  const bool plain = rest == text.data() + text.size() || (*rest != '.' && (*rest | 32) != 'e');
  if (error == std::errc() && plain) {
    if (!__builtin_mul_overflow(digits, factor, &product)) return product;
    return refuse(kind, text, where, "it must be below 2^63");
  }
  const double value = parts->number * parts->unit.factor;
  if (value >= 0x1p63) return refuse(kind, text, where, "it must be below 2^63");
  const double rounded = std::round(value);
  // 0.1 kB is 100 bytes although 0.1 is no dyadic fraction.
  if (std::abs(value - rounded) > 1e-9 * std::max(1.0, std::abs(value) * 1e-3))
    return refuse(kind, text, where, "it does not come to a whole number");
  return static_cast<std::int64_t>(rounded);
}

constexpr Kind kBytes{kByteUnits, "a size such as 24GiB, 25MB or 4096"};
constexpr Kind kDuration{kTimeUnits, "a time such as 50us, 1.5ms or 2h"};
constexpr Kind kCount{kCountUnits, "a count such as 500B, 1.5T or 4096"};
constexpr Kind kRate{kRateUnits, "a bandwidth such as 400Gbps or 50GB/s"};

// Three significant digits, plain: 1.24, 12.3, 123, 1023.
std::string digits3(double value) {
  const double size = std::abs(value);
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

// In the largest of the rising units that leaves at least one; what rounds up to the next unit is
// written in that one.
std::string in_units(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.factor * 0.9995) best = &unit;
  return fmt::format("{} {}", digits3(value / best->factor), best->name);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text, std::string_view where) {
  const Result<std::int64_t> value = whole(kBytes, text, where);
  if (!value) return value.problems();
  return Bytes(*value);
}

Result<Seconds> parse_duration(std::string_view text, std::string_view where) {
  const Result<Quantified> parts = split(kDuration, text, where);
  if (!parts) return parts.problems();
  // Dividing by 10^6 is exact to the last bit where multiplying by 1e-6 is not.
  const double factor = parts->unit.factor;
  return Seconds(factor < 1 ? parts->number / std::round(1 / factor) : parts->number * factor);
}

Result<std::int64_t> parse_count(std::string_view text, std::string_view where) {
  return whole(kCount, text, where);
}

Result<BytesPerSecond> parse_bandwidth(std::string_view text, std::string_view where) {
  const Result<Quantified> parts = split(kRate, text, where);
  if (!parts) return parts.problems();
  return BytesPerSecond(parts->number * parts->unit.factor);
}

std::string to_text(Bytes bytes) {
  constexpr Unit kUnits[] = {{"B", 1},          {"KiB", 0x1p10}, {"MiB", 0x1p20},
                             {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}};
  const auto value = static_cast<double>(bytes.value());
  if (std::abs(value) < 1023.5) return fmt::format("{} B", bytes.value());
  return in_units(value, kUnits);
}

std::string to_text(Seconds seconds) {
  constexpr Unit kUnits[] = {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6},  {"ms", 1e-3},
                             {"s", 1},      {"min", 60},  {"h", 3600.0}, {"d", 86400.0}};
  if (seconds.value() == 0) return "0 s";
  return in_units(seconds.value(), kUnits);
}

std::string to_text(Picoseconds time) { return to_text(to_seconds(time)); }

std::string to_text(BytesPerSecond rate) {
  constexpr Unit kUnits[] = {
      {"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
  return in_units(rate.value(), kUnits);
}

std::string count_text(std::int64_t count) {
  constexpr Unit kUnits[] = {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  if (std::abs(static_cast<double>(count)) < 10'000) return std::to_string(count);
  return in_units(static_cast<double>(count), kUnits);
}

}  // namespace core
