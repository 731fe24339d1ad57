#include "models/zoo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <tuple>

#include "core/call.hpp"
#include "core/embedded.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/untrusted.hpp"
#include "models/graph.hpp"
#include "models/spec_file.hpp"

std::span<const core::EmbeddedFile> models_data();  // generated from zoo/*.json and names.json

namespace models {

using core::Problem;
using core::Result;

namespace {

constexpr std::size_t kMaxModelBytes = std::size_t{4} << 20;

std::string_view stem(std::string_view file) {  // "zoo/chain.json" -> "chain"
  file.remove_prefix(file.find('/') + 1);
  return file.substr(0, file.rfind('.'));
}

std::vector<core::EmbeddedFile> zoo_files() {
  std::vector<core::EmbeddedFile> files;
  for (const core::EmbeddedFile& file : models_data())
    if (file.name.starts_with("zoo/")) files.push_back(file);
  return files;
}

const core::Json& names_data() {
  static const core::Json data = [] {
    const auto text = core::embedded_or_override(models_data(), "names.json");
    PLANNER_CHECK(text.ok(), "names.json is not embedded");
    return core::parse_json(*text, "models/names.json").value();
  }();
  return data;
}

// "meta-llama/Meta-Llama-3-8B" is "llama38b" without dropped words, "metallama38b" with them.
std::string plain_name(std::string_view text, bool drop) {
  text.remove_prefix(text.rfind('/') + 1);
  const auto& dropped = names_data().at("dropped").items();
  std::string plain, word;
  const auto end_word = [&] {
    const bool out = drop && std::ranges::any_of(dropped, [&](const core::Json& d) {
      return d.as_string() == word;
    });
    if (!out) plain += word;
    word.clear();
  };
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '.') word += static_cast<char>(std::tolower(letter));
    else end_word();
  }
  end_word();
  return plain;
}

// "gpt2-xl/config.json" is best called by its folder, "my_model.json" by itself. A path may hold
// anything; the name goes into plans and scripts.
std::string name_of(const std::string& path) {
  constexpr std::string_view kInFolder = "/config.json";
  std::string name = core::absolute_path(path);
  const bool by_folder = name.ends_with(kInFolder);
  if (by_folder) name.resize(name.size() - kInFolder.size());
  name.erase(0, name.rfind('/') + 1);
  if (!by_folder) name.resize(std::min(name.size(), name.rfind('.')));
  return core::visible(name);
}

Result<ModelSpec> read_model_file(const std::string& path, const std::string& like = "") {
  const bool folder = core::is_folder(path);
  std::string file = path;
  if (folder) file += path.ends_with('/') ? "config.json" : "/config.json";
  if (folder && !core::path_exists(file)) {
    return Problem{path, "a folder that holds config.json", "none in it",
                   "name the file itself, or a model of the zoo"};
  }
  const Result<std::string> text = core::read_file(file, kMaxModelBytes);
  if (!text) return text.problems();
  return parse_spec(*text, file, name_of(file), like);
}

Problem unknown_model(const std::string& text) {
  std::vector<std::string_view> names;
  for (const core::EmbeddedFile& file : zoo_files()) names.push_back(stem(file.name));
  std::string asked = text.substr(text.rfind('/') + 1);
  std::ranges::transform(asked, asked.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const std::string_view near = core::nearest(asked, names);
  std::erase_if(names,
                [&](std::string_view name) { return !name.starts_with(asked.substr(0, 4)); });
  return {"--model",
          fmt::format("a model of the zoo{} or a path to config.json, its folder or a model file",
                      names.empty() || asked.empty()
                          ? std::string()
                          : fmt::format(" ({})", fmt::join(names, ", "))),
          fmt::format("\"{}\"", text.substr(0, 200)),
          near.empty() ? "`planner models` lists them"
                       : fmt::format("did you mean {}? `planner models` lists all", near)};
}

// REQUIRES: what we ship is right.
ModelSpec embedded_spec(const core::EmbeddedFile& file) {
  Result<ModelSpec> spec = parse_spec(file.text, std::string(file.name));
  PLANNER_CHECK(spec.ok(), core::to_text(spec.problems()));
  return std::move(spec).value();
}

}  // namespace

std::vector<ZooEntry> zoo() {
  std::vector<ZooEntry> entries;
  for (const core::EmbeddedFile& file : zoo_files()) {
    ZooEntry entry{embedded_spec(file), 0};
    const Result<ModelGraph> graph = build_graph(entry.spec, {});
    PLANNER_CHECK(graph.ok(), core::to_text(graph.problems()));
    entry.parameters = parameter_count(*graph);
    entries.push_back(std::move(entry));
  }
  const auto key = [](const ZooEntry& e) { return std::tie(e.spec.family, e.parameters); };
  std::ranges::sort(entries, [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return entries;
}

std::vector<std::pair<std::string, std::string>> model_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const core::Json::Member& m : names_data().at("names").members())
    names.emplace_back(m.key, m.value.as_string());
  return names;
}

std::string zoo_name(std::string_view typed) {
  std::map<std::string, std::string> known;
  for (const auto& [name, meant] : model_names()) known.emplace(plain_name(name, true), meant);
  for (const core::EmbeddedFile& file : zoo_files())
    known.emplace(plain_name(stem(file.name), false), stem(file.name));
  for (const bool drop : {false, true})
    if (const auto found = known.find(plain_name(typed, drop)); found != known.end())
      return found->second;
  return "";
}

Result<ModelSpec> find_model(const std::string& name_or_path, const std::string& zoo_folder,
                             const std::string& like) {
  if (!zoo_folder.empty()) {
    const std::string path = zoo_folder + "/" + name_or_path + ".json";
    if (core::path_exists(path)) return read_model_file(path);
  }
  const auto shipped = [](std::string_view name) -> const core::EmbeddedFile* {
    const auto file = std::ranges::find_if(
        models_data(), [&](const core::EmbeddedFile& f) { return stem(f.name) == name; });
    return file == models_data().end() || !file->name.starts_with("zoo/") ? nullptr : &*file;
  };
  if (!like.empty() && !core::path_exists(name_or_path))
    return Problem{"--model-like", "a --model that is a path to a config.json or its folder",
                   fmt::format("\"{}\"", name_or_path.substr(0, 200)), "leave --model-like out"};
  if (const auto* file = like.empty() ? shipped(name_or_path) : nullptr)
    return embedded_spec(*file);
  if (core::path_exists(name_or_path)) return read_model_file(name_or_path, like);
  if (const auto* file = shipped(zoo_name(name_or_path))) return embedded_spec(*file);
  return unknown_model(name_or_path);
}

}  // namespace models
