#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/check.hpp"
#include "core/code.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/names.hpp"
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

// "71.2 T": dense FLOP/s; "936 GB/s" without its unit where the heading has it.
std::string tera(core::FlopsPerSecond rate) { return fmt::format("{:.4g}", rate.value() / 1e12); }
std::string giga(core::BytesPerSecond rate) { return fmt::format("{:.4g}", rate.value() / 1e9); }
std::string or_dash(const auto& value, const auto& text) { return value ? text(*value) : "-"; }

reports::Table gpu_table(const std::vector<Profile>& profiles) {
  using reports::Align;
  reports::Table table({{"gpu", Align::left}, {"TFLOP/s"}, {"SMs"}, {"usable"}, {"GB/s"}, {"W"},
                        {"USD/h"}, {"node", Align::left}});
  for (const Profile& p : profiles)
    table.add({p.gpu.id, tera(p.gpu.peak_16bit), fmt::format("{}", p.gpu.enabled_sms),
               core::to_text(p.gpu.usable), giga(p.gpu.memory_bandwidth),
               or_dash(p.gpu.tdp, [](auto w) { return fmt::format("{:g}", w.value()); }),
               or_dash(p.gpu.price, [](auto d) { return fmt::format("{:.2f}", d.value()); }),
               p.node.id.empty() ? "its own" : p.node.id});
  return table;
}

// Each shipped node, on the first GPU that has its links.
std::vector<hw_profiles::Node> shipped_nodes(const std::vector<Profile>& profiles) {
  std::vector<hw_profiles::Node> nodes;
  for (const std::string& name : hw_profiles::node_names())
    for (Profile p : profiles) {
      if (!hw_profiles::use_node(p, name, "a shipped node").ok()) continue;
      nodes.push_back(p.node);
      break;
    }
  return nodes;
}

reports::Table node_table(const std::vector<hw_profiles::Node>& nodes) {
  using reports::Align;
  reports::Table table({{"node", Align::left}, {"GPUs"}, {"link", Align::left}, {"GB/s"},
                        {"pair GB/s"}, {"network Gbit/s"}, {"sold with", Align::left}});
  for (const hw_profiles::Node& n : nodes)
    table.add({n.id, fmt::format("{}", n.gpus_per_node), std::string(name(n.link)),
               giga(n.link_bandwidth), or_dash(n.pair_bandwidth, giga),
               fmt::format("{:g}", n.internode_bandwidth.value() * 8e-9),
               n.gpus.empty() ? "" : fmt::format("{}", fmt::join(n.gpus, ", "))});
  return table;
}

std::string gpus_text(const std::vector<Profile>& profiles,
                      const std::optional<std::string>& local) {
  return gpu_table(profiles).text(page_style()) +
         "\nTFLOP/s: dense, 16 bit. Choose another node with --node, GB/s per GPU:\n\n" +
         node_table(shipped_nodes(profiles)).text(page_style()) +
         (local ? "\nIn this machine: " + *local + '\n'
                : "\nNo GPU of a known kind in this machine.\n") +
         next_text({{"planner gpus H100", "one of them: every number, with its source"},
                    {"planner --model gpt2-1.5b --gpus 8 --gpu a100-sxm-80g", "plans for it"}});
}

// One GPU and its usual node: every number with where it comes from.
std::string profile_text(const Profile& p, const std::string& assumption) {
  const reports::TextStyle style = page_style();
  std::string text = reports::painted(
      fmt::format("{}: {}, {}", p.gpu.id, p.gpu.name, p.gpu.architecture), reports::Ink::heading,
      style);
  text += '\n';
  if (!assumption.empty()) text += reports::wrapped(assumption, 2, 2, style);
  if (!p.node.id.empty()) text += fmt::format("  node {}: {}\n", p.node.id, p.node.about);
  for (const hw_profiles::Sourced& s : p.sources) {
    if (s.field.starts_with("framework.") || s.field.starts_with("native.")) continue;
    text += reports::wrapped(fmt::format("{} = {} [{}]", s.field, s.text, s.source), 2, 6, style);
  }
  text += next_text(
      {{core::code("planner --model gpt2-1.5b --gpus 8 --gpu {}", core::Code::shell(p.gpu.id)),
        "plans for it"}});
  return text;
}

int show_gpu(const std::string& typed, const OutputOptions& output) {
  const core::Result<hw_profiles::Meant> meant = hw_profiles::gpu_meant(typed, "gpus");
  if (!meant.ok()) return refuse(meant.problems());
  const core::Result<Profile> profile = hw_profiles::find_profile(meant->id);
  if (!profile.ok()) return refuse(profile.problems());
  const core::Status delivered =
      deliver(output, gpus_json({*profile}, hw_profiles::detect_local_gpu()),
              [&] { return profile_text(*profile, meant->assumption); });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace

int gpus_verb(Arguments arguments) {
  OutputOptions output;
  std::optional<std::string> name;
  OptionSet set(
      "gpus",
      "Lists the GPUs that are known by name, and the one found here. With a NAME: every\n"
      "number of that GPU and its usual node, with its source.",
      "  planner gpus\n  planner gpus H100");
  set.positional("NAME", name, "a GPU as people call it (H100, a100-80gb, RTX 4090), or a file");
  add_output_options(set, output, "the list");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  if (name) return show_gpu(*name, output);
  const std::vector<Profile> profiles = shipped_profiles();
  const std::optional<std::string> local = hw_profiles::detect_local_gpu();
  const core::Status delivered = deliver(output, gpus_json(profiles, local),
                                         [&] { return gpus_text(profiles, local); });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
