// Nothing of a job or a strategy is lost on the way to a framework's file: whatever is changed, the
// file changes, a note names it, or it is refused.
#include <fmt/format.h>

#include "planner/strategy/keys.hpp"
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;
using reports::emit::Launch;

namespace {

// What a change of it does not show in this framework's file, with the reason.
struct Left {
  std::string_view framework, key, why;
};
constexpr Left kLeft[] = {
    {"", "split", "of operator graphs, which are refused"},
    {"", "splits", "of operator graphs, which are refused"},
    {"", "batch_norm", "of models with batch norms, which are operator graphs"},
    {"", "parts", "of partition=operators, which is refused"},
    {"", "virtual_stages", "of interleaved schedules; without stages it means nothing"},
    {"", "checkpoint_every", "of checkpoint=every_k and first_k"},
    {"", "recompute_modules", "of checkpoint=modules"},
    {"", "schedule", "of pipelines"},
    {"", "stages", "one stage has all layers"},
    {"", "shard_group", "of sharding"},
    {"", "servers", "of grad_sync=parameter_server, which is refused"},
    {"", "servers_colocated", "the same"},
    {"", "server_mode", "the same"},
    {"", "grad_sync", "NCCL's choice; a launcher asks for it"},
    {"", "context_method", "of context ranks"},
    {"", "expert_tensor", "of experts"},
    {"", "expert_dispatch", "of experts"},
    {"", "expert_overlap", "of experts"},
    {"", "tp_overlap", "of tensor ranks"},
    {"", "sequence_parallel", "of tensor ranks"},
    {"", "mesh_order", "of one kind of ranks"},
    {"torchtitan_0.3", "bucket_bytes", "of DDP, likewise"},
    {"torchtitan_python", "bucket_bytes", "of DDP, likewise"},
    {"torchtitan", "bucket_bytes", "of DDP; fully_shard gathers and scatters layer by layer"},
};

bool is_left(std::string_view framework, std::string_view key) {
  for (const Left& left : kLeft)
    if (left.key == key && (left.framework.empty() || left.framework == framework)) return true;
  return false;
}

// A value of the key that is not this one.
std::int64_t another(const StrategyKey& key, std::int64_t value) {
  if (key.kind == KeyKind::bytes) return value * 2;
  if (key.kind == KeyKind::count) return value + 1;
  return value == 0 ? 1 : 0;
}

bool says(const core::Result<Launch>& changed, const Launch& base, std::string_view key) {
  if (!changed.ok() || changed->text.text() != base.text.text()) return true;
  for (const std::string& note : changed->notes)
    if (note.find(key) != std::string::npos &&
        (note.starts_with(key) || changed->notes != base.notes))
      return true;
  return false;
}

// A plan that the framework takes.
void accepted(Plan& plan, Strategy& s, std::string_view framework) {
  s.tensor = 1;
  s.data = s.shard_group = 8;
  const bool optimizer_alone =
      framework.starts_with("megatron") || framework == "llmc" || framework == "nanotron";
  s.sharding = optimizer_alone                       ? Sharding::zero1
               : framework.starts_with("torchtitan") ? Sharding::zero3
                                                     : Sharding::zero2;
  plan.job.attention = "flash2";
  if (framework == "nanotron") plan.job.recipe = "megatron";
  if (framework == "torchtitan_python" || framework == "torchtitan_0.3")
    plan.job.recipe = "fsdp2";
  if (framework != "accelerate") return;
  plan.job.recipe = "fsdp2";
  plan.job.reduce_dtype = core::DType::bf16;
}

constexpr const char* kTrain[] = {
    "megatron", "megatron_bridge", "torchtitan", "torchtitan_0.3", "torchtitan_python", "deepspeed",
    "axolotl",  "llama_factory",   "llmc",       "nanotron",       "accelerate"};
const char* model_of(std::string_view framework) {
  return framework == "llmc" ? "gpt2-124m" : "llama3-8b";
}

}  // namespace

TEST_CASE("no key of a strategy is lost on the way to a framework") {
  for (const char* framework : kTrain) {
    const auto base = emitted(model_of(framework), framework, [&](Plan& plan, Strategy& s) {
      accepted(plan, s, framework);
    });
    if (!base.ok()) FAIL(core::to_text(base.problems()));
    for (const StrategyKey& key : strategy_keys()) {
      if (is_left(framework, key.name) || key.is_list()) continue;
      const auto changed = emitted(model_of(framework), framework, [&](Plan& plan, Strategy& s) {
        accepted(plan, s, framework);
        key.put(s, another(key, key.get(s)));
      });
      CHECK((says(changed, *base, key.name) ? "" : fmt::format("{}: {}", framework, key.name)) ==
            "");
    }
  }
}

TEST_CASE("no field of a job is lost on the way to a framework") {
  struct JobChange {
    const char* name;
    void (*change)(Job&);
  };
  const JobChange changes[] = {
      {"mode", [](Job& j) { j.mode = Mode::inference; }},
      {"seq_len", [](Job& j) { j.seq_len *= 2; }},
      {"global_batch", [](Job& j) { j.global_batch *= 2; }},
      {"recipe", [](Job& j) { j.recipe = "fp32"; }},
      {"precision", [](Job& j) { j.precision = core::DType::f16; }},
      {"optimizer", [](Job& j) { j.optimizer = OptimizerKind::sgd; }},
      {"lora_rank", [](Job& j) { j.lora_rank = 8; }},
      {"quantization", [](Job& j) { j.quantization = "nf4"; }},
      {"attention", [](Job& j) { j.attention = "unfused"; }},
      {"framework", [](Job& j) { j.framework = "native"; }},
      {"compile", [](Job& j) { j.compile = true; }},
      {"mtp_layers", [](Job& j) { j.mtp_layers = 1; }},
      {"reduce_dtype",
       [](Job& j) {
         const bool in_f32 = j.recipe == "fsdp2" && !j.reduce_dtype;
         j.reduce_dtype = in_f32 ? core::DType::bf16 : core::DType::f32;
       }},
      {"clip", [](Job& j) { j.clip = 0.25; }},
  };
  for (const char* framework : kTrain) {
    const auto with = [&](const JobChange& one) {
      return emitted(model_of(framework), framework, [&](Plan& plan, Strategy& s) {
        accepted(plan, s, framework);
        plan.job.framework = "generic";
        one.change(plan.job);
      });
    };
    const auto base = with({"", [](Job&) {}});
    REQUIRE(base.ok());
    for (const JobChange& one : changes) {
      const auto changed = with(one);
      CHECK((says(changed, *base, one.name) ? "" : fmt::format("{}: {}", framework, one.name)) ==
            "");
    }
  }
}
