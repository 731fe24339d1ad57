#include "planner/plan/state_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace planner {
namespace {

using program::Buffer;
using program::RankClass;

// Bytes per trained element, of the job and of the device.
struct PerElement {
  double all = 0, device = 0;
};

double elements_of(const Buffer& b) {
  double sum = 0;
  for (int i = 0; i < b.extent; ++i) sum += static_cast<double>(b.instance_elements(i));
  return sum;
}

// Weights are as many bytes an element as their type; the optimizer's buffers, whose scales have
// fewer elements, count by the largest of them.
PerElement per_element(const RankClass& k) {
  PerElement per;
  if (k.weights_buffer == program::kNone) return per;
  const Buffer& weights = k.buffers[k.weights_buffer];
  per.all = static_cast<double>(core::bits(weights.type)) / 8;
  per.device = weights.host ? 0 : per.all;
  double most = 0, bytes = 0, device = 0;
  for (const Buffer& b : k.buffers) {
    if (!b.persistent || b.term != program::Term::optimizer) continue;
    const double elements = elements_of(b);
    const double own = elements * static_cast<double>(core::bits(b.type)) / 8;
    most = std::max(most, elements);
    bytes += own;
    if (!b.host) device += own;
  }
  if (most == 0) return per;
  per.all += bytes / most;
  per.device += device / most;
  return per;
}

// Elements that the ranks of a data group hold between them.
double trained_elements(const RankClass& k) {
  double sum = 0;
  for (const program::Span& s : k.spans)
    sum += static_cast<double>(s.elements) * s.expert_ways;
  return k.spans.empty() ? static_cast<double>(k.trained_elements) : sum;
}

}  // namespace

StateBytes state_bytes(const program::Program& p) {
  struct Stage {
    double elements = 0;               // of one data group
    double of_rank = 0;                // bytes
    PerElement per;
    int workers = 0;
  };
  std::map<int, Stage> stages;
  PerElement per;                      // servers keep the optimizer of workers
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    const RankClass& k = p.classes[c];
    const PerElement own = per_element(k);
    per = {std::max(per.all, own.all), std::max(per.device, own.device)};
    if (!k.is_worker) continue;
    Stage& stage = stages[k.stage];
    stage.elements = std::max(stage.elements, trained_elements(k));
    stage.workers += static_cast<int>(p.ranks_of(static_cast<int>(c)).size());
  }
  StateBytes bytes;
  double all = 0, of_rank = 0;
  for (auto& [index, stage] : stages) {
    const double groups = static_cast<double>(stage.workers) / p.mesh.data;
    const double here = stage.elements * groups * per.all;
    all += here;
    stage.of_rank = here / stage.workers;
    of_rank = std::max(of_rank, stage.of_rank);
  }
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    const RankClass& k = p.classes[static_cast<std::size_t>(p.class_of(rank))];
    bytes.by_rank.push_back(k.is_worker ? stages.at(k.stage).of_rank : 0);
  }
  bytes.all = core::Bytes(std::llround(all));
  bytes.of_rank = core::Bytes(std::llround(of_rank));
  bytes.on_device =
      core::Bytes(per.all > 0 ? std::llround(of_rank * per.device / per.all) : 0);
  return bytes;
}

core::Problems saved_problems(const StateBytes& bytes) {
  if (bytes.all.value() > 0) return {};
  return {{"--storage", "a plan that trains something", "nothing to save",
           "leave --storage out; with failures, write --save 60s"}};
}

}  // namespace planner
