#include "planner/strategy/strategy.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/strategy/names.hpp"

namespace planner {
namespace {

template <class E, std::size_t N>
std::optional<E> from_name(const std::array<std::string_view, N>& names, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace

std::string checkpoint_text(const Strategy& s) {
  const std::string_view called = name(s.checkpoint);
  if (s.checkpoint == Checkpoint::modules)
    return fmt::format("{}({})", called, fmt::join(models::names_of(s.recompute_modules), "+"));
  return counts_layers(s.checkpoint) ? fmt::format("{}({})", called, s.checkpoint_every)
                                     : std::string(called);
}

std::string stages_text(const std::vector<std::int64_t>& stages) {
  std::string text;
  for (auto at = stages.begin(); at != stages.end();) {
    const auto end = std::find_if(at, stages.end(), [&](std::int64_t n) { return n != *at; });
    const char* comma = text.empty() ? "" : ",";
    const std::ptrdiff_t run = end - at;
    if (run > 2) text += fmt::format("{}{}*{}", comma, *at, run);
    else for (; at != end; ++at, comma = ",") text += fmt::format("{}{}", comma, *at);
    at = end;
  }
  return text;
}

std::string_view name(Schedule s) { return schedule_def(s).name; }
std::string_view name(Sharding s) { return kShardingNames[static_cast<std::size_t>(s)]; }
std::string_view name(Checkpoint c) { return kCheckpointNames[static_cast<std::size_t>(c)]; }
std::string_view name(GradSync g) { return kGradSyncNames[static_cast<std::size_t>(g)]; }
std::string_view name(ServerMode m) { return kServerModeNames[static_cast<std::size_t>(m)]; }
std::string_view name(Partition p) { return kPartitionNames[static_cast<std::size_t>(p)]; }

std::string_view name(BatchNorm b) { return kBatchNormNames[static_cast<std::size_t>(b)]; }

std::string_view name(ContextMethod m) {
  return kContextMethodNames[static_cast<std::size_t>(m)];
}

std::optional<Schedule> schedule_from_name(std::string_view text) {
  return from_name<Schedule>(kScheduleNames, text);
}
std::optional<Sharding> sharding_from_name(std::string_view text) {
  return from_name<Sharding>(kShardingNames, text);
}
std::optional<Checkpoint> checkpoint_from_name(std::string_view text) {
  return from_name<Checkpoint>(kCheckpointNames, text);
}
std::optional<GradSync> grad_sync_from_name(std::string_view text) {
  return from_name<GradSync>(kGradSyncNames, text);
}
std::optional<ServerMode> server_mode_from_name(std::string_view text) {
  return from_name<ServerMode>(kServerModeNames, text);
}

models::ModuleSet Strategy::made_again() const {
  using enum models::Module;
  using models::set_of;
  switch (checkpoint) {
    case Checkpoint::selective: return set_of(core_attn);
    case Checkpoint::pointwise:
      return models::both(set_of(layernorm), models::both(set_of(mlp_act), set_of(moe_act)));
    case Checkpoint::modules: return recompute_modules;
    default: return 0;
  }
}

WithinLayer within_layer(const Strategy& s) {
  if (!drops_within_layers(s.checkpoint)) return {};
  return {s.checkpoint, s.recompute_modules};
}

std::int64_t stride_of(const Strategy& s, Degree degree) {
  std::int64_t stride = 1;
  for (const Degree d : s.mesh_order) {
    if (d == degree) break;
    stride *= d == Degree::tensor    ? s.tensor
              : d == Degree::context ? 1
              : d == Degree::data    ? s.data_ranks()
                                     : s.pipeline;
  }
  return stride;
}

std::vector<std::string> parts_of(const Strategy& s) {
  std::vector<std::string> parts{fmt::format("data={}", s.data)};
  const auto add = [&](std::string part) { parts.push_back(std::move(part)); };
  const auto degree = [&](std::string_view key, std::int64_t value) {
    if (value > 1) add(fmt::format("{}={}", key, value));
  };
  degree("tensor", s.tensor);
  degree("pipeline", s.pipeline);
  degree("context", s.context);
  if (s.context_method != ContextMethod::gather)
    add(fmt::format("context_method={}", name(s.context_method)));
  degree("expert", s.expert);
  if (s.expert_tensor > 0) add(fmt::format("expert_tensor={}", s.expert_tensor));
  degree("split", s.split);
  if (!s.splits.empty()) add(fmt::format("splits={}", fmt::join(s.splits, ",")));
  if (s.batch_norm == BatchNorm::synchronised) add("batch_norm=synchronised");
  if (s.sequence_parallel) add("sequence_parallel");
  if (s.schedule != Schedule::none) add(std::string(name(s.schedule)));
  degree("virtual_stages", s.virtual_stages);
  if (!s.stages.empty() && s.pipeline > 1) add(fmt::format("stages={}", stages_text(s.stages)));
  if (s.partition == Partition::operators)
    add(s.parts.empty() ? std::string("operators")
                        : fmt::format("operators={}+{}", std::ranges::count(s.parts, 1),
                                      std::ranges::count(s.parts, 2)));
  if (s.sharding != Sharding::none) add(std::string(name(s.sharding)));
  if (s.sharding == Sharding::zero3 && s.shard_group < s.data * s.context)
    add(fmt::format("shard_group={}", s.shard_group));
  if (s.checkpoint != Checkpoint::none) add(checkpoint_text(s));
  add(fmt::format("micro_batch={}", s.micro_batch));
  if (s.shares.empty()) degree("grad_accum", s.grad_accum);
  else add(fmt::format("shares={}", stages_text(s.shares)));
  if (s.grad_sync != GradSync::automatic && s.grad_sync != GradSync::ring)
    add(std::string(name(s.grad_sync)));
  if (s.servers > 0)
    add(fmt::format("servers={}{} {}", s.servers, s.servers_colocated ? "" : " apart",
                    name(s.server_mode)));
  if (!s.overlap) add("no overlap");
  if (s.tp_overlap) add("tp_overlap");
  if (s.expert_dispatch == ExpertDispatch::deepep) add("expert_dispatch=deepep");
  if (s.expert_overlap) add("expert_overlap");
  degree("loss_chunks", s.loss_chunks);
  for (const std::string& what : s.offload) add("offload " + what);
  return parts;
}

std::int64_t Strategy::micro_batches() const {
  return shares.empty() ? grad_accum * data : std::reduce(shares.begin(), shares.end());
}

std::string to_text(const Strategy& s) { return fmt::format("{}", fmt::join(parts_of(s), " ")); }

}  // namespace planner
