#include "hw_profiles/profile.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hw_profiles {
namespace {

constexpr std::array<std::pair<LinkKind, std::string_view>, 5> kLinkNames{{
    {LinkKind::nvswitch, "nvswitch"},
    {LinkKind::nvlink_mesh, "nvlink_mesh"},
    {LinkKind::nvlink_pairs, "nvlink_pairs"},
    {LinkKind::pcie_p2p, "pcie_p2p"},
    {LinkKind::host_staged, "host_staged"},
}};

constexpr int kFirstBf16 = 80;  // compute capability 8.0

}  // namespace

std::string_view name(LinkKind kind) {
  for (auto [k, text] : kLinkNames)
    if (k == kind) return text;
  return "?";
}

std::optional<LinkKind> link_kind_from_name(std::string_view wanted) {
  for (auto [kind, text] : kLinkNames)
    if (text == wanted) return kind;
  return std::nullopt;
}

bool links_all(LinkKind kind) {
  return kind == LinkKind::nvswitch || kind == LinkKind::nvlink_mesh;
}

bool operator==(const Profile& a, const Profile& b) {
  const auto same = [](const OtherGpus& x, const OtherGpus& y) {
    return x.first_rank == y.first_rank && x.profile == y.profile;
  };
  return a.gpu == b.gpu && a.node == b.node && a.native == b.native &&
         a.framework == b.framework && a.site == b.site && a.sources == b.sources &&
         std::ranges::equal(a.others, b.others, same);
}

const Sourced* Profile::lookup(std::string_view field) const {
  const auto it = std::find_if(sources.begin(), sources.end(),
                               [&](const Sourced& s) { return s.field == field; });
  return it == sources.end() ? nullptr : &*it;
}

std::optional<core::FlopsPerSecond> peak(const Gpu& gpu, core::DType type) {
  switch (type) {
    case core::DType::f64: return gpu.peak_f64;
    case core::DType::f32: return gpu.peak_f32;
    case core::DType::f8: return gpu.peak_f8;
    case core::DType::f4: return gpu.peak_f4;
    case core::DType::bf16:
      if (gpu.compute_capability.value_or(kFirstBf16) < kFirstBf16) return std::nullopt;
      return gpu.peak_16bit;
    case core::DType::f16: case core::DType::i32: case core::DType::i8:
    case core::DType::u8: case core::DType::nf4: return gpu.peak_16bit;
  }
  return std::nullopt;
}

}  // namespace hw_profiles
