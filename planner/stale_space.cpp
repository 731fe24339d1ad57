#include "planner/stale_space.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace planner {
namespace {

constexpr std::int64_t kMostServers = 16;

// The structures of the space with these pins beside its own.
void add(std::vector<std::string> pins, const Job& job, const SpaceOptions& options,
         Constraints constraints, std::vector<Structure>& found) {
  pins.insert(pins.end(), {"tensor=1", "context=1", "expert=1", "sharding=none"});
  for (const std::string& pin : pins)
    if (!constraints.pin(pin).ok()) return;
  std::ranges::move(structures(job, options, constraints), std::back_inserter(found));
}

}  // namespace

std::vector<Structure> stale_structures(const Job& job, const SpaceOptions& options,
                                        const Constraints& constraints) {
  std::vector<Structure> found;
  if (job.mode == Mode::inference || options.gpus < 2 || options.experts > 0) return found;
  for (std::int64_t stages = 2; stages <= std::min(options.gpus, options.layers); ++stages)
    if (options.gpus % stages == 0)
      add({"schedule=pipedream|pipedream_2bw", "pipeline=" + std::to_string(stages)}, job, options,
          constraints, found);
  for (std::int64_t servers = 1; servers <= std::min(options.gpus / 2, kMostServers); ++servers)
    if (job.global_batch % (options.gpus - servers) == 0)
      add({"grad_sync=parameter_server", "server_mode=async", "servers_colocated=false",
           "servers=" + std::to_string(servers), "pipeline=1"},
          job, options, constraints, found);
  if (job.global_batch % options.gpus == 0)
    add({"grad_sync=parameter_server", "server_mode=async", "servers_colocated=true",
         "servers=" + std::to_string(options.gpus), "pipeline=1"},
        job, options, constraints, found);
  return found;
}

}  // namespace planner
