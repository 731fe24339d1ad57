#include "planner/evaluate/accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include <boost/math/special_functions/erf.hpp>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/json_reader.hpp"

std::span<const core::EmbeddedFile> evaluate_data();

namespace planner {

static constexpr std::string_view kSchema = "accuracy/6";

double Accuracy::share_of_site(int runs) const {
  return runs <= 0 ? 0 : between / (between + within / runs);
}

double Accuracy::step_factor(int runs, double more) const {
  const double left = between * (1 - share_of_site(runs));
  return std::exp(reach * std::sqrt(within + left + more));
}

bool Accuracy::has_scored_framework(std::string_view framework) const {
  return std::ranges::find(frameworks, framework) != frameworks.end();
}

bool Accuracy::has_scored_family(std::string_view architecture) const {
  return std::ranges::any_of(families, [&](const std::string& family) {
    return architecture.substr(0, architecture.find(' ')) == family;
  });
}

double Accuracy::unscored_variance(std::string_view framework,
                                   std::string_view architecture) const {
  return (has_scored_framework(framework) ? 0 : between_frameworks) +
         (has_scored_family(architecture) ? 0 : between);
}

double Accuracy::step_factor(const hw_profiles::Site& known, const SiteSlopes& slopes) const {
  const int runs = known.runs.value_or(0);
  if (runs == 0 || known.pace) return step_factor(runs);  // no parts were told apart
  const std::array left{known.device_left, known.host_left, known.links_left,
                        known.network_left};  // as kSiteParts
  double sum = site.run;
  for (std::size_t k = 0; k < left.size(); ++k)
    sum += slopes[k] * slopes[k] * left[k].value_or(site.parts[k]);
  return std::min(step_factor(0), std::exp(site_reach * std::sqrt(sum)));
}

double Accuracy::tie_factor() const { return std::exp(std::sqrt(within)); }

bool Accuracy::has_scored_memory(std::string_view framework) const {
  return std::ranges::find(memory_frameworks, framework) != memory_frameworks.end();
}

MemoryError Accuracy::memory_error(std::string_view framework, MemoryRegime regime) const {
  const double of_regime = memory_regimes[static_cast<std::size_t>(regime)].more;
  const double of_framework = has_scored_memory(framework) ? 0 : memory_between;
  return planner::memory_error(memory_spread, of_regime + of_framework);
}

MemoryError memory_error(double spread, double more) {
  const auto deviation = [&](double width) {
    return std::sqrt(width * width * spread * spread + more);
  };
  return {deviation(1), deviation(kOutlierWidth)};
}

// Boost's: the last digit of std::erfc depends on the C library, and a plan made in a browser is to
// be the plan made here.
static double erfc(double x) {
  using namespace boost::math::policies;
  return boost::math::erfc(x, policy<promote_double<false>>());
}

double out_of_memory(const MemoryRisk& r) {
  if (r.device <= 0 || r.usable <= 0) return 0;
  constexpr double kCertain = 4;         // erfc(4) is 1.5e-8
  const double usual = r.error.usual * std::numbers::sqrt2;
  const double outlier = r.error.outlier * std::numbers::sqrt2;
  if (1 - r.device / r.usable > kCertain * outlier) return 0;  // log(x) >= 1 - 1 / x
  const double left = std::log(r.usable / r.device);
  return 0.5 * ((1 - kOutlierShare) * erfc(left / usual) + kOutlierShare * erfc(left / outlier));
}

// Halving finds it: out_of_memory ascends with the bytes.
double safe_device(double usable, double probability, const MemoryError& error) {
  double low = 0, high = usable;
  if (out_of_memory({high, usable, error}) <= probability) return high;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (out_of_memory({middle, usable, error}) <= probability ? low : high) = middle;
  }
  return low;
}

double expected_step(double step, double out_of_memory) {
  return step * (1 + kFailedRun * out_of_memory);
}

// "regimes" and "memory_regimes" of the file, by name.
template <class Regime, std::size_t N>
static void read_regimes(core::JsonReader all, std::array<RegimeAccuracy, N>& regimes) {
  for (std::size_t r = 0; r < N; ++r) {
    core::JsonReader one = all.object(name(static_cast<Regime>(r)));
    one.required("runs", regimes[r].runs, core::at_least(0));
    one.required("datasets", regimes[r].datasets, core::at_least(0));
    one.required("more", regimes[r].more, core::NumberRange{0, 100, false});
    one.allow_only_known();
  }
  all.allow_only_known();
}

core::Result<Accuracy> read_accuracy(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader root(*json, std::string(where), "", problems);
  Accuracy a;
  std::string schema, source;
  root.one_of("schema", std::span(&kSchema, 1), schema);
  root.required("source", source);
  root.required("coverage", a.coverage, core::positive());
  root.required("between", a.between, core::positive());
  root.required("within", a.within, core::positive());
  root.required("reach", a.reach, core::positive());
  core::JsonReader parts = root.object("site");
  for (const hw_profiles::SitePart part : hw_profiles::kSiteParts)
    parts.required(name(part), a.site.parts[static_cast<std::size_t>(part)], core::positive());
  parts.required("run", a.site.run, core::positive());
  parts.required("reach", a.site_reach, core::positive());
  parts.allow_only_known();
  root.required("memory_low", a.memory_low, core::positive());
  root.required("memory_high", a.memory_high, core::positive());
  root.required("memory_spread", a.memory_spread, core::positive());
  root.required("frameworks", a.frameworks);
  root.required("families", a.families);
  root.required("between_frameworks", a.between_frameworks, core::positive());
  root.required("between_frameworks_source", source);
  read_regimes<Regime>(root.object("regimes"), a.regimes);
  read_regimes<MemoryRegime>(root.object("memory_regimes"), a.memory_regimes);
  root.required("memory_frameworks", a.memory_frameworks);
  root.required("memory_between", a.memory_between, core::positive());
  root.required("memory_between_source", source);
  root.allow_only_known();
  if (!problems.empty()) return problems;
  return a;
}

const Accuracy& accuracy() {
  static const Accuracy known = [] {
    const core::Result<std::string> text =
        core::embedded_or_override(evaluate_data(), "accuracy.json");
    PLANNER_CHECK(text.ok(), "the data of accuracy is embedded");
    const core::Result<Accuracy> read = read_accuracy(*text, "accuracy.json");
    PLANNER_CHECK(read.ok(), core::to_text(read.problems()));
    return *read;
  }();
  return known;
}

}  // namespace planner
