#include "planner/search/stale_space.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

constexpr std::int64_t kMostServers = 16;

// The structures of the space with these pins beside its own; none where they contradict.
std::vector<Structure> with_pins(const std::vector<std::string>& pins, const Job& job,
                                 const SpaceOptions& options, Constraints constraints) {
  for (const std::string& pin : pins)
    if (!constraints.pin(pin).ok()) return {};
  return structures(job, options, constraints);
}

void add_servers(std::vector<std::string> pins, const Job& job, const SpaceOptions& options,
                 const Constraints& constraints, std::vector<Structure>& found) {
  pins.insert(pins.end(), {"grad_sync=parameter_server", "server_mode=async", "pipeline=1",
                           "tensor=1", "context=1", "expert=1", "sharding=none"});
  std::ranges::move(with_pins(pins, job, options, constraints), std::back_inserter(found));
}

// Unasked: every layer recomputed or none, or parts of each.
bool is_proposed(const Strategy& s, const Constraints& constraints) {
  if (s.sharding > Sharding::zero1) return false;
  const bool asked =
      constraints.is_pinned("checkpoint") || constraints.is_pinned("checkpoint_every");
  return asked || s.checkpoint != Checkpoint::every_k || s.checkpoint_every == 1;
}

// One schedule after the other: its pipelines share their stages.
void add_pipelines(const Job& job, const SpaceOptions& options, const Constraints& constraints,
                   std::vector<Structure>& found) {
  if (constraints.is_pinned("schedule")) return;  // the space itself has what is asked for
  std::string degrees;
  for (std::int64_t p = 2; p <= std::min(options.gpus, options.layers); ++p)
    if (options.gpus % p == 0) degrees += fmt::format("{}{}", degrees.empty() ? "" : "|", p);
  if (degrees.empty()) return;
  for (const ScheduleDef& def : kSchedules) {
    if (def.flushes) continue;
    std::vector<std::string> pins{fmt::format("schedule={}", def.name)};
    if (!constraints.is_pinned("pipeline")) pins.push_back(fmt::format("pipeline={}", degrees));
    for (const char* key : {"context", "expert"})
      if (!constraints.is_pinned(key)) pins.push_back(fmt::format("{}=1", key));
    for (Structure& one : with_pins(pins, job, options, constraints)) {
      const Strategy& s = one.strategy;
      if (s.pipeline == 1 || !is_proposed(s, constraints)) continue;
      std::erase_if(one.micro_batches, [&](std::int64_t size) {
        const std::int64_t all = with_micro_batch(s, size, job.global_batch).grad_accum;
        return !schedule_takes(def.schedule, s.pipeline, all);
      });
      if (!one.micro_batches.empty()) found.push_back(std::move(one));
    }
  }
}

}  // namespace

std::vector<Structure> stale_structures(const Job& job, const SpaceOptions& options,
                                        const Constraints& constraints) {
  std::vector<Structure> found;
  if (job.mode == Mode::inference || options.gpus < 2 || options.experts > 0) return found;
  add_pipelines(job, options, constraints, found);
  for (std::int64_t servers = 1; servers <= std::min(options.gpus / 2, kMostServers); ++servers)
    if (job.global_batch % (options.gpus - servers) == 0)
      add_servers({"servers_colocated=false", "servers=" + std::to_string(servers)}, job, options,
                  constraints, found);
  if (job.global_batch % options.gpus == 0)
    add_servers({"servers_colocated=true", "servers=" + std::to_string(options.gpus)}, job, options,
                constraints, found);
  return found;
}

}  // namespace planner
