#include "planner/strategy/pins.hpp"
#include "tests/catch.hpp"

using namespace planner;

TEST_CASE("a pin of each key admits its value and refuses another") {
  Strategy pinned;
  pinned.data = 4;
  pinned.stages = {12, 12};
  pinned.parts = {1, 2};
  pinned.offload = {"optimizer"};
  pinned.splits = {"fc*=out", "fc2=in"};
  pinned.shares = {3, 3, 3, 1};
  pinned.recompute_modules = models::set_of(models::Module::moe);
  pinned.mesh_order = {Degree::data, Degree::tensor, Degree::context, Degree::pipeline};
  for (const StrategyKey& key : strategy_keys()) {
    INFO(key.name);
    Constraints c;
    REQUIRE(c.pin(std::string(key.name) + "=" + value_text(key, pinned)).ok());
    CHECK(c.admits(pinned));
    Strategy other = pinned;
    if (key.is_list())
      put_list(key, other, list_value(key, key.name == "mesh_order" ? Strategy{} : Strategy{}));
    else
      key.put(other, key.get(pinned) == key.low ? key.low + 1 : key.low);
    CHECK_FALSE(c.admits(other));
    CHECK(c.broken(other) == key.name);
  }
}

TEST_CASE("a pin of annotations admits those that complete it, and none that leaves one out") {
  Constraints c;
  REQUIRE(c.pin("splits=fc*=out, fc2=in").ok());
  Strategy s;
  s.splits = {"fc*=out", "fc2=in", "conv=out"};
  CHECK(c.admits(s));
  s.splits = {"fc*=out", "conv=out"};
  CHECK_FALSE(c.admits(s));
  CHECK_FALSE(Constraints().pin("splits=fc1").ok());
  CHECK_FALSE(Constraints().pin("splits=fc1=column").ok());
  CHECK_FALSE(Constraints().pin("split=0").ok());
}

TEST_CASE("a forbidden value is refused and every other admitted") {
  Constraints c;
  REQUIRE(c.forbid("sharding=zero3").ok());
  Strategy s;
  CHECK(c.admits(s));
  s.sharding = Sharding::zero3;
  CHECK_FALSE(c.admits(s));
}

TEST_CASE("a pin may name several values") {
  Constraints c;
  REQUIRE(c.pin("micro_batch=8|2").ok());
  CHECK(c.pinned("micro_batch") == std::vector<std::int64_t>{2, 8});
  CHECK(c.admits("micro_batch", 2));
  CHECK_FALSE(c.admits("micro_batch", 4));
  CHECK(c.is_pinned("micro_batch"));
  CHECK_FALSE(c.is_pinned("data"));
}

TEST_CASE("bucket sizes take units") {
  Constraints c;
  REQUIRE(c.pin("bucket_bytes=25MiB").ok());
  CHECK(c.pinned("bucket_bytes") == std::vector<std::int64_t>{25 << 20});
}

TEST_CASE("wrong pins say what was expected and what is near") {
  const auto problem = [](std::string_view text) {
    Constraints c;
    const core::Status status = c.pin(text);
    REQUIRE_FALSE(status.ok());
    return core::to_text(status.problems());
  };
  CHECK_THAT(problem("shardng=zero1"), Catch::Contains("did you mean sharding?"));
  CHECK_THAT(problem("sharding=zero4"), Catch::Contains("none, zero1, zero2, zero3"));
  CHECK_THAT(problem("data=0"), Catch::Contains("an integer from 1"));
  CHECK_THAT(problem("data=-1"), Catch::Contains("\"-1\""));
  CHECK_THAT(problem("data=99999999999999999999"), Catch::Contains("an integer from 1"));
  CHECK_THAT(problem("data"), Catch::Contains("key=value"));
  CHECK_THAT(problem("bucket_bytes=25XB"), Catch::Contains("25MiB"));
  CHECK_THAT(problem("overlap=maybe"), Catch::Contains("true or false"));
  CHECK_THAT(problem("mesh_order=tensor,data"), Catch::Contains("all of"));
  CHECK_THAT(problem("stages=12,4*x"), Catch::Contains("4*30"));
  CHECK_THAT(problem("stages=1*999999999"), Catch::Contains("4*30"));
  CHECK_THAT(problem("stages=12,x"), Catch::Contains("12,12"));
  CHECK_THAT(problem("stages=-1,13"), Catch::Contains("12,12"));
  CHECK_THAT(problem("parts=0,1"), Catch::Contains("from 1"));
  Constraints ends;                    // the embeddings and the head alone
  CHECK(ends.pin("stages=0,1*12,0").ok());
}

TEST_CASE("a key pinned twice to different values is a contradiction") {
  Constraints c;
  REQUIRE(c.pin("data=4").ok());
  CHECK(c.pin("data=4").ok());
  CHECK_FALSE(c.pin("data=8").ok());
}

TEST_CASE("keys and values may have the names that papers and launchers use") {
  const auto same = [](std::string_view typed, const std::vector<std::string>& plain) {
    Constraints c;
    INFO(typed);
    REQUIRE(c.pin(typed).ok());
    std::vector<std::string> expected;
    for (const std::string& text : plain) expected.push_back("pin " + text);
    CHECK(c.texts() == expected);
  };
  same("dp=8", {"data=8"});
  same("TP=2|4", {"tensor=2|4"});
  same("pp=4", {"pipeline=4"});
  same("cp=2", {"context=2"});
  same("ep=8", {"expert=8"});
  same("mbs=1", {"micro_batch=1"});
  same("gas=16", {"grad_accum=16"});
  same("micro-batch-size=2", {"micro_batch=2"});
  same("vpp=2", {"virtual_stages=2"});
  same("sp=on", {"sequence_parallel=on"});
  same("zero=3", {"sharding=zero3"});
  same("zero=0|1", {"sharding=none|zero1"});
  same("sharding=ZeRO-2", {"sharding=zero2"});
  same("schedule=1F1B", {"schedule=1f1b"});
  same("cp_method=ulysses", {"context_method=exchange"});
  same("ac=selective", {"checkpoint=selective"});
  same("recompute=full", {"checkpoint=every_k", "checkpoint_every=1"});
  same("checkpoint=every_k(2)|none", {"checkpoint=every_k|none", "checkpoint_every=2|0"});
  same("checkpoint=first_k(3)", {"checkpoint=first_k", "checkpoint_every=3"});
  same("mesh_order=tp,cp,dp,pp", {"mesh_order=tensor,context,data,pipeline"});
}

TEST_CASE("a strategy as plans print it can be pinned, k of every_k included") {
  Strategy full;
  full.checkpoint = Checkpoint::every_k;
  full.checkpoint_every = 1;
  Strategy half = full, none;
  half.checkpoint_every = 2;
  Constraints pinned, forbidden;
  REQUIRE(pinned.pin("ac=every_k(1)|none").ok());
  CHECK((pinned.admits(full) && pinned.admits(none)));
  CHECK_FALSE(pinned.admits(half));
  REQUIRE(forbidden.forbid("ac=full").ok());
  CHECK((forbidden.admits(half) && forbidden.admits(none)));
  CHECK_FALSE(forbidden.admits(full));
}

TEST_CASE("every other name means a key, and every other value is one that its key can have") {
  for (const OtherKeyName& other : other_key_names()) {
    INFO(other.name);
    CHECK(find_strategy_key(other.name) == nullptr);
    REQUIRE(strategy_key_meant(other.name) != nullptr);
    CHECK(strategy_key_meant(other.name)->name == other.key);
  }
  for (const OtherValueName& other : other_value_names()) {
    INFO(other.key << "=" << other.name);
    REQUIRE(find_strategy_key(other.key) != nullptr);
    CHECK(value_meant(*find_strategy_key(other.key), other.name) == other.value);
    Constraints c;
    if (other.key != "mesh_order")
      CHECK(c.pin(std::string(other.key) + "=" + std::string(other.name)).ok());
  }
}

TEST_CASE("an unknown key lists the keys with their short names") {
  Constraints c;
  const core::Status status = c.pin("tensr=2");
  REQUIRE_FALSE(status.ok());
  const std::string text = core::to_text(status.problems());
  CHECK_THAT(text, Catch::Contains("data (dp), tensor (tp), pipeline (pp), context (cp)"));
  CHECK_THAT(text, Catch::Contains("did you mean tensor?"));
}
