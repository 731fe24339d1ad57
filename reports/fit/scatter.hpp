#pragma once
// Predicted against measured step times on logarithmic axes, as an SVG of its own: a point per
// run, a colour per dataset, the diagonal and what is 10 % off it. Pure.

#include <string>
#include <vector>

#include "reports/validate/score.hpp"

namespace reports::fit {

std::string scatter_svg(const std::vector<validation::Predicted>& rows);

}  // namespace reports::fit
