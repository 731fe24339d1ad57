#include "planner/search/variants.hpp"

#include <algorithm>

namespace planner {
namespace {

// How queries meet keys: the space has one way for each.
void add_context_methods(const Strategy& s, std::vector<Strategy>& all) {
  if (s.context == 1) return;
  for (const ContextMethod method :
       {ContextMethod::gather, ContextMethod::ring, ContextMethod::exchange}) {
    if (method == s.context_method) continue;
    all.push_back(s);
    all.back().context_method = method;
  }
}

// Two chunks in V shape keep as much as 1f1b does and idle less [zb-v]. Its passes have to be
// played: only where a step that waited for nothing would be the fastest (a V has both ends of the
// model on one rank, so that tied gradients cross no link either). Another micro-batch may be its
// own best: what zb_h2 keeps is nearly twice as much, and halves fill a V sooner.
void add_v_shape(const Candidate& c, core::Seconds best, const Question& q,
                 std::vector<Strategy>& all) {
  const Strategy& s = c.strategy;
  const bool any = s.pipeline > 1 && flushes(s.schedule);
  if (!any || s.partition == Partition::operators) return;
  const core::Seconds waits = c.time.bubble + c.time.exposed_communication;
  if (c.time.step - waits > (1 - kWorth) * best) return;
  const std::int64_t b = s.micro_batch;
  Strategy v = s;
  v.schedule = Schedule::zb_v;
  v.virtual_stages = 2;
  v.stages.clear();
  for (const std::int64_t size : {b, 2 * b, b / 2})
    if (size > 0 && (size != b || !in_v(s.schedule)))
      all.push_back(with_micro_batch(v, size, q.job.global_batch));
  if (!in_v(s.schedule) || s.data % 2 != 0) return;
  v.data /= 2;                         // the space ranked deeper pipelines by other schedules
  v.pipeline *= 2;
  v.shard_group = v.sharding == Sharding::none ? 1 : v.data_ranks();
  all.push_back(with_micro_batch(v, b, q.job.global_batch));
}

// What chunks cost is time: they pay where the logits' memory keeps larger micro-batches, or less
// recomputation, out. Where the space had chunks already, less recomputation is left to try.
void add_loss_chunks(const Strategy& s, const Question& q, std::vector<Strategy>& all) {
  if (!may_chunk_loss(q)) return;
  Strategy chunked = s;
  chunked.loss_chunks = kLossChunks;
  std::vector<Strategy> kept;
  if (s.loss_chunks == 1) kept.push_back(chunked);
  const bool recomputes = s.checkpoint == Checkpoint::every_k;
  if (recomputes || s.checkpoint == Checkpoint::selective) {
    chunked.checkpoint = Checkpoint::none;
    chunked.checkpoint_every = 0;
    kept.push_back(chunked);
  }
  if (recomputes && q.model.heads > 0) {
    chunked.checkpoint = Checkpoint::selective;
    kept.push_back(chunked);
  }
  for (const Strategy& one : kept)
    for (const std::int64_t times : {1, 2, 4})
      all.push_back(with_micro_batch(one, times * s.micro_batch, q.job.global_batch));
}

// Orders of the degrees that are more than one, where groups span nodes; context ranks lie among
// the data ranks. Others come after.
void add_mesh_orders(const Strategy& s, const Question& q, std::vector<Strategy>& all) {
  if (q.gpus <= q.profile.node.gpus_per_node) return;
  const auto degree = [&](Degree d) {
    return d == Degree::tensor ? s.tensor : d == Degree::data ? s.data_ranks() : s.pipeline;
  };
  std::vector<Degree> own, ones;       // in the strategy's order
  for (const Degree d : s.mesh_order)
    if (d != Degree::context) (degree(d) > 1 ? own : ones).push_back(d);
  std::vector<Degree> order = own;
  std::ranges::sort(order);
  do {
    if (order == own) continue;
    Strategy changed = s;
    auto next = changed.mesh_order.begin();
    for (const std::vector<Degree>* part : {&order, &ones})
      for (const Degree d : *part) {
        if (d == Degree::data) *next++ = Degree::context;
        *next++ = d;
      }
    all.push_back(std::move(changed));
  } while (std::ranges::next_permutation(order).found);
}

// Whether the step would be the fastest if a part of what it waits for others went away.
bool waits_for_others(const Candidate& c, core::Seconds best) {
  constexpr double kShare = 0.02;
  return c.time.step - c.time.exposed_communication < (1 - kShare) * best;
}

// Small buckets leave little to reduce behind the last layer, large ones wait for fewer latencies.
// The closed form has each layer reduce its share of all buckets, whatever their size. What tensor
// ranks wait for is mostly each other.
void add_buckets(const Candidate& c, core::Seconds best, std::vector<Strategy>& all) {
  const Strategy& s = c.strategy;
  const bool buckets = s.sharding <= Sharding::zero1 && s.data_ranks() > 1 && s.tensor == 1;
  if (!buckets || !waits_for_others(c, best) ||
      s.grad_sync == GradSync::parameter_server)
    return;
  for (const std::int64_t mebibytes : {1, 4, 10, 100}) {
    if (s.bucket_bytes == mebibytes << 20) continue;
    all.push_back(s);
    all.back().bucket_bytes = mebibytes << 20;
  }
}

// Stages are divided by the time of their layers alone. What crosses a boundary, which differs from
// layer to layer of a graph, and how the passes of a V follow each other show in the whole step:
// each boundary moves by a layer, either way.
void add_moved_boundaries(const Candidate& c, core::Seconds best, const Question& q,
                          std::vector<Strategy>& all) {
  constexpr std::size_t kMostStages = 8;
  const Strategy& s = c.strategy;
  const bool differ = !models::is_transformer(q.model.family) || in_v(s.schedule);
  if (!differ || s.pipeline == 1 || s.partition == Partition::operators ||
      s.stages.size() > kMostStages || c.time.step > best / (1 - kWorth))
    return;
  for (std::size_t r = 0; r + 1 < s.stages.size(); ++r)
    for (const auto& [from, to] : {std::pair{r, r + 1}, std::pair{r + 1, r}}) {
      if (s.stages[from] == 0) continue;
      all.push_back(s);
      --all.back().stages[from], ++all.back().stages[to];
    }
}

// Without overlap no copy is fetched ahead and no unit waits to be reduced: less memory.
void add_no_overlap(const Strategy& s, std::vector<Strategy>& all) {
  if (!s.overlap || (s.data_ranks() == 1 && s.offload.empty())) return;
  all.push_back(s);
  all.back().overlap = false;
}

}  // namespace

bool may_chunk_loss(const Question& q) {
  return q.job.mode != Mode::inference && models::has_language_head(q.model) &&
         q.profile.framework.loss_chunks.value_or(1) >= kLossChunks;
}

std::vector<Variant> variants(const Candidate& c, core::Seconds best, const Question& question) {
  std::vector<Variant> all;
  const auto take = [&](bool foreseen, auto&& add) {
    std::vector<Strategy> changed;
    add(changed);
    for (Strategy& s : changed) all.push_back({std::move(s), foreseen});
  };
  take(true, [&](auto& found) {
    add_context_methods(c.strategy, found);
    add_loss_chunks(c.strategy, question, found);
    add_mesh_orders(c.strategy, question, found);
    add_no_overlap(c.strategy, found);
  });
  take(false, [&](auto& found) {
    add_v_shape(c, best, question, found);
    add_buckets(c, best, found);
    add_moved_boundaries(c, best, question, found);
  });
  return all;
}

std::vector<Structure> with_loss_chunks(const std::vector<Structure>& plain, const Question& q,
                                        const Constraints& constraints) {
  std::vector<Structure> found;
  if (!may_chunk_loss(q) || !constraints.admits("loss_chunks", kLossChunks)) return found;
  for (const Structure& one : plain) {
    if (one.strategy.loss_chunks > 1) continue;
    found.push_back(one);
    found.back().strategy.loss_chunks = kLossChunks;
    found.back().strategy.stages.clear();  // its head is another's: divided anew
  }
  return found;
}

}  // namespace planner
