// What finalists try beside the space: values of keys that only some plans are better for.
#include <set>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

Request request(const std::string& model, std::int64_t gpus, const std::string& gpu) {
  Request r;
  r.model = models::find_model(model).value();
  r.gpus = gpus;
  r.profile = hw_profiles::find_profile(gpu).value();
  r.max_risk = 1;                      // the fastest, whatever preference_test.cpp says of it
  r.simpler_within = 0;
  return r;
}

Candidate chosen(Request r, std::initializer_list<std::string_view> pins = {},
                 std::initializer_list<std::string_view> forbidden = {}) {
  for (std::string_view text : pins) REQUIRE(r.constraints.pin(text).ok());
  for (std::string_view text : forbidden) REQUIRE(r.constraints.forbid(text).ok());
  core::Result<Plan> plan = make_plan(r);
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  REQUIRE(plan->chosen);
  return *std::move(plan)->chosen;
}

double step_of(const Candidate& c) { return c.time.step.value(); }

}  // namespace

TEST_CASE("a pipeline in V shape is found where it idles least, and not where it is forbidden") {
  Request r = request("gpt-neox-20b", 32, "a100-pcie-80g");
  r.job.global_batch = 128;            // few micro-batches: a bubble that is worth closing
  for (std::string_view other : {"schedule=zb_h1", "schedule=zb_h2"})
    REQUIRE(r.constraints.forbid(other).ok());
  const Candidate found = chosen(r, {"pipeline=4"});
  const Candidate other = chosen(r, {"pipeline=4"}, {"schedule=zb_v"});
  INFO(to_text(found.strategy) << " against " << to_text(other.strategy));
  CHECK(found.strategy.schedule == Schedule::zb_v);
  CHECK(other.strategy.schedule != Schedule::zb_v);
  CHECK(step_of(found) < 0.95 * step_of(other));
  // What decides is the idle time.
  CHECK(chosen(r, {"pipeline=4", "schedule=1f1b"}).strategy.schedule == Schedule::one_f_one_b);
}

TEST_CASE("layers of a V are divided so that the rank with both ends of the model has fewer") {
  const Request r = request("gpt2-1.5b", 8, "rtx3090");
  const auto pinned = [&](std::string_view stages) {
    return chosen(r, {"schedule=zb_v", "pipeline=2", "micro_batch=4", "sharding=zero1",
                      "checkpoint=none", stages});
  };
  const Candidate own = pinned("stages=auto");
  // The head's 80 M weights are as much work as 2.6 of the layers, so rank 0 gets 1.3 below the
  // mean: 23 of 48, in two halves.
  CHECK(own.strategy.stages == std::vector<std::int64_t>{12, 13, 12, 11});
  CHECK(step_of(own) < 0.97 * step_of(pinned("stages=12,12,12,12")));
}

TEST_CASE("the loss is taken in chunks where that leaves memory for what is faster") {
  // LoRA on 24,576 tokens: with all logits at once a layer's output is all that can be kept.
  Request r = request("llama3-8b", 1, "rtx3090");
  r.profile.node.host_memory = core::gib(512);  // it is the GPU's memory that is short
  r.job.mode = Mode::finetune;
  r.job.lora_rank = 16;
  r.job.seq_len = 24'576;
  r.job.global_batch = 16;
  const Candidate found = chosen(r), whole = chosen(r, {}, {"loss_chunks=8"});
  INFO(to_text(found.strategy) << " against " << to_text(whole.strategy));
  CHECK(found.strategy.loss_chunks == 8);
  CHECK(whole.strategy.loss_chunks == 1);
  CHECK(step_of(found) < 0.9 * step_of(whole));
  // Not where it saves nothing, nor for a framework that takes the loss whole.
  CHECK(chosen(request("gpt2-1.5b", 8, "rtx3090")).strategy.loss_chunks == 1);
  REQUIRE(hw_profiles::use_framework(r.profile, "fsdp2", "test").ok());
  const core::Result<Plan> other = make_plan(r);
  REQUIRE(other.ok());
  CHECK((!other->chosen || other->chosen->strategy.loss_chunks == 1));
}

TEST_CASE("where the logits are what does not fit, the loss is taken in chunks before hosts help") {
  // Four narrow layers under a vocabulary of 128,256: logits of a sample take 5.9 GiB of 10.
  Request r = request("llama3-8b", 1, "rtx3080");
  r.model.layers = 4;
  r.model.hidden = 1024;
  r.model.ffn_hidden = 3584;
  r.model.heads = 16;
  r.model.kv_heads = 4;
  r.model.head_dim = 64;
  r.job.seq_len = 24'576;
  r.job.global_batch = 8;
  const Candidate found = chosen(r);
  INFO(to_text(found.strategy));
  CHECK(found.strategy.loss_chunks == 8);
  CHECK(found.strategy.offload.empty());
  REQUIRE(r.constraints.forbid("loss_chunks=8").ok());
  r.hosts = false;
  const core::Result<Plan> without = make_plan(r);
  REQUIRE(without.ok());
  CHECK_FALSE(without->chosen);
}

TEST_CASE("each way in which keys meet is evaluated on a graph of its own") {
  Request r = request("gpt2-124m", 4, "a100-sxm-80g");
  r.job.seq_len = 1024;
  r.job.global_batch = 4;
  Explorer explorer({make_question(r.model, r.job, r.profile, r.gpus).value()}, r.max_risk);
  const auto collectives = [&](ContextMethod method) {
    Strategy s;
    s.context = 4;
    s.grad_accum = 4;
    s.context_method = method;
    std::set<std::string> found;
    for (const CommunicationEntry& e : explorer.candidate(explorer.resolved(s)).communication)
      if (e.what == "context") found.insert(e.collective);
    return found;
  };
  using Names = std::set<std::string>;
  CHECK(collectives(ContextMethod::gather) == Names{"all_gather", "reduce_scatter"});
  CHECK(collectives(ContextMethod::exchange) == Names{"exchange"});
  CHECK(collectives(ContextMethod::ring) == Names{"send"});
}

TEST_CASE("what is explored does not depend on the number of threads") {
  for (const auto& [model, gpus] : {std::pair{"alexnet", 8}, {"mixtral-8x7b", 64}}) {
    INFO(model);
    Request r = request(model, gpus, "a100-sxm-80g");
    r.job.seq_len = models::is_transformer(r.model.family) ? 4096 : 1;
    r.job.global_batch = 512;
    const Question q = make_question(r.model, r.job, r.profile, r.gpus).value();
    REQUIRE(r.constraints.forbid("pipeline=4").ok());
    const auto space = structures(q.job, {gpus, 8, layers_of(q.model),
                                          models::expert_divisor(q.model)}, r.constraints);
    Explorer alone({q}, r.max_risk, 1), shared({q}, r.max_risk, 5);
    for (Explorer* explorer : {&alone, &shared}) explorer->explore(space, r.constraints);
    const auto told = [](const Explorer& e) {
      std::vector<std::tuple<std::uint32_t, std::int64_t, std::int64_t, double>> found;
      for (const Entry& one : e.entries(0))
        found.emplace_back(one.structure, one.micro_batch, one.device.value(), one.step.value());
      return found;
    };
    const auto missed = [](const Explorer& e) {
      std::vector<std::tuple<std::uint32_t, std::int64_t, std::string, std::string>> found;
      for (const Miss& one : e.misses())
        found.emplace_back(one.structure, one.micro_batch, one.limit, one.fix);
      return found;
    };
    CHECK(alone.entries(0).size() > 100);
    CHECK(alone.misses().size() > 1);
    CHECK(told(alone) == told(shared));
    CHECK(missed(alone) == missed(shared));
    CHECK(alone.per_limit() == shared.per_limit());
    CHECK(alone.counts().enumerated == shared.counts().enumerated);
    CHECK(alone.counts().infeasible == shared.counts().infeasible);
    CHECK(alone.counts().evaluated == shared.counts().evaluated);
    for (std::size_t i = 0; i < alone.entries(0).size(); i += 97)
      CHECK(alone.strategy(alone.entries(0)[i]) == shared.strategy(shared.entries(0)[i]));
  }
}

TEST_CASE("what a checkpoint makes its kernels keep does not depend on what was asked before") {
  // Products in 8 bits keep codes of their inputs, but not where layers make those again.
  Request r = request("llama3-8b", 8, "h100-sxm-80g");
  REQUIRE(hw_profiles::use_framework(r.profile, "megatron_core", "test").ok());
  r.job.precision = core::DType::f8;
  r.job.seq_len = 2048;
  r.job.global_batch = 8;
  const core::Result<Question> question = make_question(r.model, r.job, r.profile, r.gpus);
  INFO(core::to_text(question.ok() ? core::Problems{} : question.problems()));
  REQUIRE(question.ok());
  const auto measured = [&](std::initializer_list<Checkpoint> asked) {
    Explorer explorer({*question}, r.max_risk);
    core::Bytes last{};
    for (const Checkpoint c : asked) {
      Strategy s;
      s.data = 8;
      s.sharding = Sharding::zero1;
      s.shard_group = 8;
      s.checkpoint = c;
      last = explorer.candidate(explorer.resolved(s)).memory.worst.device;
    }
    return last;
  };
  const core::Bytes alone = measured({Checkpoint::pointwise});
  CHECK(measured({Checkpoint::none, Checkpoint::pointwise}) == alone);
  CHECK(measured({Checkpoint::pointwise, Checkpoint::none}) == measured({Checkpoint::none}));
}

TEST_CASE("a pinned ring is searched in closed form, at the degrees that the space has") {
  Request r = request("llama3.1-405b", 16'384, "h100-sxm-80g");
  r.job.seq_len = 131'072;
  r.job.global_batch = 128;
  const core::Result<Plan> free = make_plan(r);
  REQUIRE(r.constraints.pin("context_method=ring").ok());
  const core::Result<Plan> ring = make_plan(r);
  REQUIRE((free.ok() && ring.ok() && free->chosen && ring->chosen));
  CHECK(ring->chosen->strategy.context_method == ContextMethod::ring);
  CHECK(step_of(*ring->chosen) <= 1.001 * step_of(*free->chosen));
}

TEST_CASE("what fits is evaluated alike, and what does not is given up") {
  const models::ModelSpec model = models::find_model("gpt2-1.5b").value();
  hw_profiles::Profile profile = hw_profiles::find_profile("rtx3090").value();
  Job job;
  job.seq_len = 1024;
  job.global_batch = 64;
  job.recipe = "mixed";
  for (const char* framework : {"native", "megatron"}) {
    REQUIRE(hw_profiles::use_framework(profile, framework, "test").ok());
    const Question q = make_question(model, job, profile, 4).value();
    Strategy s;
    s.pipeline = 4;
    s.schedule = Schedule::one_f_one_b;
    s.checkpoint = Checkpoint::selective;
    s.grad_accum = 64;
    s = resolve(model, job, s);
    const auto graph =
        models::build_graph(model, graph_options(job, s, profile.framework)).value();
    const Candidate whole = evaluate(q, graph, s);
    const core::Seconds any(1e9);
    const auto fitting = evaluate_fitting(q, graph, s, any);
    REQUIRE(fitting);
    CHECK(fitting->memory.worst.reserved == whole.memory.worst.reserved);
    CHECK(fitting->memory.rank == whole.memory.rank);
    CHECK(fitting->time.step.value() == whole.time.step.value());
    CHECK(!evaluate_fitting(q, graph, s, 0.99 * whole.time.step));
    // One byte short of what the allocator takes, and of what lives.
    for (const core::Bytes device : {whole.memory.worst.device, whole.memory.worst.live}) {
      Question tight = q;
      tight.profile.gpu.usable = device - core::Bytes(1);
      CHECK(!evaluate_fitting(tight, graph, s, any));
      tight.profile.gpu.usable = whole.memory.worst.device;
      CHECK(evaluate_fitting(tight, graph, s, any));
    }
  }
}

TEST_CASE("a framework that hides no transfers is planned without overlap, unless one is pinned") {
  const auto overlap = [](const char* framework, std::int64_t lora_rank,
                          std::initializer_list<std::string_view> pins = {}) {
    Request r = request("llama2-7b", 8, "h100-sxm-80g");
    r.job.seq_len = 2048;
    r.job.global_batch = 64;
    r.job.framework = framework;
    r.job.lora_rank = lora_rank;
    REQUIRE(hw_profiles::use_framework(r.profile, framework, "test").ok());
    return chosen(std::move(r), pins).strategy.overlap;
  };
  CHECK(overlap("megatron", 0));
  CHECK_FALSE(overlap("megatron_deepspeed", 0));
  CHECK(overlap("megatron_deepspeed", 0, {"overlap=true"}));
  CHECK_FALSE(overlap("fsdp1", 8));
}

TEST_CASE("memory that was estimated for a choice is settled before it is printed") {
  const auto profile = hw_profiles::find_profile("rtx3090").value();
  const auto model = models::find_model("gpt2-124m").value();
  Job job;
  job.seq_len = 256;
  job.global_batch = 400;
  job.recipe = "mixed";
  const Question q = make_question(model, job, profile, 4).value();
  Strategy s;
  s.pipeline = 4;
  s.schedule = Schedule::zb_h2;        // its rounds come back to no state for hundreds
  s.grad_accum = 400;
  s = resolve(model, job, s);
  const auto graph = models::build_graph(model, graph_options(job, s, profile.framework)).value();
  const Candidate whole = evaluate(q, graph, s);
  const core::Seconds any(1e9);
  const auto estimated = evaluate_fitting(q, graph, s, any, true);
  REQUIRE(estimated);
  CHECK(estimated->memory.estimated);
  CHECK(estimated->memory.worst.live == whole.memory.worst.live);
  CHECK(estimated->memory.worst.reserved < whole.memory.worst.reserved);
  const auto exact = settled(q, graph, *estimated);
  REQUIRE(exact);
  CHECK_FALSE(exact->memory.estimated);
  CHECK(exact->memory.worst.reserved == whole.memory.worst.reserved);
  CHECK(exact->uncertainty.out_of_memory == whole.uncertainty.out_of_memory);
  Question tight = q;
  tight.profile.gpu.usable = whole.memory.worst.device - core::Bytes(1);
  CHECK_FALSE(settled(tight, graph, *estimated));
  // Where no exact one of those that were estimated fits, the others are asked.
  Request r;
  r.model = model;
  r.job = job;
  r.gpus = 4;
  r.profile = profile;
  r.gpu_given = true;
  for (const char* pin : {"pipeline=4", "schedule=zb_h2", "micro_batch=1", "checkpoint=none"})
    REQUIRE(r.constraints.pin(pin).ok());
  r.profile.gpu.usable = whole.memory.worst.device - core::Bytes(1);
  const Plan plan = make_plan(r).value();
  if (plan.chosen) CHECK(plan.chosen->memory.worst.device <= r.profile.gpu.usable);
  if (plan.chosen) CHECK_FALSE(plan.chosen->memory.estimated);
}
