#include "exec/cuda/nvml/topology.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exec/cuda/nvml/abi.hpp"

namespace exec::cuda {
namespace {

using hw_profiles::LinkKind;
using nvml::Device;

std::optional<int> reading(const NvmlLibrary& library, const char* name, Device device) {
  unsigned value = 0;
  if (!library.call(name, device, &value)) return std::nullopt;
  return static_cast<int>(value);
}

void read_links(const NvmlLibrary& library, Device device, GpuLinks& gpu) {
  for (unsigned link = 0; link < nvml::kMaxLinks; ++link) {
    unsigned active = 0;
    if (!library.call("nvmlDeviceGetNvLinkState", device, link, &active) || active == 0) continue;
    ++gpu.links;
    unsigned version = 0;
    if (library.call("nvmlDeviceGetNvLinkVersion", device, link, &version))
      gpu.link_version = static_cast<int>(version);
    int to = -1;
    if (!library.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &to)) continue;
    gpu.to_switches += to == nvml::kToSwitch ? 1 : 0;
    gpu.to_gpus += to == nvml::kToGpu ? 1 : 0;
  }
  if (gpu.links == 0) return;
  nvml::FieldValue speed{};
  speed.field = nvml::kLinkSpeed;
  if (library.call("nvmlDeviceGetFieldValues", device, 1, &speed) &&
      speed.status == nvml::kSuccess && speed.type == nvml::kNatural)
    gpu.link_rate = core::BytesPerSecond(speed.value.natural * 1e6);  // MB/s
}

// The text that all of them have, or each of them in order.
template <class Text>
std::string common(const std::vector<GpuLinks>& gpus, Text text) {
  std::string all;
  bool same = true;
  for (const GpuLinks& g : gpus) {
    same = same && text(g) == text(gpus.front());
    all += (all.empty() ? "" : ", ") + text(g);
  }
  return same && !gpus.empty() ? text(gpus.front()) : all;
}

std::string link_text(const GpuLinks& g) {
  if (g.links == 0) return "no NVLink";
  std::string text = fmt::format("{} NVLinks", g.links);
  if (g.link_version) text += fmt::format(" of version {}", *g.link_version);
  if (g.link_rate) text += fmt::format(", {:.0f} GB/s", g.links * g.link_rate->value() / 1e9);
  if (g.to_switches == g.links) text += ", to switches";
  else if (g.to_gpus == g.links) text += ", to GPUs";
  return text;
}

std::string pcie_text(const GpuLinks& g) {
  if (!g.pcie_generation || !g.pcie_width) return "PCIe unknown";
  return fmt::format("PCIe {} x{}", *g.pcie_generation, *g.pcie_width);
}

std::string numa_text(const GpuLinks& g) {
  return g.numa_node ? std::to_string(*g.numa_node) : "unknown";
}

// What is expected of a GPU's links by the kind of the profile's node; empty: it is so.
std::string kind_problem(const Topology& t, const GpuLinks& g, LinkKind kind) {
  switch (kind) {
    case LinkKind::nvswitch:
      return g.links > 0 && g.to_gpus == 0 ? "" : "NVLinks to switches";
    case LinkKind::nvlink_mesh:
    case LinkKind::nvlink_pairs:
      return t.gpus.size() < 2 || (g.links > 0 && g.to_switches == 0) ? ""
                                                                        : "NVLinks to other GPUs";
    default: return g.links == 0 ? "" : "no NVLink";
  }
}

void compare_links(const Topology& t, const hw_profiles::Profile& p,
                   std::vector<std::string>& found) {
  for (const GpuLinks& g : t.gpus)
    if (const std::string expected = kind_problem(t, g, p.node.link); !expected.empty())
      found.push_back(fmt::format("GPU {}: expected {}, found {}", g.pci, expected, link_text(g)));
  if (!p.gpu.nvlink_bandwidth || p.node.link == LinkKind::pcie_p2p ||
      p.node.link == LinkKind::host_staged)
    return;
  const double expected = p.gpu.nvlink_bandwidth->value();
  for (const GpuLinks& g : t.gpus) {
    if (!g.link_rate || g.links == 0) continue;
    const double rate = g.links * g.link_rate->value();
    if (std::abs(rate / expected - 1) > 0.1)
      found.push_back(fmt::format("GPU {}: expected NVLinks of {:.0f} GB/s, found {:.0f} GB/s ({} "
                                  "links)",
                                  g.pci, expected / 1e9, rate / 1e9, g.links));
  }
}

void compare_pcie(const Topology& t, const hw_profiles::Profile& p,
                  std::vector<std::string>& found) {
  for (const GpuLinks& g : t.gpus) {
    const bool fewer = (g.pcie_generation && p.gpu.pcie_generation &&
                        *g.pcie_generation != *p.gpu.pcie_generation) ||
                       (g.pcie_width && p.gpu.pcie_lanes && *g.pcie_width != *p.gpu.pcie_lanes);
    if (fewer)
      found.push_back(fmt::format("GPU {}: expected PCIe {} x{}, found {}", g.pci,
                                  p.gpu.pcie_generation.value_or(0), p.gpu.pcie_lanes.value_or(0),
                                  pcie_text(g)));
  }
}

}  // namespace

Topology read_topology(const NvmlLibrary& library, const std::string& pci_devices) {
  Topology t;
  t.problem = library.problem();
  unsigned count = 0;
  if (!t.problem.empty()) return t;
  if (!library.call("nvmlDeviceGetCount_v2", &count)) {
    t.problem = "nvmlDeviceGetCount_v2 did not answer";
    return t;
  }
  std::vector<Device> devices;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    nvml::PciInfo pci{};
    if (!library.call("nvmlDeviceGetHandleByIndex_v2", i, &device) ||
        !library.call("nvmlDeviceGetPciInfo_v3", device, &pci))
      continue;                        // a card that this process may not see
    GpuLinks gpu;
    gpu.pci = pci.bus_id;
    gpu.pcie_generation = reading(library, "nvmlDeviceGetMaxPcieLinkGeneration", device);
    gpu.pcie_width = reading(library, "nvmlDeviceGetMaxPcieLinkWidth", device);
    gpu.numa_node = exec::cuda::numa_node(gpu.pci, pci_devices);
    read_links(library, device, gpu);
    t.gpus.push_back(std::move(gpu));
    devices.push_back(device);
  }
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      int status = -1;
      if (!library.call("nvmlDeviceGetP2PStatus", devices[a], devices[b], nvml::kPeerRead,
                        &status))
        continue;
      ++t.pairs;
      t.peers += status == nvml::kPeerOk ? 1 : 0;
    }
  return t;
}

std::string to_text(const Topology& t) {
  if (!t.problem.empty()) return "unknown: " + t.problem;
  std::string text = fmt::format("{} GPUs", t.gpus.size());
  if (t.gpus.empty()) return text;
  text += "; " + common(t.gpus, link_text) + "; " + common(t.gpus, pcie_text) + "; NUMA node " +
          common(t.gpus, numa_text);
  if (t.pairs > 0)
    text += fmt::format("; {} of {} pairs read each other's memory", t.peers, t.pairs);
  return text;
}

std::string to_text(const std::vector<std::string>& differences, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, differences.size()); ++i)
    text += (text.empty() ? "" : "; ") + differences[i];
  if (differences.size() > most) text += fmt::format("; and {} more", differences.size() - most);
  return text;
}

std::vector<std::string> differences(const Topology& t, const hw_profiles::Profile& p) {
  std::vector<std::string> found;
  if (!t.problem.empty()) return found;
  const auto gpus = static_cast<int>(t.gpus.size());
  if (gpus > p.node.gpus_per_node)
    found.push_back(fmt::format("expected at most {} GPUs in a node, found {}",
                                p.node.gpus_per_node, gpus));
  compare_links(t, p, found);
  compare_pcie(t, p, found);
  const bool staged = p.node.link == LinkKind::host_staged;
  if (t.pairs > 0 && (staged ? t.peers > 0 : t.peers < t.pairs))
    found.push_back(fmt::format("expected {} to read each other's memory, found {} of {} pairs",
                                staged ? "no GPUs" : "all GPUs", t.peers, t.pairs));
  return found;
}

}  // namespace exec::cuda
