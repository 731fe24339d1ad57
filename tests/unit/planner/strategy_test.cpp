#include "planner/strategy/strategy.hpp"
#include "tests/catch.hpp"

using namespace planner;

TEST_CASE("every name of a strategy's enumerations reads back as itself") {
  for (int i = 0; i <= static_cast<int>(Schedule::pipedream_2bw); ++i)
    CHECK(schedule_from_name(name(static_cast<Schedule>(i))) == static_cast<Schedule>(i));
  for (int i = 0; i <= static_cast<int>(Sharding::zero3); ++i)
    CHECK(sharding_from_name(name(static_cast<Sharding>(i))) == static_cast<Sharding>(i));
  for (int i = 0; i <= static_cast<int>(Checkpoint::memory_poor); ++i)
    CHECK(checkpoint_from_name(name(static_cast<Checkpoint>(i))) == static_cast<Checkpoint>(i));
  for (int i = 0; i <= static_cast<int>(GradSync::parameter_server); ++i)
    CHECK(grad_sync_from_name(name(static_cast<GradSync>(i))) == static_cast<GradSync>(i));
  CHECK(server_mode_from_name("async") == ServerMode::async);
  CHECK(name(Schedule::one_f_one_b) == "1f1b");
  CHECK(name(GradSync::automatic) == "auto");
  CHECK_FALSE(sharding_from_name("zero4"));
}

TEST_CASE("a strategy's text names what differs from plain data parallelism") {
  Strategy s;
  s.data = 4;
  s.tensor = 2;
  s.sharding = Sharding::zero1;
  s.shard_group = 4;
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = 1;
  s.micro_batch = 8;
  CHECK(to_text(s) == "data=4 tensor=2 zero1 every_k(1) micro_batch=8");
  s.sharding = Sharding::zero3;
  s.shard_group = 2;
  CHECK(to_text(s) == "data=4 tensor=2 zero3 shard_group=2 every_k(1) micro_batch=8");
  s.loss_chunks = 4;
  CHECK(to_text(s) == "data=4 tensor=2 zero3 shard_group=2 every_k(1) micro_batch=8 loss_chunks=4");
  Strategy sliced;
  sliced.context = 2;
  CHECK(to_text(sliced) == "data=1 context=2 micro_batch=1");
  sliced.context_method = ContextMethod::ring;
  CHECK(to_text(sliced) == "data=1 context=2 context_method=ring micro_batch=1");
}
