// Each rule of planner/stage/policy.hpp is seen by both that ask it: the lowering and the closed
// form. A rule that one of them stated by itself would fail here.
#include "planner/stage/policy.hpp"

#include <cmath>

#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/bound.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using planner_test::question;

namespace {

struct Devices {
  core::Bytes lowered{}, closed{};
};

// What a rank's device holds by the Program, and by the closed form.
Devices devices(const Request& r, const Strategy& strategy) {
  const std::vector<Question> questions{
      make_question(r.model, r.job, r.profile, r.gpus).value()};
  const Question& q = questions.front();
  const Strategy resolved = resolve(r.model, q.job, strategy);
  INFO(core::to_text(strategy_problems(r.model, q.job, resolved, r.gpus)));
  REQUIRE(strategy_problems(r.model, q.job, resolved, r.gpus).empty());
  const models::ModelGraph graph =
      models::build_graph(r.model, graph_options(q.job, resolved, q.profile.framework)).value();
  const program::Program program = lower(graph, q.job, resolved, policy_of(q));
  Devices d;
  for (const program::RankClass& k : program.classes)
    d.lowered = std::max(d.lowered, program::closed_form_live(k) +
                                        overhead_bytes(program, k, q.profile));
  closed_form::Evaluator evaluator(questions);
  REQUIRE(evaluator.prepare(resolved, graph));
  d.closed = evaluator.at(resolved.micro_batch, resolved.grad_accum)[0].device;
  return d;
}

struct Fact {
  const char* name;
  void (*set)(hw_profiles::Framework& framework);
  Sharding sharding;                   // under which the rule speaks
  Checkpoint checkpoint = Checkpoint::none;
  const char* quantization = "none";
  core::DType precision = core::DType::bf16;
  std::int64_t lora_rank = 0;
  bool f8_weights = false;
};

Request four_ranks(const Fact& fact) {
  Request r = question("llama3.2-1b", 4, "a100-sxm-80g");
  r.job.seq_len = 512;
  r.job.global_batch = 16;
  r.job.quantization = fact.quantization;
  r.job.precision = fact.precision;
  if (fact.f8_weights) r.job.fp8_tensors = {"params"};
  r.job.lora_rank = r.job.quantization != "none" ? 8 : fact.lora_rank;
  return r;
}

}  // namespace

TEST_CASE("a fact of a framework changes lowering and closed form alike") {
  const Fact fact = GENERATE(
      Fact{"stand_ins", [](auto& f) { f.stand_ins = true; }, Sharding::zero1},
      Fact{"wide_gradients", [](auto& f) { f.wide_gradients = true; }, Sharding::zero1},
      Fact{"pass_gradients", [](auto& f) { f.pass_gradients = true; }, Sharding::zero1},
      Fact{"reducer_buckets", [](auto& f) { f.reducer_buckets = true; }, Sharding::none},
      Fact{"update_copies", [](auto& f) { f.update_copies = true; }, Sharding::none},
      Fact{"adapter_inputs", [](auto& f) { f.adapter_inputs = true; }, Sharding::zero3,
           Checkpoint::none, "nf4"},
      Fact{"kept_product_input", [](auto& f) { f.kept_product_input = 1; }, Sharding::zero1,
           Checkpoint::none, "none", core::DType::f8},
      Fact{"frozen_f8", [](auto& f) { f.frozen_f8 = true; }, Sharding::none, Checkpoint::none,
           "none", core::DType::f8, 8},
      Fact{"f8_weight_orders", [](auto& f) { f.f8_weight_orders = 2; }, Sharding::zero1,
           Checkpoint::none, "none", core::DType::f8, 0, true},
      Fact{"root_unit", [](auto& f) { f.root_unit = true; }, Sharding::zero3},
      Fact{"one_in_k", [](auto& f) { f.recomputes_one_in_k = true; }, Sharding::zero1,
           Checkpoint::every_k},
      Fact{"whole_scales", [](auto& f) { f.whole_scales = true; }, Sharding::zero3,
           Checkpoint::none, "nf4"});
  INFO(fact.name);
  Strategy s;
  s.data = 4;
  s.sharding = fact.sharding;
  s.checkpoint = fact.checkpoint;
  s.checkpoint_every = fact.checkpoint == Checkpoint::every_k ? 2 : 0;
  s.micro_batch = 2;
  s.grad_accum = 2;
  Request r = four_ranks(fact);
  const Devices without = devices(r, s);
  fact.set(r.profile.framework);
  const Devices with = devices(r, s);
  CHECK(with.lowered != without.lowered);
  const auto grows = static_cast<double>((with.lowered - without.lowered).value());
  const auto sums = static_cast<double>((with.closed - without.closed).value());
  CHECK(std::abs(sums - grows) <= 0.02 * static_cast<double>(with.lowered.value()));
  CHECK(sums * grows > 0);             // both more, or both less
}

TEST_CASE("wide gradients are of stages that shard none, by both") {
  const auto wide = [](auto& f) { f.wide_gradients = true; };
  for (const Sharding sharding : {Sharding::zero2, Sharding::zero3}) {
    Strategy s;
    s.data = 4;
    s.sharding = sharding;
    s.micro_batch = 2;
    s.grad_accum = 2;
    Request r = four_ranks({"", wide, sharding});
    const Devices without = devices(r, s);
    wide(r.profile.framework);
    const Devices with = devices(r, s);
    CHECK(with.lowered == without.lowered);
    CHECK(with.closed == without.closed);
  }
}

TEST_CASE("copies of gradients: a pass's, and a reducer's where data ranks sum whole ones") {
  const stage::Policy both{.pass_gradients = true, .reducer_buckets = true};
  Strategy s;
  CHECK(stage::gradient_copies(both, s) == 1);  // nobody to reduce with
  s.data = 4;
  CHECK(stage::gradient_copies(both, s) == 2);
  s.sharding = Sharding::zero1;                 // no reducer: gradients are scattered
  CHECK(stage::gradient_copies(both, s) == 1);
  s.sharding = Sharding::zero2;
  CHECK(stage::gradient_copies(both, s) == 0);
}

TEST_CASE("rows of tensor ranks: buffers by hand, and those that wait for their collective") {
  hw_profiles::Framework framework;
  framework.rows_waiting = 46;
  const stage::Policy policy{.row_buffers = 2};
  Strategy s;
  s.grad_accum = 8;
  CHECK(stage::inputs_held(policy, s, 16) == 0);
  s.tensor = 4;
  s.sequence_parallel = true;
  CHECK(stage::inputs_held(policy, s, 16) == 8);      // two buffers, four times a layer's input
  // 2 x 16 layers x 2 passes are 64, 2 x 8 x 2 are 32; of one micro-batch there is no next pass.
  CHECK(stage::rows_waiting(framework, {.layers = 16, .micro_batches = 8}) == 46);
  CHECK(stage::rows_waiting(framework, {.layers = 8, .micro_batches = 8}) == 32);
  CHECK(stage::rows_waiting(framework, {.layers = 16, .micro_batches = 1}) == 32);
  // Of four stages the first issues three forward passes before it receives, and the device
  // computes one of them: 2 x 5 layers x 2. The second issues two.
  CHECK(stage::rows_waiting(framework, {5, 8, 0, 4}) == 20);
  CHECK(stage::rows_waiting(framework, {5, 8, 1, 4}) == 10);
  CHECK(stage::rows_waiting(framework, {5, 8, 3, 4}) == 0);
  CHECK(stage::rows_waiting(framework, {5, 2, 0, 4}) == 10);
  CHECK(stage::rows_waiting(framework, {16, 8, 0, 2}) == 0);
}

TEST_CASE("a device holds what its host has freed ahead, where rows are scattered") {
  Request r = question("llama3.2-1b", 4, "a100-sxm-80g");
  r.job.seq_len = 512;
  r.job.global_batch = 16;
  r.profile.framework.rows_waiting = 46;
  Strategy s;
  s.tensor = 4;
  s.micro_batch = 2;
  s.grad_accum = 8;
  const auto memory = [&] {
    const Question q = make_question(r.model, r.job, r.profile, r.gpus).value();
    const Strategy resolved = resolve(r.model, q.job, s);
    const models::ModelGraph graph =
        models::build_graph(r.model, graph_options(q.job, resolved, q.profile.framework)).value();
    return memory_of(lower(graph, q.job, resolved, policy_of(q)), q.profile);
  };
  CHECK(memory().worst.waiting == core::Bytes{});     // all-reduced, never divided
  s.sequence_parallel = true;
  const Memory rows = memory();
  CHECK(rows.worst.waiting.value() == 46 * 2 * 512 * 2048 * 2);
  CHECK(rows.worst.device == rows.worst.reserved + rows.worst.waiting + rows.worst.workspace +
                                 rows.worst.context + rows.worst.communicators);
}

TEST_CASE("what every_k keeps and computes again, by hand") {
  Strategy s;
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = 3;
  const stage::Policy segments{}, alone{.one_in_k = true};
  CHECK(stage::segment_layers(segments, s) == 3);
  CHECK(stage::segment_layers(alone, s) == 1);
  for (int l = 0; l < 6; ++l) {
    CHECK_FALSE(stage::keeps_layer(segments, s, l, l));
    CHECK(stage::keeps_layer(alone, s, l, l) == (l % 3 != 2));  // the third and the sixth again
  }
  const auto share = [&](const stage::Policy& policy) {
    const auto [again, of, together] = stage::layers_again(policy, s, 4);
    return std::array{again, of, together};
  };
  CHECK(share(segments) == std::array<std::int64_t, 3>{3, 3, 3});
  CHECK(share(alone) == std::array<std::int64_t, 3>{1, 3, 1});
  s.checkpoint = Checkpoint::first_k;
  for (int l = 0; l < 8; ++l)          // chunks of four layers
    CHECK(stage::keeps_layer(segments, s, l, l % 4) == (l % 4 == 3));
  CHECK(share(segments) == std::array<std::int64_t, 3>{3, 4, 1});
}
