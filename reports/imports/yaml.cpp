// YAML 1.2, by yaml-cpp.
#include <charconv>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "reports/imports/structured.hpp"

namespace reports::imports {
namespace {

using core::Json;

constexpr int kMostYamlDepth = 16;     // also of nodes that name themselves by an anchor
// Of a file, each as often as anchors repeat it: ten lines of them can stand for a billion.
constexpr int kMostYamlValues = 20'000;

struct Refused {
  YAML::Mark mark;
  const char* expected;
};

// A plain value as YAML 1.1 resolves it, in which yes and no are flags: the frameworks read their
// files by PyYAML, which does the same.
Json scalar_of(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return Json(text);  // it was quoted
  bool flag = false;
  if (YAML::convert<bool>::decode(node, flag)) return Json(flag);
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (const auto [rest, error] = std::from_chars(text.data(), end, whole);
      error == std::errc() && rest == end)
    return Json(whole);
  double real = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, real);
      error == std::errc() && rest == end)
    return Json(real);
  return Json(text);
}

Json json_of(const YAML::Node& node, int depth, int& values) {
  if (depth > kMostYamlDepth) throw Refused{node.Mark(), "at most 16 keys within each other"};
  if (++values > kMostYamlValues) throw Refused{node.Mark(), "at most 20,000 values"};
  Json json;
  if (node.IsScalar()) {
    json = scalar_of(node);
  } else if (node.IsSequence()) {
    std::vector<Json> items;
    for (const YAML::Node& item : node) items.push_back(json_of(item, depth + 1, values));
    json = Json::from_items(std::move(items));
  } else if (node.IsMap()) {
    std::vector<Json::Member> members;
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) throw Refused{pair.first.Mark(), "keys that are plain texts"};
      const std::string& key = pair.first.Scalar();
      for (const Json::Member& other : members)
        if (other.key == key) throw Refused{pair.first.Mark(), "each key once"};
      members.push_back({key, json_of(pair.second, depth + 1, values)});
    }
    json = Json::from_members(std::move(members));
  }
  json.set_place(node.Mark().line + 1, node.Mark().column + 1);
  return json;
}

}  // namespace

core::Result<core::Json> parse_yaml(std::string_view text, const std::string& name) {
  const auto refuse = [&](const YAML::Mark& mark, std::string expected, std::string found) {
    return core::Problem{fmt::format("{}:{}", name, mark.line + 1), std::move(expected),
                         std::move(found), ""};
  };
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) return refuse(root.Mark(), "a mapping of keys", "something else");
    int values = 0;
    return json_of(root, 0, values);
  } catch (const YAML::Exception& error) {
    return refuse(error.mark, "YAML", error.msg);
  } catch (const Refused& refused) {
    return refuse(refused.mark, refused.expected, "another");
  }
}

}  // namespace reports::imports
