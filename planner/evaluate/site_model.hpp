#pragma once
// What a site's runs say of its parts. With e_rk = d log(step of run r) / d log(durations of part
// k), t_k the logarithm of the part's pace (hw_profiles/site.hpp; device and links once for each
// kind of GPU),
//
//   log(measured / predicted) of r = sum_k e_rk t_k + its own,   t_k ~ N(0, b_k), own ~ N(0, w)
//
// so the likeliest paces are those of a ridge regression, and a run moves mostly the part that it
// spends its time on. With E of rows e_r, B = diag(b), W = diag(w / weight of r):
// t = V E'W^-1 r,  V = (E'W^-1 E + B^-1)^-1.
//
// A device's b is what sites differ in and what no run has told of its kind of GPU (SiteRun).
// Single runs are sometimes far off for reasons of their own (a slow node, an allocator that
// thrashes): one in ten of such errors is taken to be five times as wide, a contaminated normal
// distribution [tukey1960]. By what the others and the priors let expect of it a run is such a one
// with probability q, and weighs 1 - q + q / 25. Pure; thread-safe.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "planner/evaluate/accuracy.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/program.hpp"

namespace planner {

struct SiteRun {
  std::string gpu;
  double log_ratio = 0;                // log(measured / predicted)
  SiteSlopes slopes{};
  // Variance of what was believed of its GPU's rate, and how many sites have told of it since; each
  // of them differs from the GPU by a site's own b.
  double rate_variance = 0;
  int sites = 0;
};

// What no run has told of a GPU's rate: 1 / (1 / rate_variance + sites / device).
double untold_variance(double rate_variance, int sites, double device);

// The machine as it is, and with each part a little slower; for site_slopes.
std::vector<cost::Machine> site_machines(const hw_profiles::Profile& profile, const Job& job,
                                         double product_share);
// The closed form's. machines: of site_machines.
SiteSlopes site_slopes(const program::Program& program, std::span<const cost::Machine> machines,
                       Schedule schedule);

class SiteEvidence {
 public:
  explicit SiteEvidence(std::span<const SiteRun> runs);

  // The likeliest paces and what they leave; no ids. O(rounds x (runs + GPUs) x GPUs^2).
  hw_profiles::SiteFile learnt(const SiteVariances& variances) const;
  // -2 log likelihood of the runs, each of weight 1, but for a constant. O(GPUs^3).
  double misfit(const SiteVariances& variances) const;

 private:
  using Vector = std::vector<double>;
  using Matrix = std::vector<Vector>;
  struct Device {
    std::string gpu;
    double rate_variance = 0;
    int sites = 0;
  };
  struct Sums {
    Matrix products;                   // E'E, each run by its weight
    Vector with_ratio;                 // E'r
  };
  static constexpr std::size_t kEntries = hw_profiles::kSiteParts.size();

  std::array<std::size_t, kEntries> columns_of(const SiteRun& run) const;
  Sums sums(const Vector& weights) const;
  Vector priors(const SiteVariances& variances) const;  // b of each column
  // V^-1 between two B^(1/2).
  Matrix precision(const SiteVariances& variances, const Sums& sums) const;
  // Of a run as V and t have it: its weight by what is expected of it without itself.
  double weight_of(const SiteRun& run, double weight, const Matrix& variance, const Vector& paces,
                   double own) const;

  std::vector<SiteRun> runs_;
  std::vector<Device> devices_;        // sorted by GPU
  Sums unweighted_;
  double squares_ = 0;                 // r'r
};

// What a site adds to the logarithm of a step of such slopes on that GPU.
double log_pace(const hw_profiles::SiteFile& site, const std::string& gpu,
                const SiteSlopes& slopes);
// Variance of the logarithm of such a step, its own among it; parts that the site says nothing of
// vary as between sites.
double left_variance(const hw_profiles::SiteFile& site, const std::string& gpu,
                     const SiteSlopes& slopes, const SiteVariances& variances);

}  // namespace planner
