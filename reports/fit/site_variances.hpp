#pragma once
// How sites differ, by part, as left-out runs show it: the variances of
// planner/evaluate/site_model.hpp that make the runs likeliest, each dataset weighing 1,
//
//   minimise  sum_D misfit(D) / n_D + sum_k (log(v_k / believed) / spread)^2
//
// over the logarithms of v, by NLopt's SBPLX [rowan1990]. What is believed beforehand, give or take
// a factor 5 in the part's standard deviation, decides only where no dataset spends its time on a
// part. Pure; deterministic.

#include <functional>
#include <vector>

#include "reports/fit/fit.hpp"

namespace reports::fit {

planner::SiteVariances site_variances_of(const std::vector<LeftOut>& sets);

// Calls with every run of a set and with what each other run alone says of the site. O(runs^2).
void for_each_other(const LeftOut& set, const planner::SiteVariances& variances,
                    const std::function<void(const planner::SiteRun& other,
                                             const hw_profiles::SiteFile& site)>& call);

}  // namespace reports::fit
