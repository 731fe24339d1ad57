#include "planner/search/host_space.hpp"

#include <algorithm>

#include "planner/lowering/lower.hpp"

namespace planner {
namespace {

bool may_offload(const Strategy& s, const Job& job) {
  return job.mode != Mode::inference && s.grad_sync != GradSync::parameter_server &&
         s.offload.empty() && flushes(s.schedule);
}

// With the micro-batches that the constraints admit, if there are any.
void add(Structure s, const Job& job, const Constraints& constraints,
         std::vector<Structure>& found) {
  std::erase_if(s.micro_batches, [&](std::int64_t size) {
    return !constraints.admits(with_micro_batch(s.strategy, size, job.global_batch));
  });
  if (!s.micro_batches.empty()) found.push_back(std::move(s));
}

}  // namespace

std::vector<Structure> with_host_optimizer(std::vector<Structure> plain, const Job& job,
                                           const Constraints& constraints) {
  std::erase_if(plain, [&](const Structure& s) { return !may_offload(s.strategy, job); });
  for (Structure& s : plain) s.strategy.offload = {"optimizer"};
  if (constraints.empty()) return plain;
  std::vector<Structure> found;
  for (Structure& s : plain) add(std::move(s), job, constraints, found);
  return found;
}

std::vector<Structure> with_host_parameters(const std::vector<Structure>& plain, const Job& job,
                                            const Constraints& constraints) {
  std::vector<Structure> found;
  for (const Structure& one : plain) {
    const Strategy& s = one.strategy;
    // Other divisions hold more of what could be on the host.
    const bool divided = s.sharding == Sharding::zero3 && s.shard_group == s.data_ranks();
    const bool recomputes = s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1;
    const bool usual = schedule_def(s.schedule).level == 0;
    if (!may_offload(s, job) || !recomputes || !usual || !(divided || s.data_ranks() == 1))
      continue;
    Structure host = one;
    host.strategy.sharding = Sharding::zero3;
    host.strategy.shard_group = s.data_ranks();
    host.strategy.offload = {"params"};
    for (const bool activations : {false, true}) {
      if (activations) host.strategy.offload.emplace_back("activations");
      add(host, job, constraints, found);
    }
  }
  return found;
}

}  // namespace planner
