#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/check.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "reports/text.hpp"

namespace cli {
namespace {

using core::Json;
using hw_profiles::Profile;

std::vector<Profile> shipped_profiles() {
  std::vector<Profile> profiles;
  for (const std::string& name : hw_profiles::profile_names()) {
    core::Result<Profile> profile = hw_profiles::find_profile(name);
    PLANNER_CHECK(profile.ok(), "a shipped profile does not load");
    profiles.push_back(std::move(profile).value());
  }
  return profiles;
}

std::string gpus_json(const std::vector<Profile>& profiles,
                      const std::optional<std::string>& local) {
  Json array = Json::array();
  for (const Profile& p : profiles) {
    core::Result<Json> whole = core::parse_json(hw_profiles::to_json_text(p), p.gpu.id);
    PLANNER_CHECK(whole.ok());
    array.push_back(std::move(whole).value());
  }
  return core::dump(Json::object({{"schema", "gpus/1"}, {"local", local}, {"gpus", array}})) + '\n';
}

std::string tflops(core::FlopsPerSecond rate) {
  return fmt::format("{:.4g} TFLOP/s", rate.value() / 1e12);
}

std::string gpus_text(const std::vector<Profile>& profiles,
                      const std::optional<std::string>& local) {
  using reports::Align;
  reports::Table table({{"gpu", Align::left}, {"16-bit peak"}, {"usable"}, {"memory"},
                        {"link", Align::left}, {"per link"}});
  for (const Profile& p : profiles)
    table.add({p.gpu.id, tflops(p.gpu.peak_16bit), core::to_text(p.gpu.usable),
               core::to_text(p.gpu.memory_bandwidth), std::string(name(p.node.link)),
               core::to_text(p.node.link_bandwidth)});
  return table.text(page_style()) + (local ? "\nIn this machine: " + *local + '\n'
                               : "\nNo GPU of a known kind in this machine.\n");
}

}  // namespace

int gpus_verb(Arguments arguments) {
  OutputOptions output;
  OptionSet set("gpus", "Lists the GPUs that are known by name, and the one found here.",
                "  planner gpus");
  add_output_options(set, output, "the list");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  const std::vector<Profile> profiles = shipped_profiles();
  const std::optional<std::string> local = hw_profiles::detect_local_gpu();
  const core::Status delivered = deliver(output, gpus_json(profiles, local),
                                         [&] { return gpus_text(profiles, local); });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
