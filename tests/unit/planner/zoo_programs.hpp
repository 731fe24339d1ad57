#pragma once
// Programs of every model of the zoo under strategies, jobs and frameworks drawn at random, for
// statements about all that is lowered. The same Programs in every run.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/question/quantization.hpp"
#include "tests/catch.hpp"

namespace planner_test {

class ZooDraw {
 public:
  explicit ZooDraw(unsigned seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<unsigned>(high - low + 1));
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  bool one_in(std::int64_t count) { return between(1, count) == 1; }

  planner::Strategy strategy(const models::ModelSpec& spec) {
    using namespace planner;
    Strategy s;
    s.data = one_of<std::int64_t>({1, 1, 2, 4});
    s.tensor = one_of<std::int64_t>({1, 1, 2, 4});
    s.context = one_of<std::int64_t>({1, 1, 1, 2});
    s.context_method =
        one_of({ContextMethod::gather, ContextMethod::ring, ContextMethod::exchange});
    if (spec.variants.experts > 0) s.expert = one_of<std::int64_t>({1, 2, 4});
    s.pipeline = one_of<std::int64_t>({1, 1, 2, 4});
    s.schedule = s.pipeline == 1 ? Schedule::none
                                 : one_of({Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                                           Schedule::interleaved, Schedule::zb_h1, Schedule::zb_h2,
                                           Schedule::zb_v, Schedule::pipedream,
                                           Schedule::pipedream_2bw});
    if (s.schedule == Schedule::zb_v || s.schedule == Schedule::interleaved) s.virtual_stages = 2;
    s.sharding = one_of({Sharding::none, Sharding::none, Sharding::zero1, Sharding::zero2,
                         Sharding::zero3});
    s.shard_group = s.sharding == Sharding::none ? 1 : s.data_ranks();
    s.checkpoint =
        one_of({Checkpoint::none, Checkpoint::none, Checkpoint::every_k, Checkpoint::selective,
                Checkpoint::selective_op, Checkpoint::pointwise, Checkpoint::memory_poor});
    s.checkpoint_every = s.checkpoint == Checkpoint::every_k ? between(1, 3) : 0;
    s.micro_batch = between(1, 2);
    s.grad_accum = one_of<std::int64_t>({1, 2, 4, 8, 16});
    s.sequence_parallel = s.tensor > 1 && one_in(2);
    s.tp_overlap = s.tensor > 1 && one_in(4);
    s.loss_chunks = one_of<std::int64_t>({1, 1, 1, 2, 4});
    if (one_in(8)) s.offload = {one_of<std::string>({"optimizer", "params", "activations"})};
    if (s.data > 1 && one_in(8)) {
      s.grad_sync = GradSync::parameter_server;
      s.servers = 1;
      s.servers_colocated = one_in(2);
    }
    if (spec.family == models::Family::graph && s.pipeline == 2 && one_in(2)) {
      s.partition = Partition::operators;
      s.schedule = Schedule::naive;
    }
    return s;
  }

  planner::Job job(const models::ModelSpec& spec, const planner::Strategy& s) {
    planner::Job job;
    const bool sequences =
        spec.family != models::Family::graph && spec.family != models::Family::chain;
    job.seq_len = sequences ? one_of<std::int64_t>({64, 256}) : 1;
    job.global_batch = s.data * s.micro_batch * s.grad_accum;
    job.recipe = one_of<std::string>({"fp32", "mixed", "mixed", "lean", "megatron", "fsdp2",
                                      "pure_bf16", "fp64"});
    if (one_in(4)) job.precision = core::DType::f8;
    if (one_in(4)) {
      job.lora_rank = 8;
      job.lora_targets = one_in(2) ? std::vector<std::string>{"q", "k", "v", "o"}
                                   : std::vector<std::string>{"q", "gate", "up", "down"};
      if (one_in(2)) job.quantization = one_of<std::string>({"int8", "nf4", "two_factor"});
    }
    if (one_in(8)) job.mode = planner::Mode::inference;
    job.attention = one_of<std::string>({"flash2", "flash2", "fused_softmax", "unfused"});
    job.fused_norm = !one_in(4);
    job.compile = one_in(4);
    return job;
  }

 private:
  std::mt19937 random_;
};

// Each model has draws of its own, of frameworks that are listed here: another model or framework
// leaves them as they are.
inline constexpr std::array kDrawnFrameworks{
    "deepspeed", "fsdp1", "fsdp2",    "generic", "llmc",    "megatron",     "megatron_core",
    "megatron_deepspeed", "nanotron", "native",  "torch",   "trainer",      "trainer_zero3"};

inline unsigned seed_of(std::string_view model) {
  std::uint32_t seed = 2'166'136'261U;
  for (const char c : model) seed = (seed ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return seed;
}

// visit(model, job, resolved strategy, Program): `count` sound questions of each model.
template <class Visit>
void for_zoo_programs(int count, Visit&& visit) {
  for (const models::ZooEntry& entry : models::zoo()) {
    const std::string& model = entry.spec.name;
    const models::ModelSpec& spec = entry.spec;
    unsigned seed = seed_of(model);
    for (int made = 0, tries = 0; made < count && tries < 100 * count; ++tries) {
      ZooDraw draw(seed++);
      const std::size_t of = static_cast<std::size_t>(
          draw.between(0, static_cast<std::int64_t>(kDrawnFrameworks.size()) - 1));
      const planner::Strategy drawn = draw.strategy(spec);
      planner::Job job = draw.job(spec, drawn);
      job.framework = kDrawnFrameworks[of];
      hw_profiles::Profile profile = hw_profiles::find_profile("h200-sxm-141g").value();
      if (!hw_profiles::use_framework(profile, job.framework, "test").ok()) continue;
      const std::int64_t gpus = drawn.workers() + drawn.separate_servers();
      if (!planner::strategy_problems(spec, job, drawn, gpus).empty()) continue;
      const planner::Strategy s = planner::resolve(spec, job, drawn);
      if (!planner::strategy_problems(spec, job, s, gpus).empty()) continue;
      const auto graph =
          models::build_graph(spec, planner::graph_options(job, s, profile.framework));
      if (!graph.ok()) continue;
      visit(model, job, s,
            planner::lower(*graph, job, s, planner::stage::policy_of(job, profile.framework)));
      ++made;
    }
  }
}

}  // namespace planner_test
