#include "reports/fit/solver.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include <nlopt.h>

#include "core/call.hpp"
#include "core/check.hpp"

namespace reports::fit {
namespace {

constexpr double kFirstReach = 0.25;   // of a logarithm, in one round
constexpr double kLeastReach = 0.004, kLeastGain = 1e-4;
constexpr int kInnerEvaluations = 400;

using Vector = std::vector<double>;

// Alternatives for one job: their cases, and by how much each is slower than the fastest.
struct Alternatives {
  std::vector<std::size_t> cases;
  Vector slower, log_measured;
};

// The regret that is expected of a pick which prefers one case over another as far as it is
// predicted faster: sum_i p_i slower_i, p = softmax(-log(predicted) / soft).
struct Regret {
  double value = 0;
  Vector slopes;                       // by the residual of each case
};
Regret regret_of(const Alternatives& group, const Vector& r, double soft) {
  Vector p;
  double least = std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = 0; i < group.cases.size(); ++i) {
    p.push_back(group.log_measured[i] + r[group.cases[i]]);
    least = std::min(least, p.back());
  }
  for (double& x : p) sum += x = std::exp((least - x) / soft);
  Regret regret;
  for (std::size_t i = 0; i < p.size(); ++i) regret.value += (p[i] /= sum) * group.slower[i];
  for (std::size_t i = 0; i < p.size(); ++i)
    regret.slopes.push_back(p[i] * (regret.value - group.slower[i]) / soft);
  return regret;
}

// What one linearisation minimises, as a function of the step d.
struct Linear {
  const SolverOptions& options;
  const std::vector<Constant>& constants;
  const Vector& weights;               // w
  const std::vector<Alternatives>& groups;
  Vector at, ratios;                   // u, r(u)
  std::vector<Slopes> slopes;

  double value(const Vector& d, const Vector& r) const {
    double sum = 0, common = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double x = r[i] / options.soft;
      sum += weights[i] * options.soft * (std::sqrt(1 + x * x) - 1);
      common += r[i] / static_cast<double>(r.size());
    }
    sum += options.shift * common * common;
    for (const Alternatives& group : groups)
      sum += rank_weight() * regret_of(group, r, options.soft).value;
    for (std::size_t k = 0; k < d.size(); ++k) sum += options.trust * square(apart(d, k));
    return sum;
  }
  Vector moved(const Vector& d) const {
    Vector r = ratios;
    for (std::size_t i = 0; i < r.size(); ++i)
      for (const Slope& s : slopes[i]) r[i] += s.value * d[s.constant];
    return r;
  }
  void gradient(const Vector& d, const Vector& r, double* out) const {
    double common = 0;
    for (const double x : r) common += x / static_cast<double>(r.size());
    for (std::size_t k = 0; k < d.size(); ++k)
      out[k] = 2 * options.trust * apart(d, k) / constants[k].spread;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double x = r[i] / options.soft;
      const double pull = weights[i] * x / std::sqrt(1 + x * x) +
                          2 * options.shift * common / static_cast<double>(r.size());
      for (const Slope& s : slopes[i]) out[s.constant] += pull * s.value;
    }
    for (const Alternatives& group : groups) {
      const Regret regret = regret_of(group, r, options.soft);
      for (std::size_t i = 0; i < group.cases.size(); ++i)
        for (const Slope& s : slopes[group.cases[i]])
          out[s.constant] += rank_weight() * regret.slopes[i] * s.value;
    }
  }

 private:
  static double square(double x) { return x * x; }
  double rank_weight() const { return options.rank / static_cast<double>(groups.size()); }
  double apart(const Vector& d, std::size_t k) const {
    return (at[k] + d[k] - std::log(constants[k].prior)) / constants[k].spread;
  }
};

double objective(unsigned n, const double* d, double* gradient, void* data) {
  const auto& linear = *static_cast<const Linear*>(data);
  const Vector step(d, d + n);
  const Vector r = linear.moved(step);
  if (gradient != nullptr) linear.gradient(step, r, gradient);
  return linear.value(step, r);
}

// The best step within `reach`.
Vector best_step(Linear& linear, double reach) {
  const std::size_t n = linear.constants.size();
  Vector low(n), high(n), d(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    low[k] = std::min(0.0, std::max(-reach, std::log(linear.constants[k].low) - linear.at[k]));
    high[k] = std::max(0.0, std::min(reach, std::log(linear.constants[k].high) - linear.at[k]));
  }
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> opt(
      nlopt_create(NLOPT_LD_SLSQP, static_cast<unsigned>(n)), nlopt_destroy);
  PLANNER_CHECK(opt != nullptr, "NLopt has SLSQP");
  nlopt_set_lower_bounds(opt.get(), low.data());
  nlopt_set_upper_bounds(opt.get(), high.data());
  nlopt_set_min_objective(opt.get(), objective, &linear);
  nlopt_set_ftol_rel(opt.get(), 1e-7);
  nlopt_set_maxeval(opt.get(), kInnerEvaluations);
  double least = 0;
  nlopt_optimize(opt.get(), d.data(), &least);  // a limit reached is an answer too
  for (std::size_t k = 0; k < n; ++k) d[k] = std::clamp(d[k], low[k], high[k]);
  return d;
}

Vector weights_of(const Cases& cases, std::span<const std::size_t> chosen, double balance) {
  std::map<std::string_view, double> sizes;
  for (const std::size_t i : chosen) ++sizes[cases.all()[i].dataset];
  Vector weights;
  double sum = 0;
  for (const std::size_t i : chosen) {
    weights.push_back(std::pow(sizes[cases.all()[i].dataset], -balance));
    sum += weights.back();
  }
  for (double& w : weights) w /= sum;
  return weights;
}

// Groups of which two cases at least are chosen.
std::vector<Alternatives> alternatives_of(const Cases& cases,
                                          std::span<const std::size_t> chosen) {
  std::map<std::pair<std::string_view, std::string_view>, Alternatives> groups;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Case& c = cases.all()[chosen[i]];
    if (!c.group.empty()) groups[{c.dataset, c.group}].cases.push_back(i);
  }
  std::vector<Alternatives> all;
  for (auto& [name, group] : groups) {
    if (group.cases.size() < 2) continue;
    double least = std::numeric_limits<double>::infinity();
    const auto measured = [&](std::size_t i) { return cases.all()[chosen[i]].measured; };
    for (const std::size_t i : group.cases) least = std::min(least, measured(i));
    for (const std::size_t i : group.cases) {
      group.slower.push_back(measured(i) / least - 1);
      group.log_measured.push_back(std::log(measured(i)));
    }
    all.push_back(std::move(group));
  }
  return all;
}

Vector exponentials(const Vector& u, const Vector& d) {
  Vector values;
  for (std::size_t k = 0; k < u.size(); ++k) values.push_back(std::exp(u[k] + d[k]));
  return values;
}

}  // namespace

Solution solve(const Cases& cases, std::span<const std::size_t> chosen,
               std::span<const double> start, const SolverOptions& options) {
  const Vector weights = weights_of(cases, chosen, options.balance);
  const std::vector<Alternatives> groups = alternatives_of(cases, chosen);
  const Vector still(start.size(), 0.0);
  Linear linear{options, cases.constants(), weights, groups, {}, {}, {}};
  for (const double v : start) linear.at.push_back(std::log(v));
  Solution best{{start.begin(), start.end()}, 0, 0};
  linear.ratios = cases.log_ratios(chosen, best.values);
  best.objective = linear.value(still, linear.ratios);
  double reach = kFirstReach;
  bool fresh = false;
  while (best.rounds < options.rounds && reach > kLeastReach) {
    core::stop_point();
    if (!fresh) linear.slopes = cases.slopes(chosen, best.values);
    fresh = true;
    ++best.rounds;
    const Vector d = best_step(linear, reach);
    const Vector values = exponentials(linear.at, d);
    Vector ratios = cases.log_ratios(chosen, values);
    const double now = linear.value(d, ratios);
    if (now >= best.objective) {
      reach /= 3;
      continue;
    }
    const double gain = (best.objective - now) / best.objective;
    for (std::size_t k = 0; k < d.size(); ++k) linear.at[k] += d[k];
    linear.ratios = std::move(ratios);
    best.values = values;
    best.objective = now;
    fresh = false;
    if (gain < kLeastGain) break;
  }
  return best;
}

}  // namespace reports::fit
