#include "hw_profiles/load.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/embedded.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/machine_memory.hpp"
#include "core/untrusted.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/fields.hpp"
#include "hw_profiles/names.hpp"
#include "hw_profiles/parts.hpp"

namespace hw_profiles {
namespace {

constexpr std::string_view kMemTotal = "MemTotal";  // as a bytes value: this machine's memory

// Whether two stated fields contradict each other.
struct Contradiction {
  std::string_view field;
  std::string expected;
};

void at_most(const Profile& p, std::string_view small, std::string_view large,
             std::vector<Contradiction>& found) {
  const auto a = find_field(small)->get(p), b = find_field(large)->get(p);
  if (a && b && *a > *b) found.push_back({small, "at most " + std::string(large)});
}

std::vector<Contradiction> contradictions(const Profile& p) {
  std::vector<Contradiction> found;
  at_most(p, "gpu.enabled_sms", "gpu.die_sms", found);
  at_most(p, "gpu.usable", "gpu.memory", found);
  at_most(p, "gpu.nvlink_effective", "gpu.nvlink_bandwidth", found);
  at_most(p, "gpu.pcie_effective", "gpu.pcie_bandwidth", found);
  const LinkKind link = p.node.link;
  const bool pairs = link == LinkKind::nvlink_pairs, whole = links_all(link);
  if ((pairs || whole) && !p.gpu.nvlink_bandwidth)
    found.push_back({"node.link", "a link that the GPU has: pcie_p2p or host_staged"});
  if (link == LinkKind::pcie_p2p && !p.gpu.peer_to_peer)
    found.push_back({"node.link", "host_staged where gpu.peer_to_peer is no"});
  if ((pairs || link == LinkKind::nvlink_mesh) && !p.node.pair_bandwidth)
    found.push_back({"node.link", fmt::format("a link other than {} without node.pair_bandwidth",
                                              name(link))});
  at_most(p, "node.pair_bandwidth", "gpu.nvlink_bandwidth", found);
  at_most(p, "node.link_bandwidth",
          whole ? "gpu.nvlink_bandwidth" : "gpu.pcie_bandwidth", found);
  return found;
}

constexpr std::size_t kMaxProfileBytes = std::size_t{1} << 20;  // ours are 5 KB

// Splits ["936 GB/s", "source"] or {"value": 936, "unit": "GB/s", "source": "..."} into Sourced;
// empty with a problem where it is neither.
std::optional<Sourced> read_sourced(const Field& field, const core::Json& json,
                                    core::JsonReader& reader) {
  Sourced s{std::string(field.name), "", ""};
  if (json.is_object()) {
    const core::Json *value = json.find("value"), *unit = json.find("unit"),
                     *source = json.find("source");
    if (value != nullptr && (value->is_number() || value->is_string()))
      s.text = value->is_string() ? value->as_string() : core::dump(*value, 0);
    if (unit != nullptr && unit->is_string()) s.text += ' ' + unit->as_string();
    if (source != nullptr && source->is_string()) s.source = source->as_string();
  } else if (json.size() == 2 && json.items()[0].is_string() && json.items()[1].is_string()) {
    s.text = json.items()[0].as_string();
    s.source = json.items()[1].as_string();
  }
  if (!s.text.empty() && !s.source.empty() && !core::hidden_in(s.text + s.source)) return s;
  reader.problem(key_of(field),
                 "[\"value unit\", \"source\"], neither of them empty or with control characters",
                 core::describe(json), "state where the number comes from");
  return std::nullopt;
}

// The machine's own memory is fixed here, so that a plan keeps the figure it was made with.
bool resolve_memory(Sourced& s, core::JsonReader& reader, const Field& field) {
  const std::optional<core::MachineMemory> memory = core::machine_memory();
  if (!memory) {
    reader.problem(key_of(field), "a machine that says how much memory it has", "none is known",
                   "state gpu.memory and gpu.usable in a profile file of your own");
    return false;
  }
  s.text = quantity_text(static_cast<double>(memory->total.value()), Kind::bytes);
  s.source = memory->bound.empty() ? "MemTotal in " + s.source
                                   : fmt::format("{} of the machine that plans, less than MemTotal "
                                                 "in its /proc/meminfo", memory->bound);
  return true;
}

void read_field(const Field& field, core::JsonReader& reader, Profile& profile) {
  core::Json json;
  const bool there = field.optional || field.later ? reader.optional(key_of(field), json)
                                                   : reader.required(key_of(field), json);
  if (!there && field.later)
    profile.sources.push_back({std::string(field.name),
                               quantity_text(*field.get(profile), field.kind),
                               std::string(kOlderFile)});
  if (!there) return;
  auto s = read_sourced(field, json, reader);
  if (!s) return;
  const bool none = field.optional && s->text == kNone;
  if (!none) {
    if (field.kind == Kind::bytes && s->text == kMemTotal && !resolve_memory(*s, reader, field))
      return;
    const auto value = parse_quantity(s->text, field.kind);
    if (!value.ok()) {
      const core::Problem& p = value.problems().front();
      reader.problem(key_of(field), p.expected, p.found, p.fix);
      return;
    }
    field.put(profile, *value);
  }
  profile.sources.push_back(*std::move(s));
}

bool sold_with(const Node& node, const std::string& gpu) {
  return node.gpus.empty() || std::ranges::any_of(node.gpus, [&](const std::string& start) {
           return gpu.starts_with(start);
         });
}

void read_text(core::JsonReader& reader, std::string_view key, std::string& out) {
  if (reader.required(key, out) && out.empty())
    reader.problem(key, "a text of at least one character", "\"\"");
}

void read_runs(core::JsonReader& reader, std::vector<Framework::Runs>& out) {
  const auto runs = reader.optional_object("runs");
  for (const std::string_view key : runs ? runs->keys() : std::vector<std::string_view>()) {
    std::vector<std::string> said;
    if (auto r = *runs; r.required(key, said) && said.size() == 2 && !said[1].empty())
      out.push_back({std::string(key), said[0], said[1]});
    else
      r.problem(key, "[values, source]", "another", "");
  }
}

core::Result<Profile> read_profile(core::Json text, std::string_view where);

// "others": [{"first_rank": 8, "profile": {...}}], whose profiles have none themselves.
void read_others(core::JsonReader& root, std::string_view where, Profile& profile,
                 core::Problems& problems) {
  core::Json others;
  if (!root.optional("others", others)) return;
  if (!others.is_array()) return root.problem("others", "a list", core::describe(others));
  std::int64_t before = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const std::string path = fmt::format("/others/{}", i);
    core::JsonReader reader(others.items()[i], std::string(where), path, problems);
    OtherGpus other;
    core::Json text;
    if (reader.required("first_rank", other.first_rank,
                        core::IntRange{before + 1, std::numeric_limits<int>::max()}))
      before = other.first_rank;
    if (reader.required("profile", text)) {
      auto read = read_profile(std::move(text), fmt::format("{} {}", where, path));
      if (!read.ok())
        core::append(problems, read);
      else if (!read->others.empty())
        reader.problem("profile", "a profile without others", "one with others");
      else
        other.profile = std::move(read).value();
    }
    reader.allow_only_known();
    profile.others.push_back(std::move(other));
  }
}

core::Result<Profile> read_profile(core::Json text, std::string_view where) {
  core::Result<core::Json> json = with_parts(std::move(text), where);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  Profile profile;
  core::JsonReader root(*json, std::string(where), "", problems);
  read_text(root, "id", profile.gpu.id);
  read_text(root, "name", profile.gpu.name);
  read_text(root, "architecture", profile.gpu.architecture);
  std::vector<std::pair<std::string_view, core::JsonReader>> parts;
  for (std::string_view part : kSections)
    if (part != kSite || root.has(part)) parts.emplace_back(part, root.object(part));
  for (auto& [part, reader] : parts) {
    if (part == "node") {
      reader.optional("id", profile.node.id);
      reader.optional("about", profile.node.about);
      reader.optional("cloud", profile.node.cloud);
      reader.optional("gpus", profile.node.gpus);
      if (!sold_with(profile.node, profile.gpu.id))
        reader.problem("gpus", fmt::format("{}", fmt::join(profile.node.gpus, " or ")),
                       profile.gpu.id, "--gpu takes one of them; a node of your own, any");
    }
    if (part == "framework") {
      reader.required("id", profile.framework.id);
      reader.optional("about", profile.framework.about);
      read_text(reader, "recipe", profile.framework.recipe);
      reader.optional("successor", profile.framework.successor);
      read_runs(reader, profile.framework.runs);
      core::Json earlier;  // read by use_framework, which alone knows a date
      reader.optional("until", earlier);
    }
    for (const Field& field : fields())
      if (part_of(field) == part) read_field(field, reader, profile);
    core::Json unread;
    for (const std::string_view gone : kGone)
      if (gone.starts_with(part)) reader.optional(gone.substr(part.size() + 1), unread);
    reader.allow_only_known();
  }
  read_others(root, where, profile, problems);
  root.allow_only_known();
  if (!problems.empty()) return problems;
  for (const Contradiction& c : contradictions(profile)) {
    const Field& field = *find_field(c.field);
    for (auto& [part, reader] : parts)
      if (part == part_of(field))
        reader.problem(key_of(field), c.expected, '"' + profile.lookup(field.name)->text + '"');
  }
  if (!problems.empty()) return problems;
  return profile;
}

core::Result<Profile> load_file(const std::string& path) {
  const auto text = core::read_file(path, kMaxProfileBytes);
  if (!text.ok()) return text.problems();
  return profile_from_json_text(*text, path);
}

}  // namespace

std::vector<std::string> profile_names() { return ids(kProfile); }
std::vector<std::string> node_names() { return ids(kNode); }
std::vector<std::string> framework_names() { return ids(kFramework); }

core::Result<Profile> find_profile(const std::string& wanted) {
  if (const core::EmbeddedFile* file = shipped_file(kProfile, wanted))
    return profile_from_json_text(file->text, file->name);
  if (is_path(wanted)) return load_file(wanted);
  const core::Result<Meant> meant = gpu_meant(wanted, "profile");
  if (!meant.ok()) return meant.problems();
  if (!meant->assumption.empty())      // nobody here to state it
    return core::Problem{"profile", "a name that means one GPU", '"' + wanted + '"',
                         "write " + meant->id + ", if that is meant"};
  return find_profile(meant->id);
}

static core::Status use_part(Profile& profile, const Part& part, const std::string& wanted,
                             std::string_view source) {
  core::Json json = *core::parse_json(to_json_text(profile), source);
  std::string where(source);
  if (is_path(wanted)) {
    const auto text = core::read_file(wanted, kMaxProfileBytes);
    if (!text.ok()) return text.problems();
    auto file = core::parse_json(*text, wanted);
    if (!file.ok()) return file.problems();
    json.set(part.key, std::move(file).value());
    where = wanted;
  } else {
    const std::vector<std::string> names = ids(part);
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      return unknown(wanted, part, where);
    json.set(part.key, wanted);
  }
  auto changed = read_profile(std::move(json), where);
  if (!changed.ok()) {
    core::Problems problems = changed.problems();
    if (!is_path(wanted))  // a place in an embedded file would help nobody
      for (core::Problem& p : problems) p.where = where + ' ' + wanted;
    return problems;
  }
  profile = std::move(changed).value();
  return core::Done{};
}

core::Status use_node(Profile& profile, const std::string& wanted, std::string_view source) {
  const core::Result<Meant> meant = node_meant(wanted, source);
  if (!meant.ok()) return meant.problems();
  return use_part(profile, kNode, meant->id, source);
}

// What a shipped framework's releases before `as_of` did otherwise: "until": {"2025-04": {fields}}.
static core::Status use_earlier(Profile& profile, const std::string& wanted,
                                std::string_view as_of) {
  const core::EmbeddedFile* file = shipped_file(kFramework, wanted);
  if (file == nullptr) return core::Done{};
  const core::Json json = *core::parse_json(file->text, file->name);
  const core::Json* until = json.find("until");
  if (until == nullptr) return core::Done{};
  for (const auto& [date, fields] : until->members()) {
    if (as_of >= date) continue;
    for (const auto& [name, stated] : fields.members()) {
      auto done = set(profile, "framework." + name, stated.items()[0].as_string(),
                      stated.items()[1].as_string());
      if (!done.ok()) return done;
    }
  }
  return core::Done{};
}

core::Status use_framework(Profile& profile, const std::string& wanted, std::string_view source,
                           std::string_view as_of) {
  const core::Status done = use_part(profile, kFramework, wanted, source);
  if (!done.ok()) return done;
  const Framework& f = profile.framework;
  const bool succeeded = f.successor_capability && profile.gpu.compute_capability &&
                         *profile.gpu.compute_capability >= *f.successor_capability;
  if (succeeded) return use_part(profile, kFramework, f.successor, source);
  return as_of.empty() ? done : use_earlier(profile, wanted, as_of);
}

core::Result<Profile> profile_from_json_text(std::string_view text, std::string_view where) {
  auto json = core::parse_json(text, where);
  if (!json.ok()) return json.problems();
  return read_profile(std::move(json).value(), where);
}

core::Status set(Profile& profile, std::string_view name, std::string_view text,
                 std::string_view source) {
  const Field* field = find_field(name);
  const std::string where(source);
  if (field == nullptr) {
    std::vector<std::string_view> names;
    for (const Field& f : fields()) names.push_back(f.name);
    const std::string near(core::nearest(name, names));
    return core::Problem{where, "a field of a profile", '"' + std::string(name) + '"',
                         near.empty() ? "" : "did you mean " + near + "?"};
  }
  PLANNER_CHECK(!source.empty(), "a number needs a source");
  Profile changed = profile;
  std::optional<double> value;
  if (!(field->optional && text == kNone)) {
    const auto parsed = parse_quantity(text, field->kind);
    if (!parsed.ok()) {
      core::Problem p = parsed.problems().front();
      p.where = where;
      return p;
    }
    value = *parsed;
  }
  field->put(changed, value);
  for (const Contradiction& c : contradictions(changed))
    return core::Problem{where, std::string(c.field) + " to be " + c.expected,
                         std::string(name) + " = " + std::string(text), ""};
  const Sourced now{std::string(name), std::string(text), where};
  const auto stated = std::find_if(changed.sources.begin(), changed.sources.end(),
                                   [&](const Sourced& s) { return s.field == name; });
  if (stated != changed.sources.end()) *stated = now;
  else changed.sources.push_back(now);
  profile = std::move(changed);
  return core::Done{};
}

}  // namespace hw_profiles
