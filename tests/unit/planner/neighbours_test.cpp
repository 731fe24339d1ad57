// No change of one key makes a plan faster: every key of a strategy, on random small machines.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/random.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "planner/search/space.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

// A change of the named key, and of what follows from it.
struct Neighbour {
  std::string key;
  Strategy strategy;
};

class Neighbours {
 public:
  Neighbours(const Strategy& s, std::int64_t batch) : s_(s), batch_(batch) {
    degrees();
    schedules();
    sharding();
    memory();
    exchange();
    orders();
  }
  std::vector<Neighbour> all;

 private:
  void add(const char* key, auto&& change) {
    Strategy s = s_;
    change(s);
    if (s != s_) all.push_back({key, std::move(s)});
  }
  // The same samples, one factor of two from one degree to another.
  void degrees() {
    using Degree = std::int64_t Strategy::*;
    const std::pair<const char*, Degree> known[] = {{"data", &Strategy::data},
                                                    {"tensor", &Strategy::tensor},
                                                    {"pipeline", &Strategy::pipeline},
                                                    {"context", &Strategy::context}};
    for (const auto& [from_name, from] : known)
      for (const auto& [name, to] : known)
        if (from != to && s_.*from % 2 == 0)
          add(name, [this, from = from, to = to](Strategy& s) {
            s.*from /= 2;
            s.*to *= 2;
            s.stages.clear();
            if (s.pipeline == 1) s.schedule = Schedule::none, s.virtual_stages = 1;
            if (s.pipeline > 1 && s.schedule == Schedule::none) s.schedule = Schedule::one_f_one_b;
            s.sequence_parallel = s.sequence_parallel && s.tensor > 1;
            s.shard_group = s.sharding == Sharding::none ? 1 : s.data_ranks();
            s = with_micro_batch(s, s.micro_batch, batch_);
          });
    for (std::int64_t size = 1; size <= batch_; size *= 2)
      add("micro_batch", [&](Strategy& s) { s = with_micro_batch(s, size, batch_); });
    add("sequence_parallel", [](Strategy& s) { s.sequence_parallel = !s.sequence_parallel; });
    for (const ContextMethod m :
         {ContextMethod::gather, ContextMethod::ring, ContextMethod::exchange})
      add("context_method", [&](Strategy& s) { s.context_method = m; });
  }
  void schedules() {
    for (int i = 0; i <= static_cast<int>(Schedule::zb_v); ++i)
      for (const std::int64_t chunks : {1, 2, 3})
        add(chunks == s_.virtual_stages ? "schedule" : "virtual_stages", [&](Strategy& s) {
          s.schedule = static_cast<Schedule>(i);
          if (s.virtual_stages != chunks) s.stages.clear();
          s.virtual_stages = chunks;
        });
    for (std::size_t from = 0; from < s_.stages.size(); ++from)
      for (std::size_t to = 0; to < s_.stages.size(); ++to)
        if (from != to) add("stages", [&](Strategy& s) { --s.stages[from], ++s.stages[to]; });
  }
  void sharding() {
    for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
      add("sharding", [&](Strategy& s) {
        s.sharding = z;
        s.shard_group = z == Sharding::none ? 1 : s.data_ranks();
      });
    add("shard_group", [](Strategy& s) { s.shard_group = 2; });
  }
  void memory() {
    for (int i = 0; i <= static_cast<int>(Checkpoint::pointwise); ++i)
      for (const std::int64_t every : {1, 2})
        add("checkpoint", [&](Strategy& s) {
          s.checkpoint = static_cast<Checkpoint>(i);
          s.checkpoint_every = s.checkpoint == Checkpoint::every_k ? every : 0;
        });
    for (const std::int64_t chunks : {1, 2, 4, 8, 16})
      add("loss_chunks", [&](Strategy& s) { s.loss_chunks = chunks; });
    add("offload", [](Strategy& s) { s.offload = {}; });
    for (const char* what : {"optimizer", "params", "activations"})
      add("offload", [&](Strategy& s) { s.offload = {what}; });
  }
  // Tree, naive and servers exchange whole gradients.
  static Strategy& whole(Strategy& s) {
    s.sharding = Sharding::none;
    s.shard_group = 1;
    return s;
  }
  void exchange() {
    add("overlap", [](Strategy& s) { s.overlap = !s.overlap; });
    for (const std::int64_t mebibytes : {1, 4, 10, 25, 50, 100, 400, 1024})
      add("bucket_bytes", [&](Strategy& s) { s.bucket_bytes = mebibytes << 20; });
    for (const GradSync g : {GradSync::ring, GradSync::tree, GradSync::naive_all_reduce})
      add("grad_sync", [&](Strategy& s) { whole(s).grad_sync = g; });
  }
  void orders() {
    std::array<Degree, 4> order = s_.mesh_order;
    std::ranges::sort(order);
    do {
      add("mesh_order", [&](Strategy& s) { s.mesh_order = order; });
    } while (std::ranges::next_permutation(order).found);
  }

  const Strategy s_;
  const std::int64_t batch_;
};

class MachineDraws {
 public:
  explicit MachineDraws(std::uint64_t seed) : random_(seed, 0) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const auto count = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int64_t>(random_.below(next_++, count));
  }

 private:
  const core::Random random_;
  std::uint64_t next_ = 0;
};

// A narrow GPT-2, so that latencies, launches and exchanges weigh as much as products.
Request random_request(MachineDraws& random) {
  Request r;
  r.simpler_within = 0;
  r.model = models::find_model("gpt2-124m").value();
  r.model.layers = random.between(8, 12);
  r.model.hidden = 64 * random.between(2, 8);
  r.model.ffn_hidden = 4 * r.model.hidden;
  r.model.heads = r.model.kv_heads = r.model.hidden / 64 * 2;
  r.model.head_dim = 32;
  r.gpus = random.between(2, 4);
  const char* gpus[] = {"rtx3090", "a100-sxm-80g", "h100-sxm-80g", "rtx4090"};
  r.profile = hw_profiles::find_profile(gpus[random.between(0, 3)]).value();
  hw_profiles::Node& node = r.profile.node;
  const auto scale = [&] { return std::exp2(static_cast<double>(random.between(-4, 2))); };
  node.link_bandwidth = node.link_bandwidth * scale();
  node.internode_bandwidth = node.internode_bandwidth * scale();
  node.link_latency = node.link_latency * scale();
  r.gpus_per_node = std::int64_t{1} << random.between(0, 2);
  r.job.seq_len = std::int64_t{128} << random.between(0, 3);
  r.job.global_batch = r.gpus * (std::int64_t{1} << random.between(1, 4));
  return r;
}

const std::set<std::string> kOfFinalists{"context_method", "loss_chunks", "mesh_order", "overlap",
                                         "bucket_bytes",   "grad_sync"};

}  // namespace

TEST_CASE("no change of one key is faster than the plan, on random small machines") {
  MachineDraws random(20'260'722);
  std::map<std::string, int> tried;
  for (int i = 0; i < 60; ++i) {
    const Request r = random_request(random);
    const core::Result<Plan> plan = make_plan(r);
    REQUIRE((plan.ok() && plan->chosen));
    const Strategy& won = plan->chosen->strategy;
    const Question q = make_question(plan->model, plan->job, plan->profile, r.gpus).value();
    for (const auto& [key, s] : Neighbours(won, plan->job.global_batch).all) {
      if (!strategy_problems(q.model, q.job, s, q.gpus).empty()) continue;
      if (s.tensor > *r.gpus_per_node) continue;  // within a node, as the space has it
      const Strategy resolved = resolve(q.model, q.job, s);
      const auto graph =
          models::build_graph(q.model, graph_options(q.job, resolved, q.profile.framework));
      const Candidate c = evaluate(q, graph.value(), resolved);
      if (c.memory.worst.device > c.memory.usable) continue;
      ++tried[key];
      // The closed form is within 10 % of these figures, in what it chooses finalists by.
      const bool tried_by_finalists = kOfFinalists.contains(key);
      const double bar = tried_by_finalists ? 1.02 : 1.10;
      INFO(i << ": " << to_text(won) << " takes " << plan->chosen->time.step.value() << ", " << key
             << " in " << to_text(resolved) << " (buckets of " << resolved.bucket_bytes << ") "
             << c.time.step.value());
      CHECK(plan->chosen->time.step.value() <= bar * c.time.step.value());
    }
  }
  // Teeth: these keys have had changes that hold. sequence_parallel and context_method are of
  // winners that few of these machines have; servers are not searched (docs/decisions/0010).
  for (const char* key :
       {"data", "tensor", "pipeline", "context", "virtual_stages", "schedule",
        "stages", "sharding", "micro_batch", "checkpoint", "grad_sync", "overlap", "bucket_bytes",
        "loss_chunks", "offload", "mesh_order"}) {
    INFO(key);
    CHECK(tried[key] > 0);
  }
}
