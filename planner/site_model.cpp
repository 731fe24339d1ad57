#include "planner/site_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "planner/evaluate.hpp"
#include "planner/step_time.hpp"

namespace planner {
namespace {

using hw_profiles::SitePart;
using SiteVector = std::vector<double>;
using SiteMatrix = std::vector<SiteVector>;

constexpr double kPartStep = 0.02;     // of a pace's logarithm: beyond rounding to picoseconds
constexpr std::size_t kHostColumn = 0, kColumnsOfGpu = 2;

constexpr std::size_t index_of(SitePart part) { return static_cast<std::size_t>(part); }

// The lower factor L of a symmetric positive definite matrix, L L' = a.
SiteMatrix lower_factor(SiteMatrix a) {
  for (std::size_t j = 0; j < a.size(); ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    PLANNER_CHECK(a[j][j] > 0, "a matrix that is not positive definite");
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < a.size(); ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  return a;
}

// L^-1 v.
SiteVector forward_solved(const SiteMatrix& lower, SiteVector v) {
  for (std::size_t i = 0; i < v.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) v[i] -= lower[i][k] * v[k];
    v[i] /= lower[i][i];
  }
  return v;
}

// L^-T v.
SiteVector backward_solved(const SiteMatrix& lower, SiteVector v) {
  for (std::size_t i = v.size(); i-- > 0;) {
    for (std::size_t k = i + 1; k < v.size(); ++k) v[i] -= lower[k][i] * v[k];
    v[i] /= lower[i][i];
  }
  return v;
}

double squared(const SiteVector& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return sum;
}

// What the runs say of a part, or null.
const hw_profiles::PartPace* pace_of(const hw_profiles::SiteFile& site, const std::string& gpu,
                                     SitePart part) {
  if (part == SitePart::host) return &site.host;
  const hw_profiles::GpuPace* const found = site.of(gpu);
  if (found == nullptr) return nullptr;
  return part == SitePart::device ? &found->device : &found->links;
}

}  // namespace

std::vector<cost::Machine> site_machines(const hw_profiles::Profile& profile, const Job& job) {
  std::vector<cost::Machine> machines{machine_for(profile, job)};
  hw_profiles::Profile plain = profile;
  plain.sources.clear();
  for (const SitePart part : hw_profiles::kSiteParts) {
    hw_profiles::Profile slower = plain;
    hw_profiles::pace_part(slower, part, std::exp(kPartStep));
    machines.push_back(machine_for(slower, job));
  }
  return machines;
}

SiteSlopes site_slopes(const program::Program& program, std::span<const cost::Machine> machines,
                       Schedule schedule) {
  std::vector<const cost::Machine*> lanes;
  for (const cost::Machine& m : machines) lanes.push_back(&m);
  const std::vector<Time> times = step_times(program, lanes, schedule);
  SiteSlopes slopes{};
  for (std::size_t k = 0; k < slopes.size(); ++k)
    slopes[k] = std::log(times[k + 1].step / times[0].step) / kPartStep;
  return slopes;
}

SiteEvidence::SiteEvidence(std::span<const SiteRun> runs) {
  for (const SiteRun& r : runs) gpus_.push_back(r.gpu);
  std::ranges::sort(gpus_);
  const auto repeated = std::ranges::unique(gpus_);
  gpus_.erase(repeated.begin(), repeated.end());
  const std::size_t columns = 1 + kColumnsOfGpu * gpus_.size();
  products_.assign(columns, Vector(columns, 0.0));
  with_ratio_.assign(columns, 0.0);
  runs_ = static_cast<double>(runs.size());
  for (const SiteRun& r : runs) {
    const auto at = std::ranges::lower_bound(gpus_, r.gpu) - gpus_.begin();
    const std::size_t first = 1 + kColumnsOfGpu * static_cast<std::size_t>(at);
    const std::array<std::size_t, 3> column{first, kHostColumn, first + 1};  // as kSiteParts
    for (std::size_t i = 0; i < column.size(); ++i) {
      with_ratio_[column[i]] += r.slopes[i] * r.log_ratio;
      for (std::size_t j = 0; j < column.size(); ++j)
        products_[column[i]][column[j]] += r.slopes[i] * r.slopes[j];
    }
    squares_ += r.log_ratio * r.log_ratio;
  }
}

SiteEvidence::Vector SiteEvidence::priors(const SiteVariances& variances) const {
  Vector all{variances.parts[index_of(SitePart::host)]};
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    all.push_back(variances.parts[index_of(SitePart::device)]);
    all.push_back(variances.parts[index_of(SitePart::links)]);
  }
  return all;
}

// B^(1/2) (E'E / w + B^-1) B^(1/2): its diagonal is at least 1, whatever B.
std::vector<SiteEvidence::Vector> SiteEvidence::precision(const SiteVariances& variances) const {
  const Vector b = priors(variances);
  std::vector<Vector> matrix = products_;
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j)
      matrix[i][j] *= std::sqrt(b[i] * b[j]) / variances.run;
    matrix[i][i] += 1;
  }
  return matrix;
}

hw_profiles::SiteFile SiteEvidence::learnt(const SiteVariances& variances) const {
  const Vector b = priors(variances);
  const SiteMatrix lower = lower_factor(precision(variances));
  const auto solved = [&](Vector v) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= std::sqrt(b[i]);
    v = backward_solved(lower, forward_solved(lower, std::move(v)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= std::sqrt(b[i]);
    return v;
  };
  Vector scaled = with_ratio_;
  for (double& x : scaled) x /= variances.run;
  const Vector paces = solved(scaled);
  const auto part = [&](std::size_t column) {
    Vector unit(b.size(), 0.0);
    unit[column] = 1;
    return hw_profiles::PartPace{
        std::clamp(std::exp(paces[column]), 1 / hw_profiles::kMostPace, hw_profiles::kMostPace),
        solved(unit)[column]};
  };
  hw_profiles::SiteFile site;
  site.host = part(kHostColumn);
  for (std::size_t g = 0; g < gpus_.size(); ++g)
    site.gpus.push_back({gpus_[g], part(1 + kColumnsOfGpu * g), part(2 + kColumnsOfGpu * g)});
  return site;
}

// By the matrix determinant lemma and Woodbury's identity, of E B E' + w I.
double SiteEvidence::misfit(const SiteVariances& variances) const {
  const Vector b = priors(variances);
  const SiteMatrix lower = lower_factor(precision(variances));
  Vector explained = with_ratio_;
  for (std::size_t i = 0; i < b.size(); ++i) explained[i] *= std::sqrt(b[i]) / variances.run;
  double sum = runs_ * std::log(variances.run) + squares_ / variances.run -
               squared(forward_solved(lower, explained));
  for (std::size_t i = 0; i < b.size(); ++i) sum += 2 * std::log(lower[i][i]);
  return sum;
}

double log_pace(const hw_profiles::SiteFile& site, const std::string& gpu,
                const SiteSlopes& slopes) {
  double sum = 0;
  for (const SitePart part : hw_profiles::kSiteParts)
    if (const auto* const known = pace_of(site, gpu, part))
      sum += slopes[index_of(part)] * std::log(known->pace);
  return sum;
}

double left_variance(const hw_profiles::SiteFile& site, const std::string& gpu,
                     const SiteSlopes& slopes, const SiteVariances& variances) {
  double sum = variances.run;
  for (const SitePart part : hw_profiles::kSiteParts) {
    const auto* const known = pace_of(site, gpu, part);
    const double e = slopes[index_of(part)];
    sum += e * e * (known != nullptr ? known->left : variances.parts[index_of(part)]);
  }
  return sum;
}

}  // namespace planner
