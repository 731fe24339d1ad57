#include "reports/fit/write_back.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/numbers.hpp"
#include "reports/fit/left_out_accuracy.hpp"

namespace reports::fit {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

std::string_view section_of(const Constant& c) {
  return std::string_view(c.field).substr(0, c.field.find('.'));
}

// Where the owner's file lies, and whether its fields stand at the top of it.
std::string path_of(const Constant& c, const std::string& owner, const std::string& folder) {
  const std::string_view section = section_of(c);
  const std::string_view kind = section == "gpu" ? "data" : section == "node" ? "nodes"
                                                                               : "frameworks";
  return fmt::format("{}/hw_profiles/{}/{}.json", folder, kind, owner);
}

core::Json number_json(const Constant& c, double value) {
  const auto text = [&](double v) { return hw_profiles::rounded_text(c.field, v); };
  return core::Json::array(
      {text(value), fmt::format("fitted on published training runs within {} to {}, {} +- {:.0f} % "
                                "believed before: {} (reports/validation.md)",
                                text(c.low), text(c.high), text(c.prior), 100 * c.spread, c.why)});
}

core::Status put(core::Json& file, const Constant& c, double value, const std::string& path) {
  const std::string_view section = section_of(c);
  const std::string key = c.field.substr(section.size() + 1);
  if (section != "gpu") {
    if (!file.is_object()) return core::Problem{path, "an object", core::describe(file), ""};
    file.set(key, number_json(c, value));
    return core::Done{};
  }
  const core::Json* gpu = file.find(section);
  if (gpu == nullptr || !gpu->is_object())
    return core::Problem{path, "a section \"gpu\"", "none", "the folder of a source tree"};
  core::Json changed = *gpu;
  changed.set(key, number_json(c, value));
  file.set(section, std::move(changed));
  return core::Done{};
}

}  // namespace

core::Status write_back(const Fitted& fitted, const std::optional<planner::Accuracy>& accuracy,
                        const std::string& folder) {
  std::map<std::string, core::Json> files;
  for (std::size_t k = 0; k < fitted.constants.size(); ++k) {
    const Constant& c = fitted.constants[k];
    for (const std::string& owner : c.of) {
      const std::string path = path_of(c, owner, folder);
      if (!files.contains(path)) {
        const core::Result<std::string> text = core::read_file(path, kMaxBytes);
        if (!text.ok()) return text.problems();
        core::Result<core::Json> json = core::parse_json(*text, path);
        if (!json.ok()) return json.problems();
        files.emplace(path, std::move(json).value());
      }
      const core::Status done = put(files.at(path), c, fitted.values[k], path);
      if (!done.ok()) return done;
    }
  }
  for (const auto& [path, json] : files) {
    const core::Status done = core::write_atomically(path, core::dump(json) + '\n');
    if (!done.ok()) return done;
  }
  if (!accuracy) return core::Done{};
  return core::write_atomically(
      folder + "/planner/accuracy.json",
      to_json_text(*accuracy, fmt::format("planner fit: {} runs of {} datasets, each left out in "
                                          "turn; memory and fit verdicts of the same rows",
                                          fitted.rows, fitted.left_out.size())));
}

}  // namespace reports::fit
