#pragma once
// Your site from a few of its runs. Clocks, power limits and library versions, hosts and links make
// a site's steps longer or shorter than shipped profiles say. So a site is a pace for each of four
// parts of a machine, durations there over durations here:
//
//   device   kernels: what one kind of GPU's runs show says nothing of another kind
//   host     what issues kernels and updates: all GPUs of the site share it
//   links    collectives and messages inside a node, of one kind of GPU
//   network  the same between nodes: all GPUs of the site share it
//
// Applied, a pace scales every rate and every fixed time of its part. Beside paces a site may state
// fields of its node that were measured directly, by timed collectives: they replace the profile's
// before paces are applied, on the GPU that they were measured on (links) or on all (network).
//
// File, site/3: {"schema": "site/3", "runs": ["id", ...], "framework": "...",
//   "measured_over_predicted": 1.13, "host": {"pace": 1.0, "left": 0.02}, "network": {...},
//   "gpus": [{"gpu": "rtx3090", "device": {"pace": 1.1, "left": 0.006}, "links": {...}}],
//   "measured": [{"field": "node.internode_latency", "value": "45 us", "gpu": "",
//                 "source": "..."}]}
// `measured` may be absent; where it is not, `runs` may be empty, and the file then has no paces.
// "gpu" empty: any GPU of the site.
// `left` is the variance of the pace's logarithm that the runs leave. Still read: site/2, whose
// links are the network too (of its first GPU), and site/1, which has one "pace" for everything on
// any GPU, and "gpu".
// Thread-safe.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

inline constexpr double kMostPace = 8;

enum class SitePart { device, host, links, network };
inline constexpr std::array kSiteParts{SitePart::device, SitePart::host, SitePart::links,
                                       SitePart::network};
std::string_view name(SitePart part);

struct PartPace {
  double pace = 1;                     // in [1/8, 8]
  double left = 0;                     // variance of its logarithm
};
struct GpuPace {
  std::string gpu;
  PartPace device, links;
};

// A field of the node that was measured itself; see measurable().
struct MeasuredField {
  std::string field, value, source;    // "node.internode_latency", "45 us", "nccl-tests: ..."
  std::string gpu;                     // whose links it tells of; empty: the network of all GPUs
  friend bool operator==(const MeasuredField&, const MeasuredField&) = default;
};

struct SiteFile {
  std::optional<double> pace;            // of site/1 alone: all parts, any GPU
  double measured_over_predicted = 1;    // geometric mean over the runs, before it was weighed
  std::vector<std::string> runs;         // their ids
  std::string framework;                 // of the first
  PartPace host, network;
  std::vector<GpuPace> gpus;             // the kinds that the runs were on
  std::vector<MeasuredField> measured;   // in the order in which they are set

  // Null: no run was on it.
  const GpuPace* of(std::string_view gpu) const;
};

// Whether a site file may state the field: links and network of a node, as collectives time them.
bool measurable(std::string_view field);

core::Result<SiteFile> read_site(std::string_view text, std::string_view where);
core::Result<SiteFile> load_site(const std::string& path);
std::string to_json_text(const SiteFile& site);

// Fractions stay at most 1 and links at most what the card has: beyond that a fast site is not
// followed. `source` says where the changed numbers come from: "--site site.json". On a GPU that
// the runs were not on the host's and the network's paces alone are applied. A site without runs
// has measured fields alone. Errors: a measured field that contradicts the profile.
core::Status use_site(Profile& profile, const SiteFile& site, std::string_view source);

// One part's rates and times alone, without a word on where it comes from.
void pace_part(Profile& profile, SitePart part, double pace);

}  // namespace hw_profiles
