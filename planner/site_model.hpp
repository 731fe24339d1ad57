#pragma once
// What a site's runs say of its parts. With e_rk = d log(step of run r) / d log(durations of part
// k), t_k the logarithm of the part's pace (hw_profiles/site.hpp; device and links once for each
// kind of GPU),
//
//   log(measured / predicted) of r = sum_k e_rk t_k + its own,   t_k ~ N(0, b_k), own ~ N(0, w)
//
// so the likeliest paces are those of a ridge regression, and a run moves mostly the part that it
// spends its time on. With E of rows e_r, B = diag(b):  t = V E'r / w,  V = (E'E / w + B^-1)^-1.
// Pure; thread-safe.

#include <span>
#include <string>
#include <vector>

#include "planner/accuracy.hpp"
#include "planner/job.hpp"
#include "planner/strategy.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/program.hpp"

namespace planner {

struct SiteRun {
  std::string gpu;
  double log_ratio = 0;                // log(measured / predicted)
  SiteSlopes slopes{};
};

// The machine as it is, and with each part a little slower; for site_slopes.
std::vector<cost::Machine> site_machines(const hw_profiles::Profile& profile, const Job& job);
// The closed form's. machines: of site_machines.
SiteSlopes site_slopes(const program::Program& program, std::span<const cost::Machine> machines,
                       Schedule schedule);

// Sums over runs, from which everything else follows. O(runs x kinds of GPU^2).
class SiteEvidence {
 public:
  explicit SiteEvidence(std::span<const SiteRun> runs);

  // The likeliest paces and what they leave; no ids. O(kinds of GPU^3).
  hw_profiles::SiteFile learnt(const SiteVariances& variances) const;
  // -2 log likelihood of the runs, but for a constant.
  double misfit(const SiteVariances& variances) const;

 private:
  using Vector = std::vector<double>;
  Vector priors(const SiteVariances& variances) const;  // b of each column
  // V^-1 between two B^(1/2).
  std::vector<Vector> precision(const SiteVariances& variances) const;

  std::vector<std::string> gpus_;      // sorted
  std::vector<Vector> products_;       // E'E; columns: host, then device and links of each GPU
  Vector with_ratio_;                  // E'r
  double squares_ = 0;                 // r'r
  double runs_ = 0;
};

// What a site adds to the logarithm of a step of such slopes on that GPU.
double log_pace(const hw_profiles::SiteFile& site, const std::string& gpu,
                const SiteSlopes& slopes);
// Variance of the logarithm of such a step, its own among it; parts that the site says nothing of
// vary as between sites.
double left_variance(const hw_profiles::SiteFile& site, const std::string& gpu,
                     const SiteSlopes& slopes, const SiteVariances& variances);

}  // namespace planner
