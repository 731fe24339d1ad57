#pragma once
// calibrate_host: measures this host's kernels and messages and makes the profile that predicts
// them (README). Minutes of all ranks at work; nothing else should run.

#include <functional>
#include <string>
#include <vector>

#include "exec/calibrate/measured_points.hpp"
#include "hw_profiles/profile.hpp"

namespace exec {

struct Calibration {
  hw_profiles::Profile profile;
  std::map<std::string, Point> points;
  // Mean of |predicted / measured - 1| over the linear layers' products, by the fitted formula.
  double product_error = 0;
};

core::Result<Calibration> calibrate_host(BookOptions options);

// From what was measured to a profile; `where` is the source of its numbers. Pure.
Calibration fit_profile(const Measured& measured, hw_profiles::Profile profile,
                        const std::string& where);

// The points and what was made of them.
std::string to_text(const Calibration& calibration);

}  // namespace exec
