#include "reports/fit/cases.hpp"

#include <algorithm>
#include <cmath>

#include "hw_profiles/numbers.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/step_time.hpp"

namespace reports::fit {
namespace {

constexpr double kStep = 0.02;         // of a constant's logarithm: beyond rounding to picoseconds
constexpr double kNoShare = 1;         // only this tool's executor depends on it; no run is its own

// Whether kernels of the two jobs take as long on one machine.
bool times_alike(const planner::Job& a, const planner::Job& b) {
  return a.attention == b.attention && a.precision == b.precision &&
         a.fp8_scaling == b.fp8_scaling && a.fp8_tensors == b.fp8_tensors &&
         a.fused_norm == b.fused_norm &&
         a.compile == b.compile && a.quantization == b.quantization;
}

double square(double x) { return x * x; }

double step_of(const validation::Prepared& ready, const cost::Machine& machine) {
  return planner::timed(ready.program, machine, ready.strategy.schedule).time.step.value();
}

}  // namespace

std::size_t Cases::place_of(const validation::Row& row, const validation::Prepared& ready) {
  Place place{ready.question.profile, row.job, {}};
  place.profile.sources.clear();
  const auto found = std::ranges::find_if(places_, [&](const Place& p) {
    return times_alike(p.job, place.job) && p.profile == place.profile;
  });
  if (found != places_.end()) return static_cast<std::size_t>(found - places_.begin());
  for (std::size_t k = 0; k < constants_.size(); ++k)
    if (constants_[k].concerns(place.profile)) place.constants.push_back(k);
  places_.push_back(std::move(place));
  return places_.size() - 1;
}

Cases::Cases(const std::vector<validation::Row>& rows, std::vector<Constant> constants)
    : constants_(std::move(constants)) {
  validation::Predictor predictor;
  for (const validation::Row& row : rows) {
    if (!row.step) continue;
    core::Result<validation::Prepared> ready = predictor.prepare(row);
    if (!ready.ok()) continue;
    const std::size_t place = place_of(row, *ready);
    const std::string& architecture = ready->question.profile.gpu.architecture;
    cases_.push_back({row.id, row.dataset, row.job.framework,
                      architecture.substr(0, architecture.find(' ')), row.group, row.gpus,
                      row.step->value(), place, std::move(ready).value()});
  }
}

std::vector<std::string> Cases::datasets() const {
  std::set<std::string> names;
  for (const Case& c : cases_) names.insert(c.dataset);
  return {names.begin(), names.end()};
}

std::vector<std::size_t> Cases::members(std::string_view dataset) const {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < cases_.size(); ++i)
    if (cases_[i].dataset == dataset) chosen.push_back(i);
  return chosen;
}

std::vector<std::size_t> Cases::counts() const {
  std::vector<std::size_t> counts(constants_.size(), 0);
  for (const Case& c : cases_)
    for (const std::size_t k : places_[c.place].constants) ++counts[k];
  return counts;
}

std::vector<std::set<std::string>> Cases::datasets_of_constants() const {
  std::vector<std::set<std::string>> all(constants_.size());
  for (const Case& c : cases_)
    for (const std::size_t k : places_[c.place].constants) all[k].insert(c.dataset);
  return all;
}

std::vector<std::size_t> Cases::sites() const {
  std::vector<std::size_t> sizes;
  for (const auto& datasets : datasets_of_constants()) sizes.push_back(datasets.size());
  return sizes;
}

std::vector<double> Cases::priors() const {
  std::vector<double> values;
  for (const Constant& c : constants_) values.push_back(c.prior);
  return values;
}

std::vector<double> Cases::shipped() const {
  std::vector<double> values = priors();
  for (const Place& place : places_)
    for (const std::size_t k : place.constants)
      values[k] = hw_profiles::number_of(place.profile, constants_[k].field).value_or(values[k]);
  return values;
}

hw_profiles::Profile Cases::profile(const Place& place, std::span<const double> values) const {
  hw_profiles::Profile profile = place.profile;
  for (const std::size_t k : place.constants)
    hw_profiles::put_number(profile, constants_[k].field, values[k]);
  return profile;
}

cost::Machine Cases::machine(const Place& place, std::span<const double> values) const {
  return planner::machine_for(profile(place, values), place.job, kNoShare);
}

std::vector<cost::Machine> Cases::machines(std::span<const double> values) const {
  std::vector<cost::Machine> all;
  for (const Place& place : places_) all.push_back(machine(place, values));
  return all;
}

std::vector<double> Cases::log_ratios(std::span<const std::size_t> chosen,
                                      std::span<const double> values) const {
  const std::vector<cost::Machine> all = machines(values);
  std::vector<double> ratios;
  for (const std::size_t i : chosen)
    ratios.push_back(std::log(step_of(cases_[i].ready, all[cases_[i].place]) / cases_[i].measured));
  return ratios;
}

std::vector<Slopes> Cases::slopes(std::span<const std::size_t> chosen,
                                  std::span<const double> values) const {
  // By place: the machine as it is, then with each of its constants a step higher.
  std::vector<std::vector<cost::Machine>> varied(places_.size());
  for (std::size_t p = 0; p < places_.size(); ++p) {
    varied[p].push_back(machine(places_[p], values));
    for (const std::size_t k : places_[p].constants) {
      std::vector<double> stepped(values.begin(), values.end());
      stepped[k] *= std::exp(kStep);
      varied[p].push_back(machine(places_[p], stepped));
    }
  }
  std::vector<Slopes> all;
  for (const std::size_t i : chosen) {
    const Case& c = cases_[i];
    std::vector<const cost::Machine*> lanes;
    for (const cost::Machine& m : varied[c.place]) lanes.push_back(&m);
    const std::vector<planner::Time> times =
        planner::step_times(c.ready.program, lanes, c.ready.strategy.schedule);
    Slopes slopes;
    for (std::size_t s = 0; s < places_[c.place].constants.size(); ++s)
      slopes.push_back({places_[c.place].constants[s],
                        std::log(times[s + 1].step / times[0].step) / kStep});
    all.push_back(std::move(slopes));
  }
  return all;
}

std::vector<planner::Regime> Cases::regimes(std::span<const std::size_t> chosen,
                                            std::span<const double> values) const {
  const std::vector<cost::Machine> all = machines(values);
  std::vector<planner::Regime> regimes;
  for (const std::size_t i : chosen) {
    const Case& c = cases_[i];
    const planner::Time time =
        planner::timed(c.ready.program, all[c.place], c.ready.strategy.schedule).time;
    regimes.push_back(planner::regime_of(
        c.ready.program.mesh, c.ready.question.profile.node.gpus_per_node, time));
  }
  return regimes;
}

std::vector<planner::SiteRun> Cases::site_runs(std::span<const std::size_t> chosen,
                                               std::span<const double> values) const {
  std::vector<std::vector<cost::Machine>> by_place;
  for (const Place& place : places_)
    by_place.push_back(planner::site_machines(profile(place, values), place.job, kNoShare));
  std::vector<std::set<std::string>> datasets = datasets_of_constants();
  for (auto& of_constant : datasets)
    for (const std::size_t i : chosen) of_constant.erase(cases_[i].dataset);
  const std::vector<double> ratios = log_ratios(chosen, values);
  std::vector<planner::SiteRun> runs;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Case& c = cases_[chosen[i]];
    runs.push_back({places_[c.place].profile.gpu.id, -ratios[i],
                    planner::site_slopes(c.ready.program, by_place[c.place],
                                         c.ready.strategy.schedule)});
    runs.back().rate_variance =
        square(places_[c.place].profile.gpu.sustained_spread.value_or(0));
    for (const std::size_t k : places_[c.place].constants) {
      if (constants_[k].field != kRateOfGpu) continue;
      runs.back().rate_variance = square(constants_[k].spread);
      runs.back().sites = static_cast<int>(datasets[k].size());
    }
  }
  return runs;
}

}  // namespace reports::fit
