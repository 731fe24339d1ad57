#pragma once
// Random shapes and degrees, none of them chosen to divide. What a Strategy breaks
// (strategy_problems) is left to the caller. A draw follows from its seed.

#include <random>

#include "planner/strategy/strategy.hpp"
#include "tests/property/run_program.hpp"

namespace tests {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<unsigned>(high - low + 1));
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 random_;
};

inline models::ModelSpec draw_model(Draw& draw) {
  models::ModelSpec spec = tiny_gpt(draw.between(2, 6));
  spec.heads = spec.kv_heads = draw.one_of<std::int64_t>({2, 3, 4, 6});
  spec.hidden = spec.heads * draw.between(2, 7);
  spec.ffn_hidden = spec.heads * draw.between(3, 20);
  spec.vocab = draw.between(17, 211);
  spec.tied_embeddings = draw.between(0, 3) > 0;
  spec.default_seq_len = draw.between(1, 12);
  spec.positions = spec.default_seq_len + 1;
  return spec;
}

inline planner::Strategy draw_strategy(Draw& draw) {
  using namespace planner;
  Strategy s;
  s.data = draw.between(1, 4);
  s.context = draw.one_of<std::int64_t>({1, 1, 2, 3});
  if (s.context > 1)
    s.context_method = draw.one_of(
        {ContextMethod::gather, ContextMethod::ring, ContextMethod::exchange});
  s.tensor = draw.one_of<std::int64_t>({1, 1, 2, 3});
  s.pipeline = draw.one_of<std::int64_t>({1, 1, 2, 3});
  s.schedule = s.pipeline == 1 ? Schedule::none
                               : draw.one_of({Schedule::naive, Schedule::gpipe,
                                              Schedule::one_f_one_b, Schedule::zb_v});
  if (s.schedule == Schedule::zb_v) s.virtual_stages = 2;
  s.sharding = draw.one_of({Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3});
  s.shard_group = s.sharding == Sharding::none ? 1 : s.data_ranks();
  s.grad_sync = draw.one_of({GradSync::ring, GradSync::tree, GradSync::naive_all_reduce});
  s.checkpoint =
      draw.one_of({Checkpoint::none, Checkpoint::every_k, Checkpoint::selective,
                   Checkpoint::selective_op, Checkpoint::pointwise, Checkpoint::memory_poor,
                   Checkpoint::first_k});
  s.checkpoint_every = counts_layers(s.checkpoint) ? draw.between(1, 3) : 0;
  s.micro_batch = draw.between(1, 3);
  s.grad_accum = draw.between(1, 5);
  s.sequence_parallel = s.tensor > 1 && draw.between(0, 1) > 0;
  s.overlap = draw.between(0, 3) > 0;
  s.bucket_bytes = draw.between(100, 60000);
  s.loss_chunks = draw.one_of<std::int64_t>({1, 1, 2, 3, 4});
  return s;
}

}  // namespace tests
