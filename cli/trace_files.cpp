#include "cli/trace_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/json.hpp"
#include "sim/chakra/schema.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".et";
constexpr std::string_view kPrefix = "step";
constexpr int kMostRanks = 65'536;

struct FileName {
  std::string prefix;
  int rank = 0;
};
// "step.12.et"; a rank is written without zeros before it.
std::optional<FileName> parse_name(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  int rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && rank >= 0;
  if (!whole || std::to_string(rank) != digits) return std::nullopt;
  return FileName{std::string(name.substr(0, dot)), rank};
}

// The folder and, where it is not all of it, the prefix that a path names.
struct Named {
  fs::path folder;
  std::optional<std::string> prefix;
};
Named named(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {path, std::nullopt};
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::string name = file.filename().string();
  const auto of_rank = parse_name(name);
  return {folder, of_rank ? of_rank->prefix : name};
}

core::Result<std::vector<std::string>> files_by_rank(const std::string& path) {
  const Named what = named(path);
  std::error_code error;
  std::map<std::string, std::map<int, std::string>> sets;
  for (const fs::directory_entry& entry : fs::directory_iterator(what.folder, error)) {
    const auto name = parse_name(entry.path().filename().string());
    if (name && (!what.prefix || name->prefix == *what.prefix))
      sets[name->prefix][name->rank] = entry.path().string();
  }
  if (error) return core::Problem{path, "a folder that can be read", error.message(), ""};
  if (sets.empty())
    return core::Problem{path, "execution traces, NAME.0.et and so on", "none",
                         "write some: planner simulate plan.json --chakra FOLDER"};
  if (sets.size() > 1)
    return core::Problem{path, "one set of execution traces",
                         fmt::format("{}", sets.size()),
                         "name one: " + (what.folder / sets.begin()->first).string()};
  const std::map<int, std::string>& files = sets.begin()->second;
  const int last = files.rbegin()->first;
  if (last >= kMostRanks)
    return core::Problem{files.rbegin()->second, fmt::format("ranks below {}", kMostRanks),
                         std::to_string(last), ""};
  std::vector<std::string> by_rank;
  for (const auto& [rank, file] : files) {
    if (rank != static_cast<int>(by_rank.size()))
      return core::Problem{path, fmt::format("a file of each rank, 0 to {}", last),
                           fmt::format("none of rank {}", by_rank.size()),
                           "a step is played by all its ranks"};
    by_rank.push_back(file);
  }
  return by_rank;
}

core::Result<std::vector<engine::ChakraGroup>> read_groups(
    const std::string& path, const std::optional<std::string>& given) {
  const std::string beside =
      (named(path).folder / std::string(engine::chakra::kGroupsFile)).string();
  std::error_code error;
  if (!given && !fs::exists(beside, error)) return std::vector<engine::ChakraGroup>{};
  const std::string& file = given ? *given : beside;
  const core::Result<std::string> text = core::read_file(file, core::kMaxJsonBytes);
  if (!text.ok()) return text.problems();
  return engine::read_chakra_groups(*text, file);
}

}  // namespace

bool names_traces(const std::string& path) {
  std::error_code error;
  return path.ends_with(kEnd) || fs::is_directory(path, error) ||
         fs::exists(path + ".0" + std::string(kEnd), error);
}

core::Result<TraceFiles> read_trace_files(const std::string& path,
                                          const std::optional<std::string>& groups,
                                          const std::function<void(std::string_view)>& progress) {
  const auto files = files_by_rank(path);
  if (!files.ok()) return files.problems();
  TraceFiles all;
  auto listed = read_groups(path, groups);
  if (!listed.ok()) return listed.problems();
  all.groups = std::move(listed).value();
  std::size_t left = engine::kMostChakraNodes, bytes_left = engine::kMostChakraBytes;
  for (const std::string& file : *files) {
    if (progress) progress(file);
    const core::Result<std::string> bytes = core::read_file(file, bytes_left);
    if (!bytes.ok()) return bytes.problems();
    bytes_left -= bytes->size();
    auto trace = engine::read_chakra(file, *bytes, static_cast<int>(all.traces.size()), left);
    if (!trace.ok()) return trace.problems();
    left -= trace->nodes.size();
    all.traces.push_back(std::move(trace).value());
  }
  return all;
}

core::Result<core::NewFolder> new_trace_folder(const std::string& path) {
  return core::NewFolder::at(path, [](std::string_view name) {
    return name == engine::chakra::kGroupsFile || parse_name(name).has_value();
  });
}

std::string trace_file_name(int rank) { return fmt::format("{}.{}{}", kPrefix, rank, kEnd); }

}  // namespace cli
