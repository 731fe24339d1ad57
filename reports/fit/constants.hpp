#pragma once
// The constants that published runs may set: which field of which profiles, between which bounds,
// what is believed of it before any run is seen, and why. Data, constants.json beside this file:
//
//   {"schema": "constants/1", "constants": [
//     {"field": "gpu.gemm_wave_loss", "of": ["a100-sxm-80g", ...], "prior": "0.5", "spread": 0.7,
//      "low": "0.02", "high": "1", "why": "...",
//      "scaled": [{"of": "a100-pcie-80g", "by": 0.87, "why": "..."}]}]}
//
// `of` names GPUs, nodes or frameworks; one value serves all of them. `scaled`, where it is there,
// names others of which no run is known and whose value follows: so many times as much. A spread is
// the standard deviation of the logarithm of what is believed: 0.1 is "within 10 %". Value types;
// pure.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace reports::fit {

// What a kind of GPU sustains: the constant by which one differs from another.
inline constexpr std::string_view kRateOfGpu = "gpu.gemm_sustained";

struct Scaled {
  std::string of;
  double by = 1;
  std::string why;
};

struct Constant {
  std::string field;                   // "gpu.gemm_sustained"
  std::vector<std::string> of;         // ids of GPUs, nodes or frameworks
  double prior = 0, low = 0, high = 0; // in the field's base unit; low > 0
  double spread = 0;
  std::string why;
  std::vector<Scaled> scaled{};

  std::string name() const;            // "gpu.gemm_sustained of a100-sxm-80g and 1 more"
  bool concerns(const hw_profiles::Profile& profile) const;
};

// Errors: another schema, unknown fields and profiles, a prior outside its bounds, a constant
// twice.
core::Result<std::vector<Constant>> read_constants(std::string_view text, std::string_view where);
// The shipped table.
std::vector<Constant> shipped_constants();

}  // namespace reports::fit
