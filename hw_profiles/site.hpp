#pragma once
// Your site from a few of its runs. Clocks, power limits and library versions make all of a site's
// steps longer or shorter than shipped profiles say; how they compare with each other stays. So a
// site is one number, its pace: durations there over durations here. Applied, it scales every rate
// and every fixed time of a profile, so that a step lasts `pace` times as long.
//
// File, site/1: {"schema": "site/1", "pace": 1.08, "runs": ["id", ...], "gpu": "...",
//   "framework": "...", "measured_over_predicted": 1.13}
// Thread-safe.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"

namespace hw_profiles {

inline constexpr double kMostPace = 8;

struct SiteFile {
  double pace = 1;                       // in [1/8, 8]
  double measured_over_predicted = 1;    // geometric mean over the runs, before it was weighed
  std::vector<std::string> runs;         // their ids
  std::string gpu, framework;            // of the first
};

core::Result<SiteFile> read_site(std::string_view text, std::string_view where);
core::Result<SiteFile> load_site(const std::string& path);
std::string to_json_text(const SiteFile& site);

// Fractions stay at most 1 and links at most what the card has: beyond that a fast site is not
// followed. `source` says where the changed numbers come from: "--site site.json".
void use_site(Profile& profile, const SiteFile& site, std::string_view source);

}  // namespace hw_profiles
