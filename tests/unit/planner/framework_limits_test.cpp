// Plans for a framework are of what it runs.
#include <algorithm>

#include "planner/lowering/lower.hpp"
#include "planner/search/framework_limits.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::pinned_plan;
using planner_test::question;

namespace {

Request asked_of(const std::string& framework, const std::string& model = "llama2-13b",
                 const std::string& gpu = "a100-sxm-80g") {
  Request r = question(model, 16, gpu);
  planner_test::use_framework(r, framework);
  r.job.seq_len = 2048;
  r.job.global_batch = 64;
  r.gpu_given = true;
  return r;
}

bool says(const Plan& plan, std::string_view text) {
  return std::ranges::any_of(plan.assumptions, [&](const std::string& a) {
    return a.find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a limit holds where its key is not pinned, and a pin beyond it is named") {
  Constraints c;
  REQUIRE(c.limit("sharding=none|zero1").ok());
  REQUIRE(c.limit("tensor=1").ok());
  Strategy s;
  CHECK(c.admits(s));
  CHECK_FALSE(c.empty());
  CHECK_FALSE(c.is_pinned("tensor"));
  CHECK(c.texts().empty());
  s.sharding = Sharding::zero3;
  CHECK_FALSE(c.admits(s));
  CHECK_FALSE(c.is_within_limits(s));
  CHECK_FALSE(c.admits("tensor", 2));
  CHECK(c.beyond_limits().empty());
  REQUIRE(c.pin("sharding=zero3").ok());
  CHECK(c.admits(s));
  CHECK_FALSE(c.is_within_limits(s));
  CHECK(c.beyond_limits() == std::vector<std::string_view>{"sharding"});
  REQUIRE(c.pin("tensor=1").ok());
  CHECK(c.beyond_limits() == std::vector<std::string_view>{"sharding"});
  CHECK(c.limit("sharding=zero4").problems().at(0).where == "framework.runs sharding=zero4");
}

TEST_CASE("a limit may hold for strategies that have a value of another key alone") {
  Constraints c;
  REQUIRE(c.limit("sharding where offload=optimizer", "zero1").ok());
  REQUIRE(c.limit("sharding where offload=optimizer", "zero1").ok());  // said twice
  Strategy s;
  s.data = 4;
  CHECK(c.admits(s));
  s.offload = {"optimizer"};
  CHECK(c.broken(s) == "sharding");
  CHECK_FALSE(c.is_within_limits(s));
  s.sharding = Sharding::zero1;
  CHECK(c.admits(s));
  s.sharding = Sharding::none;
  s.data = 1;                          // nothing to shard
  CHECK(c.admits(s));
  s.data = 4;
  CHECK(c.beyond_limits().empty());
  REQUIRE(c.pin("sharding=none").ok());
  CHECK(c.admits(s));
  CHECK(c.beyond_limits().empty());
  REQUIRE(c.pin("offload=optimizer").ok());
  CHECK(c.beyond_limits() == std::vector<std::string_view>{"sharding"});
  CHECK_FALSE(c.limit("sharding where nothing=1", "zero1").ok());
}

TEST_CASE("a limit may hold for strategies that have more than a number of another key") {
  Constraints c;
  REQUIRE(c.limit("sharding where tensor>1", "zero2|zero3").ok());
  Strategy s;
  s.data = 4;
  CHECK(c.admits(s));
  s.tensor = 2;
  CHECK(c.broken(s) == "sharding");
  s.sharding = Sharding::zero2;
  CHECK(c.admits(s));
  REQUIRE(c.pin("sharding=none").ok());
  CHECK(c.beyond_limits().empty());
  REQUIRE(c.pin("tensor=1|4").ok());
  CHECK(c.beyond_limits() == std::vector<std::string_view>{"sharding"});
  CHECK_FALSE(c.limit("sharding where tensor>many", "zero2").ok());
}

TEST_CASE("a limit may hold for models and jobs of a kind alone, and a pin needs no word of it") {
  const auto limits_of = [](const Request& r) { return within_framework(r)->constraints; };
  CHECK(limits_of(asked_of("fsdp2", "llama3-8b")).admits("tensor", 2));
  Request mixtral = asked_of("fsdp2", "mixtral-8x7b");
  CHECK_FALSE(limits_of(mixtral).admits("tensor", 2));
  CHECK_FALSE(limits_of(mixtral).admits("expert", 8));
  CHECK(says(pinned_plan(mixtral), "divides the layers of Llama 3 alone"));
  const Plan pinned = pinned_plan(mixtral, {"tensor=2"});
  REQUIRE(pinned.chosen);
  CHECK(pinned.chosen->strategy.tensor == 2);
  CHECK_FALSE(says(pinned, "does not run"));

  Strategy s;
  s.data = 16;
  Request trainer = asked_of("trainer");
  CHECK(limits_of(trainer).broken(s) == "sharding");
  trainer.job.lora_rank = 8;
  CHECK(limits_of(trainer).admits(s));
  trainer.job.lora_rank = 0;
  trainer.job.recipe = "pure_bf16";
  CHECK(limits_of(trainer).admits(s));
}

TEST_CASE("every plan for a framework is of what it runs: choice, alternatives, frontier, fixes") {
  for (const std::string& framework : hw_profiles::framework_names())
    for (const char* gpu : {"a100-sxm-80g", "rtx3090"}) {
      CAPTURE(framework, gpu);
      const Request r = asked_of(framework, "llama2-7b", gpu);
      for (const auto& runs : r.profile.framework.runs) CHECK_FALSE(runs.source.empty());
      const core::Result<Request> within = within_framework(r);
      REQUIRE(within.ok());
      const Constraints& limits = within->constraints;
      const Plan plan = pinned_plan(r);
      std::vector<Candidate> all = plan.alternatives;
      if (plan.chosen) all.push_back(*plan.chosen);
      all.insert(all.end(), plan.pareto.begin(), plan.pareto.end());
      for (const Candidate& c : all) {
        INFO(to_text(c.strategy));
        CHECK(limits.admits(c.strategy));
      }
      for (const Rejection& rejection : plan.rejected) {
        INFO(rejection.fix);
        if (framework == "llmc") CHECK(rejection.fix.find("zero3") == std::string::npos);
        if (framework == "llmc") CHECK(rejection.fix.find("offload") == std::string::npos);
      }
    }
}

TEST_CASE("Megatron's plans shard the optimizer alone, torch's wrappers divide no products") {
  const Strategy megatron = pinned_plan(asked_of("megatron")).chosen->strategy;
  CHECK(megatron.sharding <= Sharding::zero1);
  const Strategy wrapped = pinned_plan(asked_of("fsdp1")).chosen->strategy;
  CHECK(wrapped.data == 16);
  // Our own executor runs all of it.
  CHECK(asked_of("native").profile.framework.runs.empty());
}

TEST_CASE("around models of transformers a loss in pieces is Liger's, for those that it changes") {
  Request r = asked_of("trainer", "qwen2.5-7b", "rtx4090");
  r.gpus = 1;
  r.job.lora_rank = 16;
  r.job.lora_targets = {"q", "k", "v", "o"};
  r.job.mode = Mode::finetune;
  r.job.seq_len = 8192;
  const Plan plan = pinned_plan(r, {"offload=none"});
  REQUIRE(plan.chosen);
  CHECK(plan.chosen->strategy.loss_chunks > 1);
  CHECK_FALSE(pinned_plan(r, {"offload=none", "loss_chunks=1"}).chosen);
  const Request gpt = *within_framework(asked_of("trainer", "gpt2-1.5b"));
  Strategy s;
  CHECK(gpt.constraints.is_within_limits(s));
  s.loss_chunks = 8;
  CHECK_FALSE(gpt.constraints.is_within_limits(s));
  CHECK(within_framework(asked_of("trainer"))->constraints.is_within_limits(s));
  // torchtitan's releases take the loss of Llama's layers whole; accelerate runs other models.
  CHECK_FALSE(within_framework(asked_of("fsdp2"))->constraints.is_within_limits(s));
  CHECK(within_framework(asked_of("fsdp2", "qwen2.5-7b"))->constraints.is_within_limits(s));
}

TEST_CASE("what is pinned beyond a framework is predicted as if it ran it, and said") {
  const Plan plan = pinned_plan(asked_of("megatron"), {"sharding=zero3"});
  REQUIRE(plan.chosen);
  CHECK(plan.chosen->strategy.sharding == Sharding::zero3);
  CHECK(says(plan, "framework megatron does not run what is pinned of sharding"));
  CHECK_FALSE(says(pinned_plan(asked_of("megatron"), {"sharding=zero1"}), "does not run"));
  // A pipeline without a schedule: nothing is left, and both sides are named.
  const Plan none = pinned_plan(asked_of("fsdp1"), {"pipeline=2"});
  CHECK_FALSE(none.chosen);
  REQUIRE_FALSE(none.rejected.empty());
  CHECK(none.rejected[0].fix.find("pin pipeline=2 and what framework fsdp1 runs") !=
        std::string::npos);
}

// deepspeed/runtime/bf16_optimizer.py is the optimizer of stage 1; 13.0 G parameters in f32: 52 GB.
TEST_CASE("DeepSpeed keeps wide gradients of all parameters where it shards no gradients alone") {
  Request r = asked_of("deepspeed", "llama2-13b", "h200-sxm-141g");
  const auto gradients = [&](const char* sharding) {
    const Plan plan = pinned_plan(r, {sharding, "offload=none", "checkpoint=every_k"});
    REQUIRE(plan.chosen);
    const Candidate& c = *plan.chosen;
    return static_cast<double>(
        c.memory.worst.terms[static_cast<std::size_t>(program::Term::gradients)].value());
  };
  CHECK(gradients("sharding=zero1") > 4.0 * 13.0e9);
  CHECK(gradients("sharding=zero2") < 10e9);
  CHECK(gradients("sharding=zero3") < 10e9);
  const Plan large = pinned_plan([] {
    Request q = question("llama2-70b", 256, "h100-sxm-80g");
    REQUIRE(hw_profiles::use_framework(q.profile, "deepspeed", "test").ok());
    q.job.framework = "deepspeed";
    q.gpu_given = true;
    return q;
  }());
  REQUIRE(large.chosen);
  CHECK(large.chosen->strategy.sharding == Sharding::zero3);
  CHECK(large.chosen->strategy.offload.empty());
}

TEST_CASE("Megatron gathers weights in 8 bits with its distributed optimizer alone") {
  for (const bool gathers : {false, true}) {
    Request r = asked_of("megatron_core", "llama3-8b", "h100-sxm-80g");
    r.job.precision = core::DType::f8;
    if (gathers) r.job.fp8_tensors = {"params"};
    const auto within = within_framework(r);
    REQUIRE(within.ok());
    Strategy s;
    s.data = 2;
    CHECK(within->constraints.admits(s) != gathers);
    s.sharding = Sharding::zero1;
    CHECK(within->constraints.admits(s));
  }
}

TEST_CASE("a plan for our own executor names what that has no kernels for on GPUs") {
  const auto missing = [](const Request& r, std::initializer_list<std::string_view> pins = {}) {
    const Plan plan = pinned_plan(r, pins);
    REQUIRE(plan.chosen);
    for (const std::string& text : plan.assumptions)
      if (text.starts_with(kNoKernels)) return text;
    return std::string();
  };
  CHECK(missing(question("gpt2-124m", 2, "h100-sxm-80g")).empty());
  CHECK(missing(question("llama3-8b", 8, "h100-sxm-80g")).empty());
  const Request mixture = question("mixtral-8x7b", 16, "h100-sxm-80g");
  CHECK(missing(mixture, {"context=1"}).empty());
  CHECK(missing(mixture, {"context=2"}).empty());
  // Its library attends to whole rows of some heads.
  CHECK(pinned_plan(mixture, {"context=2"}).chosen->strategy.context_method ==
        ContextMethod::exchange);
  CHECK(says(pinned_plan(mixture, {"context=2"}), "context parallelism of framework native has not "
                                                  "run on a GPU yet"));
  CHECK(missing(question("gemma-2-9b", 8, "h100-sxm-80g")).empty());
  const std::string images = missing(question("alexnet", 2, "h100-sxm-80g"));
  CHECK(images.find("conv1.a, norm1.a, pool1.a and") != std::string::npos);
  CHECK(missing(question("alexnet", 2, "host")).empty());
  Request narrow = question("gpt2-124m", 2, "h100-sxm-80g");
  narrow.job.precision = core::DType::f8;
  CHECK(missing(narrow).empty());
  CHECK(says(pinned_plan(narrow), "have not run on a GPU yet"));
  Request rows = narrow;
  rows.job.fp8_scaling = "rowwise";
  CHECK(missing(rows).find("for products in 8 bits with --fp8-scaling rowwise on GPUs") !=
        std::string::npos);
  Request experts = mixture;
  experts.job.precision = core::DType::f8;
  CHECK(missing(experts, {"context=1"}).find("for products of experts in 8 bits on GPUs") !=
        std::string::npos);
  CHECK(says(pinned_plan(narrow, {"micro_batch=4"}), "micro-batches casts the weights to 8 bits"));
  narrow.job.fp8_tensors = {"params"};
  CHECK_FALSE(says(pinned_plan(narrow, {"micro_batch=4"}), "casts the weights to 8 bits"));
  CHECK(missing(asked_of("megatron_core", "mixtral-8x7b", "h100-sxm-80g")).empty());
}

TEST_CASE("a plan in nvfp4 says what it takes for granted, and how far published runs were off") {
  Request four = asked_of("megatron_core", "llama3-8b", "gb200-186g");
  CHECK_FALSE(says(pinned_plan(four), "in 4 bits"));
  four.job.precision = core::DType::f4;
  const Plan plan = pinned_plan(four);
  CHECK(says(plan, "products of all layers are in 4 bits"));
  CHECK(says(plan, "took 9 % less to 24 % more than predicted"));
}
