#include "planner/strategy/context_problems.hpp"

#include <fmt/format.h>

#include "models/layer_kinds.hpp"

namespace planner {
namespace {

constexpr std::int64_t kMostSteps = 1024;  // of a ring: each has its actions in the Program

void add_method(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                core::Problems& problems) {
  const auto refuse = [&](const char* key, std::string expected, std::string found,
                          const char* fix) {
    problems.push_back({key, std::move(expected), std::move(found), fix});
  };
  const std::string own(name(s.context_method));
  if (s.context == 1)
    return refuse("context_method", "gather with context=1", own,
                  "pin context to 2 or more, or leave context_method out");
  if (s.context_method == ContextMethod::ring) {
    if (job.attention == "unfused" || job.attention == "fused_softmax")
      refuse("context_method", "gather or exchange where attention stores its scores", own,
             "use --attention flash2, or pin context_method=gather");
    if (s.context > kMostSteps)
      refuse("context", fmt::format("at most {} with context_method=ring", kMostSteps),
             fmt::format("{}", s.context), "pin context_method=gather");
    if (job.mtp_layers > 1)
      refuse("context_method",
             "gather or exchange with several modules for multi-token prediction", own,
             "pin context_method=gather, or give --mtp 1");
    const auto own_keys = [&](const models::LayerView& kind) {
      const models::Variants& v = kind.variants;
      return v.sinks || models::leaves_keys_out(v.window, job.seq_len) ||
             models::leaves_keys_out(v.chunk, job.seq_len);
    };
    if (models::any_kind(spec, own_keys))
      refuse("context_method", "gather or exchange with windows, chunks or sinks of attention", own,
             "pin context_method=gather");
    return;
  }
  const bool grouped = spec.kv_heads != spec.heads;  // which are not replicated
  if (!exchange_divides(spec.kv_heads, s))
    refuse("context_method",
           fmt::format("tensor x context that divides {} {} with exchange", spec.kv_heads,
                       grouped ? "key-value heads" : "heads"),
           fmt::format("{} x {}", s.tensor, s.context),
           "pin context_method=ring or gather, which divide no heads");
}

// A rank's rows are two runs of a sample: of whole windows, it routes them as one rank with all of
// them does.
void add_routing(const models::Variants& v, const Job& job, const Strategy& s,
                 core::Problems& problems) {
  const std::int64_t window = models::routing_window(v.experts, v.experts_per_token);
  const std::int64_t rows = job.seq_len / s.context, early = rows / 2;
  if (early % window == 0 && (rows - early) % window == 0) return;
  problems.push_back(
      {"context",
       fmt::format("a degree that gives each rank two runs of whole windows of {} tokens, in which "
                   "routing to experts is balanced", window),
       fmt::format("{} (runs of {} and {})", s.context, early, rows - early),
       fmt::format("use a --seq that {} divides, or pin context=1", 2 * s.context * window)});
}

}  // namespace

void add_context_problems(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                          core::Problems& problems) {
  const auto refuse = [&](const char* expected) {
    problems.push_back({"context", expected, fmt::format("{}", s.context), ""});
  };
  if (s.context > 1) {
    if (models::any_kind(spec, [](const auto& kind) { return kind.variants.kv_rank > 0; }))
      refuse("1 for latent attention, whose keys and values differ in width");
    if (spec.heads == 0) refuse("1 for a model without attention");
    if (s.grad_sync == GradSync::parameter_server || job.mode == Mode::inference)
      refuse("1 for inference and with parameter servers");
    models::for_each_kind(spec, [&](const models::LayerView& kind) {
      if (kind.variants.experts > 0) add_routing(kind.variants, job, s, problems);
    });
  }
  if (s.context_method != ContextMethod::gather) add_method(spec, job, s, problems);
}

}  // namespace planner
