// A profile as the text that load.cpp reads back.
#include "core/json.hpp"
#include "hw_profiles/fields.hpp"
#include "hw_profiles/load.hpp"

namespace hw_profiles {

// A stated field as it is now: the file's own text while it still says the value.
static Sourced current(const Field& field, double value, const Sourced* stated) {
  const std::string text = quantity_text(value, field.kind);
  if (stated == nullptr) return {std::string(field.name), text, "set by the program"};
  const auto was = parse_quantity(stated->text, field.kind);
  if (was.ok() && *was == value) return *stated;
  return {stated->field, text,
          "changed after loading; was " + stated->text + ": " + stated->source};
}

static core::Json json_of(const Profile& profile) {
  core::Json json = core::Json::object({{"id", profile.gpu.id},
                                        {"name", profile.gpu.name},
                                        {"architecture", profile.gpu.architecture}});
  for (std::string_view part : kSections) {
    core::Json object = core::Json::object();
    if (part == "node" && !profile.node.id.empty()) {
      object.set("id", profile.node.id);
      object.set("about", profile.node.about);
      if (!profile.node.cloud.empty()) object.set("cloud", profile.node.cloud);
      if (!profile.node.gpus.empty())
        object.set("gpus", core::Json::array_of(profile.node.gpus));
    }
    if (part == "framework") {
      object.set("id", profile.framework.id);
      object.set("about", profile.framework.about);
      object.set("recipe", profile.framework.recipe);
      if (!profile.framework.successor.empty())
        object.set("successor", profile.framework.successor);
      core::Json runs = core::Json::object();
      for (const Framework::Runs& r : profile.framework.runs)
        runs.set(r.key, core::Json::array({r.values, r.source}));
      if (runs.size() > 0) object.set("runs", std::move(runs));
    }
    for (const Field& field : fields()) {
      if (part_of(field) != part) continue;
      const Sourced* stated = profile.lookup(field.name);
      const auto value = field.get(profile);
      if (!value && (stated == nullptr || stated->text != kNone)) continue;
      const Sourced s = value ? current(field, *value, stated) : *stated;
      object.set(key_of(field), core::Json::array({s.text, s.source}));
    }
    if (part != kSite || object.size() > 0) json.set(part, std::move(object));
  }
  core::Json others = core::Json::array();
  for (const OtherGpus& other : profile.others)
    others.push_back(core::Json::object({{"first_rank", other.first_rank},
                                         {"profile", json_of(other.profile)}}));
  if (others.size() > 0) json.set("others", std::move(others));
  return json;
}

std::string to_json_text(const Profile& profile) { return core::dump(json_of(profile), 2); }

}  // namespace hw_profiles
