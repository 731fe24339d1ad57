#include "exec/cuda/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

namespace exec::cuda {
namespace {

constexpr int kMostCpus = CPU_SETSIZE;

std::optional<int> number_from(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::optional<std::vector<int>> cpus_from(std::string_view list) {
  std::vector<int> cpus;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view range = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const std::size_t dash = std::min(range.find('-'), range.size());
    const auto first = number_from(range.substr(0, dash));
    const auto last = dash == range.size() ? first : number_from(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostCpus) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  if (cpus.empty()) return std::nullopt;
  return cpus;
}

// Of sysfs, whose domains have four digits (NVML's eight) and whose letters are small.
static std::string folder_of(std::string pci, const std::string& root) {
  for (char& c : pci) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::size_t kLongDomain = sizeof "00000000:1b:00.0" - 1;
  if (pci.size() == kLongDomain) pci = pci.substr(4);
  return root + "/" + pci;
}

std::optional<int> numa_node(const std::string& pci, const std::string& root) {
  const auto node = number_from(line_of(folder_of(pci, root) + "/numa_node"));
  return node && *node >= 0 ? node : std::nullopt;
}

NearCpus cpus_near(const std::string& pci, const std::string& root) {
  NearCpus near;
  const std::string folder = folder_of(pci, root);
  const auto node = numa_node(pci, root);
  if (!node) {
    near.unknown = fmt::format("{} names no NUMA node", folder);
    return near;
  }
  const std::string list = line_of(folder + "/local_cpulist");
  const auto cpus = cpus_from(list);
  if (!cpus) {
    near.unknown = fmt::format("{}/local_cpulist is \"{}\"", folder, list);
    return near;
  }
  near.node = *node;
  near.cpus = *cpus;
  return near;
}

std::string stay_near(const NearCpus& near) {
  if (near.cpus.empty()) return "as it was: " + near.unknown;
  cpu_set_t allowed, wanted;
  CPU_ZERO(&wanted);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return "as it was: " + std::generic_category().message(errno);
  for (const int cpu : near.cpus)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &wanted);
  if (CPU_COUNT(&wanted) == 0)
    return fmt::format("as it was: none of its {} CPUs is of NUMA node {}", CPU_COUNT(&allowed),
                       near.node);
  if (::sched_setaffinity(0, sizeof wanted, &wanted) != 0)
    return "as it was: " + std::generic_category().message(errno);
  return fmt::format("NUMA node {}: {} of {} CPUs", near.node, CPU_COUNT(&wanted),
                     CPU_COUNT(&allowed));
}

}  // namespace exec::cuda
