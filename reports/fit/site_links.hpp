#pragma once
// What timed collectives of a site say of its links: the fields of a node that the cost model reads
// (sim/cost/nccl.hpp), fitted to their times.
//
//   a bridged pair   node.pair_bandwidth, node.pair_latency
//   inside a node    node.link_bandwidth, node.link_latency
//   between nodes    node.internode_efficiency, node.internode_latency; node.tree_wait where sums
//                    and gathers were both timed; node.nccl_low_latency, whichever fits better
//
// Minimised is the mean of |log(predicted / measured)| over groups of timings that share the
// collective and the ranks, each group weighing 1, by NLopt's SBPLX [rowan1990] from the profile's
// own values within the bounds of kLinkBounds. One size alone does not tell a rate from a latency:
// between nodes it is read as a job's own measurement is (sim/cost/measured_network.hpp), which
// needs an all-reduce and a gather of that size; inside a node the latency stays. Deterministic;
// pure. O(evaluations x timings).

#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "hw_profiles/site.hpp"
#include "reports/text.hpp"
#include "reports/validate/timing.hpp"

namespace reports::fit {

struct LinkGroup {
  std::string collective;
  int gpus = 0, nodes = 1;
  std::size_t timings = 0;
  double before = 0, after = 0;        // mean |error|, as fractions of the measured time
};

struct SiteLinks {
  std::vector<hw_profiles::MeasuredField> fields;  // what the timings change
  std::vector<std::string> at_bounds;  // of these, as far as they may go
  std::vector<LinkGroup> groups;
  std::string gpu;
  hw_profiles::Profile profile;        // with these fields
};

// `source` says where the timings come from. Errors: more GPUs on a node than the profile's node
// has, a GPU that NCCL does not run on, one size between nodes without both kinds of collectives.
core::Result<SiteLinks> links_of(std::span<const validation::Timing> timings,
                                 const hw_profiles::Profile& profile, std::string_view source);

std::string site_links_text(const SiteLinks& links, TextStyle style);

}  // namespace reports::fit
