#include "core/machine_memory.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace core {
namespace {

std::optional<Bytes> bytes_in(const std::string& file) {
  std::ifstream in(file);
  std::int64_t bytes = 0;
  if (!(in >> bytes) || bytes < 0) return std::nullopt;  // "max"
  return Bytes(bytes);
}

// The sum of the rows of a table of names and numbers that have these names; empty: none is there.
std::optional<std::int64_t> rows(const std::string& file, std::string_view a, std::string_view b) {
  std::ifstream in(file);
  std::optional<std::int64_t> sum;
  std::string name, rest;
  for (std::int64_t number = 0; in >> name >> number && std::getline(in, rest);)
    if (name == a || name == b) sum = sum.value_or(0) + number;
  return sum;
}

std::optional<MachineMemory> whole_machine(const std::string& root) {
  const std::string file = root + "/proc/meminfo";
  const auto kibibytes = [&](std::string_view name) { return rows(file, name, name); };
  if (const auto total = kibibytes("MemTotal:"); total && *total > 0) {
    MachineMemory memory{kib(*total), {}, {}};
    if (const auto free = kibibytes("MemAvailable:")) memory.available = kib(*free);
    return memory;
  }
  struct sysinfo known {};
  if (!root.empty() || ::sysinfo(&known) != 0) return std::nullopt;
  return MachineMemory{Bytes(static_cast<std::int64_t>(known.totalram) * known.mem_unit), {}, {}};
}

// The files of one version of control groups.
struct Version {
  std::string_view folder, limit, used, files_in_use, files_not;
};
constexpr Version kTwo{"/sys/fs/cgroup", "/memory.max", "/memory.current", "active_file",
                       "inactive_file"};
constexpr Version kOne{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                       "total_active_file", "total_inactive_file"};

// Of one group. Files that it has read count as used, and are given back where memory is short.
void bound_by(const Version& version, const std::string& group, MachineMemory& memory) {
  const std::string file = group + std::string(version.limit);
  const std::optional<Bytes> limit = bytes_in(file);
  if (!limit) return;
  const std::string stat = group + "/memory.stat";
  const Bytes used = bytes_in(group + std::string(version.used)).value_or(Bytes(0)),
              files{rows(stat, version.files_in_use, version.files_not).value_or(0)};
  const Bytes left = *limit - std::clamp(used - files, Bytes(0), *limit);
  if (memory.available && left < *memory.available) memory.available = left;
  if (*limit >= memory.total) return;
  memory.total = *limit;
  memory.bound = file;
}

}  // namespace

std::optional<MachineMemory> machine_memory(const std::string& root) {
  std::optional<MachineMemory> memory = whole_machine(root);
  if (!memory) return std::nullopt;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "4:memory:/job/step", or of version 2 "0::/job/step"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kinds = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool two = kinds == ",,";
    if (!two && kinds.find(",memory,") == std::string::npos) continue;
    const Version& version = two ? kTwo : kOne;
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    for (;; group.erase(group.rfind('/'))) {
      bound_by(version, root + std::string(version.folder) + group, *memory);
      if (group.rfind('/') == std::string::npos) break;
    }
  }
  return memory;
}

}  // namespace core
