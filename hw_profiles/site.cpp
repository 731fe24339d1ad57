#include "hw_profiles/site.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json_reader.hpp"
#include "hw_profiles/fields.hpp"

namespace hw_profiles {
namespace {

constexpr std::string_view kSchema = "site/1";
constexpr std::size_t kMaxSiteBytes = std::size_t{1} << 20;

constexpr std::array<std::string_view, 11> kRates{
    "gpu.memory_efficiency",  "gpu.gemm_efficiency",  "gpu.gemm_sustained",
    "gpu.gemm_efficiency_f8", "gpu.attention_flash2", "gpu.attention_flash1",
    "gpu.attention_fused",    "node.link_bandwidth",  "node.pair_bandwidth",
    "node.host_bandwidth",    "node.internode_bandwidth"};
constexpr std::array<std::string_view, 9> kTimes{
    "gpu.kernel_launch",       "node.link_latency",    "node.pair_latency",
    "node.internode_latency",  "native.kernel_submit", "native.graph_launch",
    "framework.kernel_submit", "framework.step_host",  "framework.collective_sync"};

// What a rate may not exceed, by what the profile states.
double most_of(const Field& field, const Profile& p) {
  if (field.kind == Kind::fraction) return 1;
  const auto link = [&](bool nvlink) {
    const auto most = nvlink ? p.gpu.nvlink_bandwidth : p.gpu.pcie_bandwidth;
    return most ? most->value() : 1e300;
  };
  if (field.name == "node.link_bandwidth") return link(p.node.link == LinkKind::nvswitch);
  if (field.name == "node.pair_bandwidth") return link(true);
  return 1e300;
}

void scale(Profile& profile, std::string_view name, double factor, const std::string& source) {
  const Field& field = *find_field(name);
  const std::optional<double> was = field.get(profile);
  if (!was) return;
  const double now = std::min(*was * factor, std::max(*was, most_of(field, profile)));
  field.put(profile, now);
  for (Sourced& s : profile.sources)
    if (s.field == name) s = {s.field, quantity_text(now, field.kind), source + ", of " + s.source};
}

}  // namespace

core::Result<SiteFile> read_site(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader root(*json, std::string(where), "", problems);
  SiteFile site;
  std::string schema;
  root.one_of("schema", std::span(&kSchema, 1), schema);
  root.required("pace", site.pace, core::positive());
  root.required("runs", site.runs);
  root.optional("measured_over_predicted", site.measured_over_predicted, core::positive());
  root.optional("gpu", site.gpu);
  root.optional("framework", site.framework);
  root.allow_only_known();
  if (problems.empty() && (site.pace > kMostPace || site.pace < 1 / kMostPace))
    root.problem("pace", fmt::format("between {} and {}", 1 / kMostPace, kMostPace),
                 fmt::format("{}", site.pace), "a site further off is another machine: --gpu FILE");
  if (problems.empty() && site.runs.empty())
    root.problem("runs", "ids of the runs it was learnt from", "none");
  if (!problems.empty()) return problems;
  return site;
}

core::Result<SiteFile> load_site(const std::string& path) {
  const core::Result<std::string> text = core::read_file(path, kMaxSiteBytes);
  if (!text.ok()) return text.problems();
  return read_site(*text, path);
}

std::string to_json_text(const SiteFile& site) {
  return core::dump(core::Json::object(
             {{"schema", kSchema},
              {"pace", site.pace},
              {"measured_over_predicted", site.measured_over_predicted},
              {"runs", core::Json::array_of(site.runs)},
              {"gpu", site.gpu},
              {"framework", site.framework}})) +
         '\n';
}

void use_site(Profile& profile, const SiteFile& site, std::string_view source) {
  const std::string said = fmt::format("{}: pace {:.4g} of {} run{}", source, site.pace,
                                       site.runs.size(), site.runs.size() == 1 ? "" : "s");
  for (const std::string_view name : kRates) scale(profile, name, 1 / site.pace, said);
  for (const std::string_view name : kTimes) scale(profile, name, site.pace, said);
  profile.site.runs = static_cast<int>(site.runs.size());
  profile.site.pace = site.pace;
  for (const std::string_view name : {"site.runs", "site.pace"})
    profile.sources.push_back(
        {std::string(name), quantity_text(*find_field(name)->get(profile), find_field(name)->kind),
         std::string(source)});
}

}  // namespace hw_profiles
