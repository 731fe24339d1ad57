// Schedules whose lowering differs from 1f1b's: what the checker finds sound, and what it would
// not.
#include "models/zoo.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;

TEST_CASE("both arms of the V are sound: on the same streams their messages would wait in a ring") {
  // Tied and untied embeddings; layers that keep their output, or make gradients out of place.
  for (const char* model : {"gpt2-124m", "llama2-7b", "bert-large", "uce-33l"})
    for (const std::int64_t p : {2, 4})
      for (const Sharding z : {Sharding::none, Sharding::zero1}) {
        Strategy s;
        s.pipeline = p;
        s.virtual_stages = 2;
        s.schedule = Schedule::zb_v;
        s.data = 2;
        s.sharding = z;
        s.shard_group = z == Sharding::none ? 1 : 2;
        s.grad_accum = 8;
        const models::ModelSpec spec = models::find_model(model).value();
        Job job;
        job.seq_len = spec.default_seq_len;
        job.global_batch = 16;
        s = resolve(spec, job, s);
        REQUIRE(strategy_problems(spec, job, s, s.workers()).empty());
        program::Program v = planner_test::sound_program(spec, job, s);
        for (const program::RankClass& k : v.classes)
          CHECK(program::replay(k).reserved ==
                program::replay(k, {.skip_periods = false}).reserved);
        CHECK_FALSE(v.accumulation.tied_apart);
        for (program::RankClass& k : v.classes)
          for (program::Action& a : k.actions) {
            if (a.stream == program::Stream::send_back) a.stream = program::Stream::send;
            if (a.stream == program::Stream::receive_back) a.stream = program::Stream::receive;
          }
        CHECK_FALSE(program::check(v).empty());
      }
}

TEST_CASE("the Programs of every schedule in the table are sound") {
  const models::ModelSpec spec = models::find_model("gpt2-124m").value();
  for (const ScheduleDef& def : kSchedules)
    for (const std::int64_t p : {2, 3, 4}) {
      if (def.schedule == Schedule::none) continue;
      const MicroBatches& takes = def.micro_batches;
      const std::int64_t fewest = takes.whole_groups ? p : takes.fewest(p);
      for (const std::int64_t m : {fewest, 2 * fewest, 3 * p}) {
        if (!takes.take(m, p)) continue;
        CAPTURE(def.name, p, m);
        Strategy s;
        s.pipeline = p;
        s.schedule = def.schedule;
        s.virtual_stages = def.chunks == ChunksOfRank::one ? 1 : 2;
        s.grad_accum = m;
        Job job;
        job.seq_len = spec.default_seq_len;
        job.global_batch = m;
        s = resolve(spec, job, s);
        INFO(core::to_text(strategy_problems(spec, job, s, p)));
        REQUIRE(strategy_problems(spec, job, s, p).empty());
        const program::Program program = planner_test::sound_program(spec, job, s);
        CHECK(std::ssize(program.classes) == p);
      }
    }
}
