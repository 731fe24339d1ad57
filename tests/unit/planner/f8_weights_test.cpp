// Weights that are gathered in 8 bits (fp8_tensors: params): what is stored, cast and gathered, by
// hand; which jobs and strategies cannot.
#include "planner/stage/f8_weights.hpp"

#include <algorithm>

#include "hw_profiles/load.hpp"
#include "planner/strategy/job_check.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using namespace planner_test;
using program::ActionKind;

namespace f8_weights_test {
namespace {

// GPT-2 124M: four matrices of each layer are read in 8 bits; biases, norms and embeddings are not.
constexpr std::int64_t kLayers = 12, kHidden = 768;
constexpr std::int64_t kMatrices = 12 * kHidden * kHidden;          // 3 + 1 + 4 + 4
constexpr std::int64_t kOthers = 9 * kHidden + 4 * kHidden;         // biases, two norms
constexpr std::int64_t kEnds = (50257 + 1024) * kHidden + 2 * kHidden;
constexpr std::int64_t kF8 = kLayers * kMatrices, kRest = kLayers * kOthers + kEnds;

Job f8_job(const char* recipe = "mixed", std::vector<std::string> tensors = {"params"}) {
  Job job = job_of(8);
  job.recipe = recipe;
  job.precision = core::DType::f8;
  job.fp8_tensors = std::move(tensors);
  return job;
}

Strategy sharded(Sharding sharding, std::int64_t data = 4) {
  Strategy s;
  s.data = data;
  s.grad_accum = 8 / data;
  s.sharding = sharding;
  s.shard_group = sharding == Sharding::none ? 1 : data;
  return s;
}

const program::Buffer* buffer(const program::Program& p, std::string_view name) {
  for (const program::Buffer& b : p.classes.front().buffers)
    if (b.name == name) return &b;
  return nullptr;
}
std::int64_t elements(const program::Program& p, std::string_view name) {
  const program::Buffer* const b = buffer(p, name);
  return b == nullptr ? 0 : b->elements.front();
}

std::int64_t gathered(const program::Program& p) {
  std::int64_t bytes = 0;
  for (const program::TrafficEntry& e : program::traffic(p))
    if (e.what == program::Traffic::parameters && e.collective == "all_gather")
      bytes += e.payload.value();
  return bytes;
}

// Actions of a kind that write a buffer.
int writers(const program::Program& p, ActionKind kind, std::string_view name) {
  const program::RankClass& k = p.classes.front();
  return static_cast<int>(std::ranges::count_if(k.actions, [&](const program::Action& a) {
    return a.kind == kind && k.buffers[k.views[a.first_arg + a.arg_count - 1u].buffer].name == name;
  }));
}

std::string refusal(const Job& job, const char* framework = "native") {
  hw_profiles::Profile profile = hw_profiles::find_profile("h100-sxm-80g").value();
  REQUIRE(hw_profiles::use_framework(profile, framework, "test").ok());
  return core::to_text(job_problems(job, profile));
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("updates cast the master copy to codes, which are gathered in a byte each") {
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2}) {
    const program::Program p = sound(f8_job(), sharded(sharding), "gpt2-124m");
    CHECK(elements(p, "weights.f8") == kF8);
    CHECK(buffer(p, "weights.f8")->type == core::DType::f8);
    CHECK(elements(p, "weights") == kRest);
    CHECK(buffer(p, "weights")->type == core::DType::bf16);
    CHECK(elements(p, "weights.f8.other_order") == 0);
    CHECK(elements(p, "optimizer.master") == (kF8 + kRest) / 4);  // every span divides by 4
    CHECK(gathered(p) == kF8 + 2 * kRest);
    CHECK(writers(p, ActionKind::cast, "weights.f8") == 1);  // in the block of their spans
    CHECK(gathered(sound(f8_job("mixed", {}), sharded(sharding), "gpt2-124m")) ==
          2 * (kF8 + kRest));
  }
}

TEST_CASE("the update of codes writes their master copy and its moments alone") {
  const program::Program p = sound(f8_job(), sharded(Sharding::zero1), "gpt2-124m");
  const program::RankClass& k = p.classes.front();
  int alone = 0;
  for (const program::Action& a : k.actions) {
    if (a.kind != ActionKind::optimizer || (a.flags & program::kMasterAlone) == 0) continue;
    ++alone;
    CHECK(k.buffers[k.views[a.first_arg].buffer].name == "optimizer.master");
    CHECK(a.arg_count == 4);           // master, gradient, two moments
  }
  CHECK(alone == 1);
}

TEST_CASE("one rank stores codes, too, and gathers nothing") {
  const program::Program p = sound(f8_job(), sharded(Sharding::none, 1), "gpt2-124m");
  CHECK(elements(p, "weights.f8") == kF8);
  CHECK(elements(p, "weights") == kRest);
  CHECK(gathered(p) == 0);
}

TEST_CASE("shards of codes are gathered before each use, or cast where there is no master copy") {
  const program::Program p = sound(f8_job(), sharded(Sharding::zero3), "gpt2-124m");
  CHECK(elements(p, "weights.f8") == kF8 / 4);
  CHECK(elements(p, "weights") == kRest / 4);
  CHECK(writers(p, ActionKind::cast, "unit.weights.f8") == 0);
  const program::Program f32 = sound(f8_job("fsdp2"), sharded(Sharding::zero3), "gpt2-124m");
  CHECK(elements(f32, "weights.f8") == 0);
  CHECK(elements(f32, "weights") == (kF8 + kRest) / 4);
  CHECK(buffer(f32, "weights")->type == core::DType::f32);
  CHECK(writers(f32, ActionKind::cast, "unit.weights.f8") == 1);
  // A layer is gathered forward and backward, of both micro-batches: so are its codes, in half the
  // bytes.
  for (const char* recipe : {"mixed", "fsdp2"}) {
    const std::int64_t narrow = gathered(sound(f8_job(recipe), sharded(Sharding::zero3),
                                               "gpt2-124m"));
    const std::int64_t wide = gathered(sound(f8_job(recipe, {}), sharded(Sharding::zero3),
                                             "gpt2-124m"));
    CHECK(wide - narrow == 2 * 2 * kF8);
  }
}

TEST_CASE("a framework may keep whole codes in both orders") {
  hw_profiles::Framework framework;
  framework.f8_weight_orders = 2;
  const auto orders = [&](Sharding sharding) {
    const Job job = f8_job("megatron");
    return elements(sound(job, sharded(sharding), "gpt2-124m", framework),
                    "weights.f8.other_order");
  };
  CHECK(orders(Sharding::zero1) == kF8);
  CHECK(orders(Sharding::zero3) == 0);  // a shard is one order's
}

TEST_CASE("experts, tensor ranks, pipelines and recomputation leave Programs with codes sound") {
  const auto sharding = GENERATE(Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3);
  const bool overlap = GENERATE(true, false);
  Strategy s = sharded(sharding);
  s.overlap = overlap;
  s.bucket_bytes = 40'000'000;
  const Job job = f8_job();
  s.expert = 2;
  sound(job, s, "mixtral-8x7b");
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = 2;
  sound(job, s, "deepseek-v2-lite");
  s.expert = 1;
  s.tensor = 2;
  s.sequence_parallel = true;
  s.pipeline = 2;
  s.schedule = Schedule::one_f_one_b;
  sound(job, s, "llama3-8b");
  s.schedule = Schedule::interleaved;
  s.virtual_stages = 2;
  sound(job, s, "gpt2-355m");
  if (sharding > Sharding::zero1) return;
  s.checkpoint = Checkpoint::none;
  s.checkpoint_every = 0;
  s.schedule = Schedule::zb_h1;
  s.virtual_stages = 1;
  sound(job, s, "llama3-8b");
}

TEST_CASE("routers, gates and what tensor ranks store alike stay in 16 bits") {
  const models::ModelSpec mixture = zoo("mixtral-8x7b");
  const Strategy s = resolve(mixture, f8_job(), sharded(Sharding::zero1));
  const auto graph = models::build_graph(mixture, graph_options(f8_job(), s, {})).value();
  const models::Segment& layer = graph.templates.front();
  const std::vector<bool> f8 = stage::read_in_f8(layer);
  for (std::size_t p = 0; p < f8.size(); ++p) {
    const std::string& name = layer.parameters[p].name;
    INFO(name);
    CHECK(f8[p] == (name.starts_with("attn.") || name.starts_with("moe.gate_up") ||
                    name.starts_with("moe.proj")));
  }
}

TEST_CASE("weights in 8 bits are refused by name where they make no sense") {
  Job job = f8_job();
  CHECK(refusal(job).empty());
  CHECK(refusal(job, "megatron_core").empty());
  CHECK(has(refusal(job, "deepspeed"), "a framework that gathers weights in 8 bits"));
  for (const char* scaling : {"rowwise", "mxfp8"}) {
    job.fp8_scaling = scaling;
    CHECK(has(refusal(job), "params with --fp8-scaling tensorwise, delayed or blockwise"));
  }
  job.fp8_scaling = "blockwise";
  CHECK(refusal(job).empty());
  job.recipe = "fsdp2";
  CHECK(has(refusal(job, "fsdp2"), "or a recipe with a master copy"));
  job.fp8_scaling = "tensorwise";
  CHECK(refusal(job, "fsdp2").empty());
  job.lora_rank = 8;
  CHECK(has(refusal(job), "params where all weights train"));

  const models::ModelSpec model = zoo("gpt2-124m");
  const auto key = [&](const Job& of, const Strategy& s) {
    const auto problems = strategy_problems(model, of, resolve(model, of, s), s.workers());
    return problems.empty() ? std::string() : problems.front().where;
  };
  const Job f32 = f8_job("fsdp2");
  CHECK(key(f32, sharded(Sharding::zero1)) == "sharding");
  CHECK(key(f32, sharded(Sharding::zero3)).empty());
  Strategy s = sharded(Sharding::zero1);
  s.offload = {"optimizer"};
  CHECK(key(f8_job(), s) == "offload");
  s = sharded(Sharding::none);
  s.grad_sync = GradSync::parameter_server;
  s.servers = 1;
  CHECK(key(f8_job(), s) == "grad_sync");
  s = sharded(Sharding::none, 1);
  s.pipeline = 2;
  s.schedule = Schedule::pipedream_2bw;
  CHECK(key(f8_job(), s) == "schedule");
}

}  // namespace f8_weights_test
