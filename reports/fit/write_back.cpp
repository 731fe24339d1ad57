#include "reports/fit/write_back.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"
#include "planner/evaluate/site_model.hpp"
#include "reports/fit/left_out_accuracy.hpp"

namespace reports::fit {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

// One number of one profile, as its file has it.
struct Written {
  std::string owner, field, text, source;
};

std::string fitted_source(const Constant& c) {
  const auto text = [&](double v) { return hw_profiles::rounded_text(c.field, v); };
  return fmt::format("fitted on published training runs within {} to {}, {} +- {:.0f} % believed "
                     "before: {} (reports/validation.md)",
                     text(c.low), text(c.high), text(c.prior), 100 * c.spread, c.why);
}

// What is believed of a GPU by a law of other GPUs: as wide as of the least known of them.
double unseen_spread(const std::vector<Constant>& constants) {
  double most = 0;
  for (const Constant& c : constants)
    if (c.field == kRateOfGpu) most = std::max(most, c.spread);
  return most;
}

// How far a kind of GPU may sustain another rate than its profile says: of itself and, of those
// that follow it, of cards that no run is known of.
void add_spreads(const Fitted& f, std::size_t k, std::vector<Written>& out) {
  const Constant& c = f.constants[k];
  const double device = f.site.parts[static_cast<std::size_t>(hw_profiles::SitePart::device)];
  const double left = std::sqrt(
      planner::untold_variance(c.spread * c.spread, static_cast<int>(f.sites[k]), device));
  const std::string field = "gpu.sustained_spread";
  const auto text = [&](double v) { return hw_profiles::rounded_text(field, v); };
  for (const std::string& owner : c.of)
    out.push_back({owner, field, text(left),
                   fmt::format("of {} believed before, what is left by {} site{}, each of which "
                               "differs by {} (reports/fit/site_variances.hpp)",
                               text(c.spread), f.sites[k], f.sites[k] == 1 ? "" : "s",
                               text(std::sqrt(device)))});
  for (const Scaled& s : c.scaled)
    out.push_back({s.of, field, text(unseen_spread(f.constants)),
                   "no training run of this card is known; as of the least known card of the table "
                   "(reports/fit/constants.json)"});
}

std::vector<Written> numbers_of(const Fitted& f) {
  std::vector<Written> out;
  for (std::size_t k = 0; k < f.constants.size(); ++k) {
    const Constant& c = f.constants[k];
    for (const std::string& owner : c.of)
      out.push_back({owner, c.field, hw_profiles::rounded_text(c.field, f.values[k]),
                     fitted_source(c)});
    for (const Scaled& s : c.scaled)
      out.push_back({s.of, c.field, hw_profiles::rounded_text(c.field, f.values[k] * s.by),
                     fmt::format("derived, unverified for this card: {:.3g} times that of {}: {}",
                                 s.by, c.of.front(), s.why)});
    if (c.field == kRateOfGpu && !f.left_out.empty()) add_spreads(f, k, out);
  }
  return out;
}

std::string_view section_of(std::string_view field) { return field.substr(0, field.find('.')); }

// Where the owner's file lies, and whether its fields stand at the top of it.
std::string path_of(const Written& w, const std::string& folder) {
  const std::string_view section = section_of(w.field);
  const std::string_view kind = section == "gpu" ? "data" : section == "node" ? "nodes"
                                                                               : "frameworks";
  return fmt::format("{}/hw_profiles/{}/{}.json", folder, kind, w.owner);
}

core::Status put(core::Json& file, const Written& w, const std::string& path) {
  const std::string section(section_of(w.field));
  const std::string key = w.field.substr(section.size() + 1);
  const core::Json number = core::Json::array({w.text, w.source});
  if (section != "gpu") {
    if (!file.is_object()) return core::Problem{path, "an object", core::describe(file), ""};
    file.set(key, number);
    return core::Done{};
  }
  const core::Json* gpu = file.find(section);
  if (gpu == nullptr || !gpu->is_object())
    return core::Problem{path, "a section \"gpu\"", "none", "the folder of a source tree"};
  core::Json changed = *gpu;
  changed.set(key, number);
  file.set(section, std::move(changed));
  return core::Done{};
}

}  // namespace

core::Status write_accuracy(const Fitted& fitted, const planner::Accuracy& accuracy,
                            const std::string& folder) {
  return core::write_atomically(
      folder + "/planner/evaluate/accuracy.json",
      to_json_text(accuracy, fmt::format("planner fit: {} runs of {} datasets, each left out in "
                                         "turn; memory and fit verdicts of the same rows",
                                         fitted.rows, fitted.left_out.size())));
}

core::Status write_back(const Fitted& fitted, const std::optional<planner::Accuracy>& accuracy,
                        const std::string& folder) {
  std::map<std::string, core::Json> files;
  for (const Written& w : numbers_of(fitted)) {
    const std::string path = path_of(w, folder);
    if (!files.contains(path)) {
      const core::Result<std::string> text = core::read_file(path, kMaxBytes);
      if (!text.ok()) return text.problems();
      core::Result<core::Json> json = core::parse_json(*text, path);
      if (!json.ok()) return json.problems();
      files.emplace(path, std::move(json).value());
    }
    const core::Status done = put(files.at(path), w, path);
    if (!done.ok()) return done;
  }
  for (const auto& [path, json] : files) {
    const core::Status done = core::write_atomically(path, core::dump(json) + '\n');
    if (!done.ok()) return done;
  }
  return accuracy ? write_accuracy(fitted, *accuracy, folder) : core::Done{};
}

}  // namespace reports::fit
