#include "exec/checkpoint/manifest.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "exec/checkpoint/names.hpp"

namespace exec {
namespace {

using core::Json;
using core::Problem;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::string_view kSchema = "checkpoint/2", kFamily = "checkpoint/";
constexpr std::string_view kDigest = "digest";
Json json_of(const TrainedOn& what) {
  Json json = Json::object();
  for (const auto& [key, text] : what) json.set(key, text);
  return json;
}

// Of everything in it but the digest itself.
Digest digest_of_members(const Json& root) {
  Json rest = Json::object();
  for (const Json::Member& m : root.members())
    if (m.key != kDigest) rest.set(m.key, m.value);
  return digest_of(core::dump(rest, 0));
}

// Of a text that may be a whole file: enough to see which one it is.
std::string in_short(const std::string& text) {
  constexpr std::size_t kMost = 120;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

core::Status check_schema(const Json& root, const std::string& file) {
  const Json* const schema = root.find("schema");
  if (schema != nullptr && schema->is_string() && schema->as_string() == kSchema)
    return core::Done{};
  const bool ours = schema != nullptr && schema->is_string() &&
                    schema->as_string().starts_with(kFamily);
  return Problem{file, std::string(kSchema), schema == nullptr ? "none" : core::describe(*schema),
                 ours ? "go on with the version of planner that wrote it, or name another "
                        "--checkpoint-dir"
                      : kGoBack};
}

core::Status check_digest(const Json& root, const std::string& file) {
  const Json* const stated = root.find(kDigest);
  const std::string found = to_text(digest_of_members(root));
  if (stated != nullptr && stated->is_string() && stated->as_string() == found) return core::Done{};
  return Problem{file,
                 "what was written, of digest " +
                     (stated == nullptr ? std::string("none") : core::describe(*stated)),
                 "another content, of digest " + found, kGoBack};
}

void read_file_of(core::JsonReader& reader, std::vector<RankFile>& files) {
  RankFile file;
  std::string digest;
  reader.required("bytes", file.bytes, core::at_least(0));
  if (reader.required("digest", digest)) {
    if (const auto value = digest_in(digest)) file.digest = *value;
    else reader.problem("digest", "32 hexadecimal digits", digest);
  }
  reader.allow_only_known();
  files.push_back(file);
}

}  // namespace

Digest digest_of(const TrainedOn& what) { return digest_of(core::dump(json_of(what), 0)); }

std::string manifest_text(const Manifest& manifest) {
  Json files = Json::array();
  for (const RankFile& file : manifest.files)
    files.push_back(Json::object({{"bytes", file.bytes}, {"digest", to_text(file.digest)}}));
  Json root = Json::object({{"schema", kSchema},
                            {"steps_done", manifest.steps_done},
                            {"ranks", std::move(files)},
                            {"trained_on", json_of(manifest.trained_on)}});
  root.set(kDigest, to_text(digest_of_members(root)));
  return core::dump(root) + '\n';
}

core::Result<Manifest> read_manifest(const std::string& file, std::int64_t steps_done) {
  const auto text = core::read_file(file, kMostBytes);
  if (!text.ok()) return text.problems();
  const auto json = core::parse_json(*text, file);
  if (!json.ok()) return json.problems();
  if (const core::Status schema = check_schema(*json, file); !schema.ok()) return schema.problems();
  if (const core::Status whole = check_digest(*json, file); !whole.ok()) return whole.problems();
  core::Problems problems;
  core::JsonReader reader(*json, file, "", problems);
  Manifest manifest;
  std::string ignored;
  reader.required("schema", ignored);
  reader.required(kDigest, ignored);
  if (reader.required("steps_done", manifest.steps_done) && manifest.steps_done != steps_done)
    reader.problem("steps_done", fmt::format("{}, as its folder is called", steps_done),
                   std::to_string(manifest.steps_done),
                   "give the folder its own name back, or remove it");
  for (core::JsonReader& rank : reader.objects("ranks")) read_file_of(rank, manifest.files);
  core::JsonReader trained = reader.object("trained_on");
  for (const std::string_view key : trained.keys())
    if (std::string said; trained.required(key, said))
      manifest.trained_on.emplace_back(key, std::move(said));
  reader.allow_only_known();
  if (!problems.empty()) return problems;
  return manifest;
}

core::Problems differences(const Manifest& manifest, const std::string& file,
                           const TrainedOn& expected, std::size_t ranks) {
  core::Problems problems;
  const std::string fix = "go on with what the run began with, or name another --checkpoint-dir";
  for (const auto& [what, text] : expected) {
    const auto found = std::ranges::find(manifest.trained_on, what, &TrainedOn::value_type::first);
    if (found == manifest.trained_on.end() || found->second != text)
      problems.push_back({file + ": " + what, in_short(text),
                          found == manifest.trained_on.end() ? "the default"
                                                             : in_short(found->second),
                          fix});
  }
  for (const auto& [what, text] : manifest.trained_on)
    if (std::ranges::find(expected, what, &TrainedOn::value_type::first) == expected.end())
      problems.push_back({file + ": " + what, "the default", in_short(text), fix});
  if (problems.empty() && manifest.files.size() != ranks)
    problems.push_back({file + ": ranks", fmt::format("{} ranks", ranks),
                        std::to_string(manifest.files.size()), fix});
  return problems;
}

}  // namespace exec
