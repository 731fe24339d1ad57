#include "planner/variants.hpp"

namespace planner {
namespace {

// How queries meet keys: the space has them gathered.
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
// played: only where a step without its bubble would be the fastest. What zb_h2 keeps is nearly
// twice as much, so that a larger micro-batch may fit.
void add_v_shape(const Candidate& c, core::Seconds best, const Question& q,
                 std::vector<Strategy>& all) {
  const Strategy& s = c.strategy;
  const bool flushes = s.schedule != Schedule::none && s.schedule <= Schedule::zb_h2;
  if (!flushes || s.partition == Partition::operators) return;
  if (c.time.step - c.time.bubble > (1 - kWorth) * best) return;
  Strategy v = s;
  v.schedule = Schedule::zb_v;
  v.virtual_stages = 2;
  v.stages.clear();
  for (const std::int64_t times : {1, 2})
    all.push_back(with_micro_batch(v, times * s.micro_batch, q.job.global_batch));
}

// What chunks cost is time: they pay where the logits' memory keeps larger micro-batches, or less
// recomputation, out.
void add_loss_chunks(const Strategy& s, const Question& q, std::vector<Strategy>& all) {
  if (s.loss_chunks > 1 || !may_chunk_loss(q)) return;
  Strategy chunked = s;
  chunked.loss_chunks = kLossChunks;
  std::vector<Strategy> kept{chunked};
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

}  // namespace

bool may_chunk_loss(const Question& q) {
  return q.job.mode != Mode::inference && models::has_language_head(q.model) &&
         q.profile.framework.loss_chunks.value_or(1) >= kLossChunks;
}

std::vector<Strategy> variants(const Candidate& c, core::Seconds best, const Question& question) {
  std::vector<Strategy> all;
  add_context_methods(c.strategy, all);
  add_v_shape(c, best, question, all);
  add_loss_chunks(c.strategy, question, all);
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
