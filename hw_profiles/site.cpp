#include "hw_profiles/site.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/file.hpp"
#include "core/json_reader.hpp"
#include "hw_profiles/fields.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/quantity_text.hpp"

namespace hw_profiles {
namespace {

constexpr std::string_view kSchema = "site/3", kSecondSchema = "site/2", kFirstSchema = "site/1";
constexpr std::array<std::string_view, 3> kSchemas{kFirstSchema, kSecondSchema, kSchema};
constexpr std::size_t kMaxSiteBytes = std::size_t{1} << 20;

// A field that a site's pace scales.
struct Paced {
  std::string_view field;
  SitePart part;
  bool is_rate;                        // else a time
};
constexpr std::array kPaced{
    Paced{"gpu.memory_efficiency", SitePart::device, true},
    Paced{"gpu.gemm_efficiency", SitePart::device, true},
    Paced{"gpu.gemm_sustained", SitePart::device, true},
    Paced{"gpu.gemm_efficiency_f8", SitePart::device, true},
    Paced{"gpu.attention_flash2", SitePart::device, true},
    Paced{"gpu.attention_flash1", SitePart::device, true},
    Paced{"gpu.attention_fused", SitePart::device, true},
    Paced{"native.gemm_sustained", SitePart::device, true},
    Paced{"native.memory_efficiency", SitePart::device, true},
    Paced{"native.attention_forward", SitePart::device, true},
    Paced{"native.attention_backward", SitePart::device, true},
    Paced{"gpu.kernel_launch", SitePart::device, false},
    Paced{"native.kernel_submit", SitePart::host, false},
    Paced{"native.graph_launch", SitePart::host, false},
    Paced{"framework.kernel_submit", SitePart::host, false},
    Paced{"framework.step_host", SitePart::host, false},
    Paced{"node.link_bandwidth", SitePart::links, true},
    Paced{"node.pair_bandwidth", SitePart::links, true},
    Paced{"node.host_bandwidth", SitePart::links, true},
    Paced{"node.internode_bandwidth", SitePart::network, true},
    Paced{"node.link_latency", SitePart::links, false},
    Paced{"node.pair_latency", SitePart::links, false},
    Paced{"node.internode_latency", SitePart::network, false},
    Paced{"framework.collective_sync", SitePart::links, false}};

// What timed collectives show of a node.
constexpr std::array<std::string_view, 9> kMeasurable{
    "node.link_bandwidth",       "node.link_latency",       "node.pair_bandwidth",
    "node.pair_latency",         "node.internode_efficiency", "node.internode_latency",
    "node.rank_wait",            "node.tree_wait",          "node.nccl_low_latency"};

// What a rate may not exceed, by what the profile states.
double most_of(const Field& field, const Profile& p) {
  if (field.kind == Kind::fraction) return 1;
  const auto link = [&](bool nvlink) {
    const auto most = nvlink ? p.gpu.nvlink_bandwidth : p.gpu.pcie_bandwidth;
    return most ? most->value() : 1e300;
  };
  if (field.name == "node.link_bandwidth") return link(links_all(p.node.link));
  if (field.name == "node.pair_bandwidth") return link(true);
  return 1e300;
}

// What the field becomes, or empty where the profile has none.
std::optional<double> paced(const Profile& profile, const Paced& p, const Field& field,
                            double pace) {
  const std::optional<double> was = field.get(profile);
  if (!was) return std::nullopt;
  return std::min(p.is_rate ? *was / pace : *was * pace, std::max(*was, most_of(field, profile)));
}

void scale(Profile& profile, SitePart part, double pace, std::string_view source) {
  const std::string said = fmt::format("{}, {} pace {:.4g}", source, name(part), pace);
  for (const Paced& p : kPaced) {
    if (p.part != part) continue;
    const Field& field = *find_field(p.field);
    const std::optional<double> now = paced(profile, p, field, pace);
    if (!now) continue;
    field.put(profile, *now);
    for (Sourced& s : profile.sources)
      if (s.field == p.field)
        s = {s.field, quantity_text(*now, field.kind), said + ", of " + s.source};
  }
}

void state(Profile& profile, std::string_view name, double value, const std::string& source) {
  const Field& field = *find_field(name);
  field.put(profile, value);
  profile.sources.push_back({std::string(name), quantity_text(value, field.kind), source});
}

std::string runs_text(const SiteFile& site, std::string_view source) {
  std::string text = fmt::format("{}: {} run{}", source, site.runs.size(),
                                 site.runs.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < site.gpus.size(); ++i)
    text += (i == 0 ? " on " : ", ") + site.gpus[i].gpu;
  return text;
}

void check_pace(core::JsonReader& reader, double pace) {
  if (pace > kMostPace || pace < 1 / kMostPace)
    reader.problem("pace", fmt::format("between {} and {}", 1 / kMostPace, kMostPace),
                   fmt::format("{}", pace), "a site further off is another machine: --gpu FILE");
}

PartPace read_part(core::JsonReader reader) {
  PartPace part;
  reader.required("pace", part.pace, core::positive());
  reader.required("left", part.left, core::positive());
  reader.allow_only_known();
  check_pace(reader, part.pace);
  return part;
}

void read_parts(core::JsonReader& root, SiteFile& site, bool network_apart) {
  site.host = read_part(root.object("host"));
  if (network_apart) site.network = read_part(root.object("network"));
  for (core::JsonReader& one : root.objects("gpus")) {
    GpuPace gpu;
    one.required("gpu", gpu.gpu);
    gpu.device = read_part(one.object("device"));
    gpu.links = read_part(one.object("links"));
    one.allow_only_known();
    site.gpus.push_back(std::move(gpu));
  }
  if (!network_apart && !site.gpus.empty()) site.network = site.gpus.front().links;
}

void read_measured(core::JsonReader& root, SiteFile& site) {
  for (core::JsonReader& one : root.objects("measured")) {
    MeasuredField m;
    one.required("field", m.field);
    one.required("value", m.value);
    one.required("source", m.source);
    one.optional("gpu", m.gpu);
    one.allow_only_known();
    if (!m.field.empty() && !measurable(m.field))
      one.problem("field", fmt::format("one of {}", fmt::join(kMeasurable, ", ")), m.field);
    else if (!m.field.empty())
      if (const auto number = parse_quantity(m.value, find_field(m.field)->kind); !number.ok())
        one.problem("value", number.problems().front().expected, m.value);
    site.measured.push_back(std::move(m));
  }
}

core::Json measured_json(const SiteFile& site) {
  core::Json all = core::Json::array();
  for (const MeasuredField& m : site.measured)
    all.push_back(core::Json::object(
        {{"field", m.field}, {"value", m.value}, {"gpu", m.gpu}, {"source", m.source}}));
  return all;
}

core::Json part_json(const PartPace& part) {
  return core::Json::object({{"pace", part.pace}, {"left", part.left}});
}

}  // namespace

std::string_view name(SitePart part) {
  switch (part) {
    case SitePart::device: return "device";
    case SitePart::host: return "host";
    case SitePart::links: return "links";
    case SitePart::network: return "network";
  }
  return "";
}

const GpuPace* SiteFile::of(std::string_view gpu) const {
  for (const GpuPace& g : gpus)
    if (g.gpu == gpu) return &g;
  return nullptr;
}

bool measurable(std::string_view field) { return std::ranges::count(kMeasurable, field) > 0; }

core::Result<SiteFile> read_site(std::string_view text, std::string_view where) {
  const core::Result<core::Json> json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader root(*json, std::string(where), "", problems);
  SiteFile site;
  std::string schema, gpu;
  root.one_of("schema", std::span(kSchemas), schema);
  root.required("runs", site.runs);
  root.optional("measured_over_predicted", site.measured_over_predicted, core::positive());
  root.optional("framework", site.framework);
  if (schema == kFirstSchema) {
    double pace = 1;
    root.required("pace", pace, core::positive());
    root.optional("gpu", gpu);
    if (problems.empty()) check_pace(root, pace);
    site.pace = pace;
  } else if (!schema.empty() && !site.runs.empty()) {
    read_parts(root, site, schema == kSchema);
  }
  if (schema == kSchema && root.has("measured")) read_measured(root, site);
  root.allow_only_known();
  if (problems.empty() && site.runs.empty() && site.measured.empty())
    root.problem("runs", "ids of the runs it was learnt from, or fields in `measured`", "none");
  if (!problems.empty()) return problems;
  return site;
}

core::Result<SiteFile> load_site(const std::string& path) {
  const core::Result<std::string> text = core::read_file(path, kMaxSiteBytes);
  if (!text.ok()) return text.problems();
  return read_site(*text, path);
}

std::string to_json_text(const SiteFile& site) {
  core::Json root =
      core::Json::object({{"schema", kSchema}, {"runs", core::Json::array_of(site.runs)}});
  if (!site.runs.empty()) {
    core::Json gpus = core::Json::array();
    for (const GpuPace& g : site.gpus)
      gpus.push_back(core::Json::object({{"gpu", g.gpu},
                                         {"device", part_json(g.device)},
                                         {"links", part_json(g.links)}}));
    root.set("framework", site.framework);
    root.set("measured_over_predicted", site.measured_over_predicted);
    root.set("host", part_json(site.host));
    root.set("network", part_json(site.network));
    root.set("gpus", std::move(gpus));
  }
  if (!site.measured.empty()) root.set("measured", measured_json(site));
  return core::dump(root) + '\n';
}

// How many of the measured fields are this GPU's, or its problem.
static core::Result<int> use_measured(Profile& profile, const SiteFile& site,
                                      std::string_view source) {
  int used = 0;
  for (const MeasuredField& m : site.measured) {
    if (!m.gpu.empty() && m.gpu != profile.gpu.id) continue;
    const core::Status done =
        set(profile, m.field, m.value, fmt::format("{}: {}", source, m.source));
    if (!done.ok()) return done.problems();
    ++used;
  }
  return used;
}

static void use_paces(Profile& profile, const SiteFile& site, std::string_view source) {
  const std::string said = runs_text(site, source);
  state(profile, "site.runs", static_cast<double>(site.runs.size()), said);
  if (site.pace) {
    for (const SitePart part : kSiteParts) scale(profile, part, *site.pace, said);
    state(profile, "site.pace", *site.pace, said);
    return;
  }
  const GpuPace* const gpu = site.of(profile.gpu.id);
  const std::array<const PartPace*, kSiteParts.size()> paces{
      gpu != nullptr ? &gpu->device : nullptr, &site.host, gpu != nullptr ? &gpu->links : nullptr,
      &site.network};
  const auto each = [&](auto&& apply) {
    for (std::size_t i = 0; i < kSiteParts.size(); ++i)
      if (paces[i] != nullptr) apply(kSiteParts[i], *paces[i]);
  };
  each([&](SitePart part, const PartPace& p) { scale(profile, part, p.pace, said); });
  // In the order of fields.cpp, in which files are read back.
  each([&](SitePart part, const PartPace& p) {
    state(profile, fmt::format("site.{}", name(part)), p.pace, said);
  });
  each([&](SitePart part, const PartPace& p) {
    state(profile, fmt::format("site.{}_left", name(part)), p.left, said);
  });
}

core::Status use_site(Profile& profile, const SiteFile& site, std::string_view source) {
  Profile changed = profile;
  const core::Result<int> measured = use_measured(changed, site, source);
  if (!measured.ok()) return measured.problems();
  if (!site.runs.empty()) use_paces(changed, site, source);
  if (*measured > 0)
    state(changed, "site.measured", *measured,
          fmt::format("{}: {}", source, site.measured.front().source));
  profile = std::move(changed);
  return core::Done{};
}

void pace_part(Profile& profile, SitePart part, double pace) {
  for (const Paced& p : kPaced) {
    if (p.part != part) continue;
    const Field& field = *find_field(p.field);
    if (const std::optional<double> now = paced(profile, p, field, pace)) field.put(profile, *now);
  }
}

}  // namespace hw_profiles
