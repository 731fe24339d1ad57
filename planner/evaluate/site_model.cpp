#include "planner/evaluate/site_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/step_time.hpp"

namespace planner {
namespace {

using hw_profiles::SitePart;
using SiteVector = std::vector<double>;
using SiteMatrix = std::vector<SiteVector>;

constexpr double kPartStep = 0.02;     // of a pace's logarithm: beyond rounding to picoseconds
constexpr int kMostRounds = 40;
constexpr double kSettled = 1e-6;      // of a weight
constexpr std::size_t kHostColumn = 0, kNetworkColumn = 1, kFirstOfGpus = 2, kColumnsOfGpu = 2;

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
  if (part == SitePart::network) return &site.network;
  const hw_profiles::GpuPace* const found = site.of(gpu);
  if (found == nullptr) return nullptr;
  return part == SitePart::device ? &found->device : &found->links;
}

}  // namespace

std::vector<cost::Machine> site_machines(const hw_profiles::Profile& profile, const Job& job,
                                         double product_share) {
  std::vector<cost::Machine> machines{machine_for(profile, job, product_share)};
  hw_profiles::Profile plain = profile;
  plain.sources.clear();
  for (const SitePart part : hw_profiles::kSiteParts) {
    hw_profiles::Profile slower = plain;
    hw_profiles::pace_part(slower, part, std::exp(kPartStep));
    machines.push_back(machine_for(slower, job, product_share));
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

double untold_variance(double rate_variance, int sites, double device) {
  return rate_variance > 0 ? 1 / (1 / rate_variance + sites / device) : 0;
}

SiteEvidence::SiteEvidence(std::span<const SiteRun> runs) : runs_(runs.begin(), runs.end()) {
  for (const SiteRun& r : runs_) devices_.push_back({r.gpu, r.rate_variance, r.sites});
  std::ranges::sort(devices_, {}, &Device::gpu);
  const auto same = [](const Device& a, const Device& b) { return a.gpu == b.gpu; };
  devices_.erase(std::unique(devices_.begin(), devices_.end(), same), devices_.end());
  unweighted_ = sums(Vector(runs_.size(), 1.0));
  for (const SiteRun& r : runs_) squares_ += r.log_ratio * r.log_ratio;
}

// Host, network, then device and links of each GPU; in the order of kSiteParts.
std::array<std::size_t, SiteEvidence::kEntries> SiteEvidence::columns_of(const SiteRun& run) const {
  const auto at = std::ranges::lower_bound(devices_, run.gpu, {}, &Device::gpu) - devices_.begin();
  const std::size_t first = kFirstOfGpus + kColumnsOfGpu * static_cast<std::size_t>(at);
  return {first, kHostColumn, first + 1, kNetworkColumn};
}

SiteEvidence::Sums SiteEvidence::sums(const Vector& weights) const {
  const std::size_t columns = kFirstOfGpus + kColumnsOfGpu * devices_.size();
  Sums s{Matrix(columns, Vector(columns, 0.0)), Vector(columns, 0.0)};
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const SiteSlopes& e = runs_[r].slopes;
    const auto column = columns_of(runs_[r]);
    for (std::size_t i = 0; i < kEntries; ++i) {
      s.with_ratio[column[i]] += weights[r] * e[i] * runs_[r].log_ratio;
      for (std::size_t j = 0; j < kEntries; ++j)
        s.products[column[i]][column[j]] += weights[r] * e[i] * e[j];
    }
  }
  return s;
}

SiteEvidence::Vector SiteEvidence::priors(const SiteVariances& variances) const {
  Vector all{variances.parts[index_of(SitePart::host)],
             variances.parts[index_of(SitePart::network)]};
  const double device = variances.parts[index_of(SitePart::device)];
  for (const Device& d : devices_) {
    all.push_back(device + untold_variance(d.rate_variance, d.sites, device));
    all.push_back(variances.parts[index_of(SitePart::links)]);
  }
  return all;
}

// B^(1/2) (E'W^-1 E + B^-1) B^(1/2): its diagonal is at least 1, whatever B.
SiteEvidence::Matrix SiteEvidence::precision(const SiteVariances& variances,
                                             const Sums& sums) const {
  const Vector b = priors(variances);
  Matrix matrix = sums.products;
  for (std::size_t i = 0; i < b.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j)
      matrix[i][j] *= std::sqrt(b[i] * b[j]) / variances.run;
    matrix[i][i] += 1;
  }
  return matrix;
}

double SiteEvidence::weight_of(const SiteRun& run, double weight, const Matrix& variance,
                               const Vector& paces, double own) const {
  const auto column = columns_of(run);
  double known = 0, spread = 0;        // e't, e'V e
  for (std::size_t i = 0; i < kEntries; ++i) {
    known += run.slopes[i] * paces[column[i]];
    for (std::size_t j = 0; j < kEntries; ++j)
      spread += run.slopes[i] * run.slopes[j] * variance[column[i]][column[j]];
  }
  // Without the run itself: a normal observation of variance s taken out again.
  const double s = own / weight, rest = s - spread;
  const double off = (run.log_ratio - known) * s / rest, without = spread * s / rest;
  const auto log_density = [&](double share, double wide) {
    const double v = without + wide * wide * own;
    return std::log(share) - 0.5 * (std::log(v) + off * off / v);
  };
  const double outlier =
      1 / (1 + std::exp(log_density(1 - kOutlierShare, 1) -
                        log_density(kOutlierShare, kOutlierWidth)));
  return 1 - outlier + outlier / (kOutlierWidth * kOutlierWidth);
}

hw_profiles::SiteFile SiteEvidence::learnt(const SiteVariances& variances) const {
  const Vector b = priors(variances);
  Vector weights(runs_.size(), 1.0), paces;
  Matrix variance;
  for (int round = 0; round < kMostRounds; ++round) {
    const Sums weighted = sums(weights);
    const SiteMatrix lower = lower_factor(precision(variances, weighted));
    const auto solved = [&](Vector v) {
      for (std::size_t i = 0; i < v.size(); ++i) v[i] *= std::sqrt(b[i]);
      v = backward_solved(lower, forward_solved(lower, std::move(v)));
      for (std::size_t i = 0; i < v.size(); ++i) v[i] *= std::sqrt(b[i]);
      return v;
    };
    Vector scaled = weighted.with_ratio;
    for (double& x : scaled) x /= variances.run;
    paces = solved(scaled);
    variance.clear();
    for (std::size_t i = 0; i < b.size(); ++i) {
      Vector unit(b.size(), 0.0);
      unit[i] = 1;
      variance.push_back(solved(std::move(unit)));
    }
    double moved = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const double now = weight_of(runs_[r], weights[r], variance, paces, variances.run);
      moved = std::max(moved, std::abs(now - weights[r]));
      weights[r] = now;
    }
    if (moved < kSettled) break;
  }
  const auto part = [&](std::size_t column) {
    return hw_profiles::PartPace{
        std::clamp(std::exp(paces[column]), 1 / hw_profiles::kMostPace, hw_profiles::kMostPace),
        variance[column][column]};
  };
  hw_profiles::SiteFile site;
  site.host = part(kHostColumn);
  site.network = part(kNetworkColumn);
  for (std::size_t g = 0; g < devices_.size(); ++g) {
    const std::size_t first = kFirstOfGpus + kColumnsOfGpu * g;
    site.gpus.push_back({devices_[g].gpu, part(first), part(first + 1)});
  }
  return site;
}

// By the matrix determinant lemma and Woodbury's identity, of E B E' + w I.
double SiteEvidence::misfit(const SiteVariances& variances) const {
  const Vector b = priors(variances);
  const SiteMatrix lower = lower_factor(precision(variances, unweighted_));
  Vector explained = unweighted_.with_ratio;
  for (std::size_t i = 0; i < b.size(); ++i) explained[i] *= std::sqrt(b[i]) / variances.run;
  double sum = static_cast<double>(runs_.size()) * std::log(variances.run) +
               squares_ / variances.run - squared(forward_solved(lower, explained));
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
