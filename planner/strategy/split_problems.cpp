#include "planner/strategy/split_problems.hpp"

#include "models/splits.hpp"

namespace planner {

void add_split_problems(const models::ModelSpec& spec, const Strategy& s, Failures& failures_) {
  const auto text = [](std::int64_t n) { return Phrase(n); };
  if (s.split == 1) {
    NEED(s.splits.empty(), "splits", "auto without split", "annotations",
         "pin split, too: how many data ranks divide operators");
    return;
  }
  const bool is_graph = spec.family == models::Family::graph;
  NEED(is_graph, "split", "1 for another model than an operator graph", text(s.split),
       "use tensor");
  NEED(s.data % s.split == 0, "split", "a divisor of data " + text(s.data), text(s.split));
  NEED(s.sharding == Sharding::none || s.shard_group % s.split == 0, "split",
       "a divisor of shard_group " + text(s.shard_group), text(s.split));
  NEED(s.partition == Partition::layers, "split", "1 with partition=operators", text(s.split));
  NEED(s.grad_sync != GradSync::parameter_server, "split", "1 with parameter servers",
       text(s.split), "servers keep whole parameters");
  if (!is_graph) return;
  const models::GraphAnalysis& analysis = models::kept_analysis(spec.graph);
  const auto made = models::complete_splits(spec.graph, analysis, s.splits, s.split);
  if (made.ok()) return;
  for (const core::Problem& p : made.problems())
    failures_.add("splits", Phrase(p.expected), Phrase(p.found), Phrase(p.fix));
}

}  // namespace planner
