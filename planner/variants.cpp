#include "planner/variants.hpp"

#include "planner/space.hpp"

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

// Two chunks in V shape keep as much as 1f1b does and idle less [zb-v]. The passes of each
// candidate would have to be played. What zb_h2 keeps is nearly twice as much, so that a larger
// micro-batch may fit.
void add_v_shape(const Strategy& s, const Question& q, std::vector<Strategy>& all) {
  const bool flushes = s.schedule != Schedule::none && s.schedule <= Schedule::zb_h2;
  if (!flushes || s.partition == Partition::operators) return;
  Strategy v = s;
  v.schedule = Schedule::zb_v;
  v.virtual_stages = 2;
  v.stages.clear();
  for (const std::int64_t times : {1, 2})
    all.push_back(with_micro_batch(v, times * s.micro_batch, q.job.global_batch));
}

}  // namespace

std::vector<Strategy> variants(const Strategy& strategy, const Question& question) {
  std::vector<Strategy> all;
  add_context_methods(strategy, all);
  add_v_shape(strategy, question, all);
  return all;
}

}  // namespace planner
