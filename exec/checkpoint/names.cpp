#include "exec/checkpoint/names.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

namespace exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kComplete = "step-", kPartial = ".step-";

// N of "step-N".
std::optional<std::int64_t> steps_of(const std::string& name) {
  if (!name.starts_with(kComplete)) return std::nullopt;
  std::int64_t steps = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + kComplete.size(), end, steps);
  if (read.ec != std::errc() || read.ptr != end || steps < 1) return std::nullopt;
  return steps;
}

}  // namespace

std::string lock_path(const std::string& folder) { return folder + "/.lock"; }
std::string step_path(const std::string& folder, std::int64_t steps) {
  return fmt::format("{}/{}{:08}", folder, kComplete, steps);
}
std::string partial_path(const std::string& folder, std::int64_t steps) {
  return fmt::format("{}/{}{:08}.partial", folder, kPartial, steps);
}
std::string unused_damaged_path(const std::string& folder, std::int64_t steps) {
  const std::string first = fmt::format("{}/damaged-{}{:08}", folder, kComplete, steps);
  std::string name = first;
  std::error_code ignored;
  for (int n = 2; fs::exists(fs::symlink_status(name, ignored)); ++n)
    name = fmt::format("{}.{}", first, n);
  return name;
}
std::string manifest_path(const std::string& step_folder) { return step_folder + "/manifest.json"; }
std::string rank_path(const std::string& step_folder, int rank) {
  return fmt::format("{}/rank-{:04}", step_folder, rank);
}

std::vector<std::int64_t> complete_steps(const std::string& path) {
  std::vector<std::int64_t> all;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (const auto steps = steps_of(entry.path().filename().string())) all.push_back(*steps);
  std::ranges::sort(all);
  return all;
}

void remove_partials(const std::string& path) {
  std::vector<fs::path> stale;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.path().filename().string().starts_with(kPartial)) stale.push_back(entry.path());
  for (const fs::path& folder : stale) fs::remove_all(folder, ignored);
}

}  // namespace exec
