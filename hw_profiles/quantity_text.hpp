#pragma once
// Internal: the text form of one number, "936 GB/s", read and written in the base unit of its
// kind. Stricter than core/parse_units.hpp in that the unit must be stated, and with the units of
// hardware (FLOP/s, MHz, W). Base units: B, B/s, FLOP/s, s, Hz, W; counts, fractions, ratios,
// flags, compute capabilities and link kinds have none and travel as numbers (flag 0 or 1,
// capability 86 for 8.6, the enum's value).

#include <string>
#include <string_view>

#include "core/result.hpp"

namespace hw_profiles {

enum class Kind {
  bytes,
  bytes_per_second,
  flops_per_second,
  seconds,
  hertz,
  watts,
  dollars_per_hour,
  count,       // an integer >= 1
  fraction,    // in (0, 1]
  ratio,       // >= 0
  capability,  // "8.6"
  flag,        // "yes" or "no"
  link,        // nvswitch | nvlink_mesh | nvlink_pairs | pcie_p2p | host_staged
};

// The value of `text` in the base unit. A problem's `where` is left empty: the caller knows it.
core::Result<double> parse_quantity(std::string_view text, Kind kind);

// Text that parse_quantity reads back to exactly `value`.
std::string quantity_text(double value, Kind kind);

// Three digits, in the greatest unit that leaves at least 1: what a fitted number is worth.
std::string readable_text(double value, Kind kind);

}  // namespace hw_profiles
