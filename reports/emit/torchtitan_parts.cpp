#include "reports/emit/torchtitan_parts.hpp"

#include <algorithm>
#include <array>

#include "models/layer_kinds.hpp"

namespace reports::emit {
namespace {

using planner::Checkpoint;
using planner::Sharding;

struct Flavor {
  std::string_view model, name;
  std::int64_t layers, hidden, ffn_hidden, vocab;
};
constexpr double kRotaryBase = 500000;   // of all of them
// torchtitan/models/llama3/__init__.py. A plan may call another size by one of these names.
constexpr std::array<Flavor, 7> kFlavors{{{"llama3.2-1b", "1B", 16, 2048, 8192, 128256},
                                          {"llama3.2-3b", "3B", 28, 3072, 8192, 128256},
                                          {"llama3-8b", "8B", 32, 4096, 14336, 128256},
                                          {"llama3.1-8b", "8B", 32, 4096, 14336, 128256},
                                          {"llama3-70b", "70B", 80, 8192, 28672, 128256},
                                          {"llama3.1-70b", "70B", 80, 8192, 28672, 128256},
                                          {"llama3.1-405b", "405B", 126, 16384, 53248, 128256}}};

}  // namespace

void check_for_any_torchtitan(Question& q) {
  const planner::Strategy& s = q.s;
  q.require_common("torchtitan", "params");
  q.require_known_layers("torchtitan", q.model());
  q.require(q.model().family == models::Family::llama,
            fmt::format("family {}", models::name(q.model().family)),
            "family llama, torchtitan's llama3", "emit for megatron");
  q.require(q.job().precision != core::DType::f4, "precision nvfp4", "bf16 or fp8",
            "plan with --precision fp8");
  q.require(q.model().kinds.empty(), "layers of several kinds: " + models::kinds_text(q.model()),
            "layers that are all alike, torchtitan's llama3", "emit for megatron");
  q.require(s.pipeline == 1 || !planner::schedule_def(s.schedule).torch.empty(),
            fmt::format("schedule={}", name(s.schedule)),
            "schedule=gpipe, 1f1b, interleaved or zb_v, which torch's pipelining has",
            "plan with --pin schedule=1f1b, or another of them");
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero2 ||
                s.sharding == Sharding::zero3,
            fmt::format("sharding={}", name(s.sharding)),
            "sharding=none (replicas), zero2 or zero3 (fully_shard)",
            "plan with --pin sharding=zero3, or emit for megatron");
  q.require(s.sharding != Sharding::none || s.data == 1 || (s.tensor == 1 && s.pipeline == 1),
            "sharding=none with data ranks beside tensor ranks or stages",
            "sharding=zero2 or zero3 there: torch's DDP divides along one dimension alone",
            "plan with --pin sharding=zero3");
  q.require(q.job().attention.starts_with("flash"), "attention=" + q.job().attention,
            "attention=flash2 or flash1: torchtitan's models keep no scores",
            "plan with --attention flash2");
  q.require(q.recipe.compute != core::DType::f16, "precision fp16",
            "bf16 or f32: torchtitan's mixed_precision_param has no float16", "emit for deepspeed");
  q.require(q.job().mtp_layers == 0, fmt::format("mtp={}", q.job().mtp_layers), "mtp=0",
            "plan with --mtp 0");
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
  using enum planner::Degree;
  q.require(q.has_order({tensor, context, data, pipeline}), q.order_text(),
            "mesh_order=tensor,context,data,pipeline",
            "plan with --pin mesh_order=tensor,context,data,pipeline");
  q.require(s.tensor == 1 || s.sequence_parallel, "sequence_parallel=false",
            "sequence_parallel=true, the only way torchtitan divides layers",
            "plan with --pin sequence_parallel=true");
}

std::int64_t torchtitan_local_batch(const planner::Strategy& s) {
  return s.pipeline > 1 ? s.micro_batch * s.grad_accum : s.micro_batch;
}

double torchtitan_norm(const Question& q) {
  return q.job().clip > 0 ? q.job().clip : planner::kMostClip;
}

void note_for_any_torchtitan(const Question& q, std::vector<std::string>& notes) {
  if (q.recipe.name != "fsdp2")
    notes.push_back(fmt::format("recipe {}: torchtitan keeps weights in f32 and computes in 16 "
                                "bits, as recipe fsdp2 does",
                                q.recipe.name));
  if (q.job().clip == 0)
    notes.emplace_back("clip: gradients of any norm are taken, as planned; torchtitan by itself "
                       "scales them down to a norm of 1: plan with --clip 1");
}

std::string_view torchtitan_flavor(const models::ModelSpec& m) {
  for (const Flavor& f : kFlavors)
    if (m.name == f.model && m.layers == f.layers && m.hidden == f.hidden &&
        m.ffn_hidden == f.ffn_hidden && m.vocab == f.vocab && m.variants.rotary_base == kRotaryBase)
      return f.name;
  return "";
}

std::vector<std::vector<std::string>> torchtitan_modules(const std::vector<std::int64_t>& chunks,
                                                         std::string_view head) {
  std::vector<std::vector<std::string>> parts;
  std::int64_t layer = 0;
  for (const std::int64_t layers : chunks) {
    std::vector<std::string>& part = parts.emplace_back();
    if (parts.size() == 1) part.emplace_back("tok_embeddings");
    for (std::int64_t i = 0; i < layers; ++i) part.push_back(fmt::format("layers.{}", layer++));
    if (parts.size() == chunks.size()) part.insert(part.end(), {"norm", std::string(head)});
  }
  return parts;
}

TorchtitanDegrees torchtitan_degrees(const planner::Strategy& s) {
  const std::int64_t shard = s.sharding == Sharding::none ? 1 : s.shard_group / s.context;
  return {s.data / std::max<std::int64_t>(1, shard), shard};
}

}  // namespace reports::emit
