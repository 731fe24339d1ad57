// Products in 8 bits: which ones they are, what is cast for them and when, counted by hand.
#include <algorithm>
#include <cmath>

#include "hw_profiles/load.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "sim/cost/action.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using namespace planner_test;
using program::ActionKind;

namespace f8_products_test {
namespace {

Job f8_job(const char* scaling = "tensorwise") {
  Job job = job_of(8);
  job.precision = core::DType::f8;
  job.fp8_scaling = scaling;
  return job;
}

hw_profiles::Profile h100() { return hw_profiles::find_profile("h100-sxm-80g").value(); }

Strategy one_rank() {
  Strategy s;
  s.micro_batch = 2;
  s.grad_accum = 4;
  return s;
}

// Casts to 8 bits in the blocks of that name, and the matrices that they write.
struct Casts {
  int actions = 0, matrices = 0;
};
Casts casts_in(const program::Program& p, std::string_view block) {
  const program::RankClass& k = p.classes.front();
  Casts found;
  for (const program::Block& b : k.blocks) {
    if (b.name != block) continue;
    for (std::uint32_t i = b.first; i < b.last; ++i) {
      const program::Action& a = k.actions[i];
      if (a.kind != ActionKind::cast || !k.buffers[k.views[a.first_arg + 1].buffer].f8) continue;
      ++found.actions;
      found.matrices += a.arg_count - 1;
    }
  }
  return found;
}

const program::Buffer& buffer(const program::Program& p, std::string_view name) {
  for (const program::Buffer& b : p.classes.front().buffers)
    if (b.name == name) return b;
  FAIL("no buffer " << name);
  return p.classes.front().buffers.front();
}

std::string names_of_f8(const program::Program& p) {
  std::string all;
  for (const program::Buffer& b : p.classes.front().buffers)
    if (b.f8) all += b.name + " ";
  return all;
}

}  // namespace

TEST_CASE("a layer of GPT-2 casts both operands of its four products, each time in their order") {
  const program::Program p = sound(f8_job(), one_rank(), "gpt2-124m", h100().framework);
  // Forward: an input and a weight each. Backward: the gradient of the result once, in both orders;
  // the input and the weight again, in the order in which the gradients sum them.
  const Casts forward = casts_in(p, "layer.forward"), backward = casts_in(p, "layer.backward");
  CHECK(forward.actions == 4 * 2);
  CHECK(forward.matrices == 4 * 2);
  CHECK(backward.actions == 4 * 3);
  CHECK(backward.matrices == 4 * 4);
  // 2 x 1024 rows of 768 codes and one scale; 3072 x 768 codes and one scale.
  CHECK(buffer(p, "layer.ln_2.out.f8").elements == std::vector<std::int64_t>{2 * 1024 * 768 + 4});
  CHECK(buffer(p, "layer.ln_2.out.f8").term == program::Term::activations);
  CHECK(buffer(p, "layer.mlp.fc.weight.f8_by_columns").elements ==
        std::vector<std::int64_t>{3072 * 768 + 4});
  // Head and embeddings stay in 16 bits.
  CHECK(names_of_f8(p).find("epilogue") == std::string::npos);
}

TEST_CASE("frameworks cast inside their kernels: their Programs have no actions for it") {
  hw_profiles::Profile profile = h100();
  REQUIRE(hw_profiles::use_framework(profile, "megatron_core", "test").ok());
  const program::Program p = sound(f8_job(), one_rank(), "gpt2-124m", profile.framework);
  CHECK(names_of_f8(p).empty());
}

TEST_CASE("routers, adapters and narrow products stay in 16 bits") {
  const auto names = [](const Job& job, const char* model) {
    return names_of_f8(sound(job, one_rank(), model, h100().framework));
  };
  const std::string mixture = names(f8_job("blockwise"), "mixtral-8x7b");
  CHECK(mixture.find("moe.gate_up") != std::string::npos);
  CHECK(mixture.find("router") == std::string::npos);
  Job lora = f8_job();
  lora.lora_rank = 16;
  const std::string adapted = names(lora, "gpt2-124m");
  CHECK(adapted.find("attn.qkv.weight.f8 ") != std::string::npos);
  CHECK(adapted.find("lora") == std::string::npos);
  lora.quantization = "nf4";           // decoded, and multiplied in 16 bits
  CHECK(names(lora, "gpt2-124m").empty());
}

TEST_CASE("a product in 8 bits takes its time at the rate of 8 bits, its casts that of memory") {
  const hw_profiles::Profile profile = h100();
  const Question q =
      make_question(zoo("llama3-8b"), f8_job(), profile, 1).value();
  Job wide = f8_job();
  wide.precision = core::DType::bf16;
  const Question q16 = make_question(zoo("llama3-8b"), wide, profile, 1).value();
  const program::Program p = sound(f8_job(), one_rank(), "llama3-8b", profile.framework);
  const program::Program p16 = sound(wide, one_rank(), "llama3-8b", profile.framework);
  const auto time_of = [](const program::Program& of, const Question& asked,
                          std::string_view op) {
    const program::RankClass& k = of.classes.front();
    const cost::ActionCost cost(of, k, asked.machine);
    for (const program::Action& a : k.actions)
      if (a.kind == ActionKind::forward && k.operators[a.op].name == op)
        return static_cast<double>(cost(a, {}).value());
    return 0.0;
  };
  const double narrow = time_of(p, q, "mlp.gate_up"), full = time_of(p16, q16, "mlp.gate_up");
  CHECK(narrow < 0.7 * full);
  CHECK(narrow > 0.4 * full);
  CHECK(time_of(p, q, "head") == time_of(p16, q16, "head"));
  // A cast of x reads 16 bits twice and writes 8, at the memory's rate, with two launches.
  const program::RankClass& k = p.classes.front();
  const cost::ActionCost cost(p, k, q.machine);
  for (const program::Action& a : k.actions) {
    if (a.kind != ActionKind::cast) continue;
    const program::Buffer& to = k.buffers[k.views[a.first_arg + 1].buffer];
    if (to.name != "layer.ln_2.out.f8") continue;
    const double bytes = 2.0 * 1024 * 4096 * (2 + 2 + 1) + 4;
    const double expected = bytes / q.machine.memory.value() + 2 * q.machine.launch.value();
    CHECK(std::abs(static_cast<double>(cost(a, {}).value()) / (expected * 1e12) - 1) < 0.001);
    return;
  }
  FAIL("no cast of the feed-forward's input: " << names_of_f8(p));
}

}  // namespace f8_products_test
