#pragma once
// Internal: what the targets over Megatron Core share, its own scripts and Megatron-Bridge.

#include <string>
#include <string_view>
#include <vector>

#include "reports/emit/parts.hpp"

namespace reports::emit {

// What a target calls the settings that its notes name, and its data and schedule.
struct MegatronWords {
  std::string_view random_data, balancing;
};
inline constexpr MegatronWords kMegatronScript{
    "give --data-path, a tokenizer and a schedule of your own",
    "--moe-router-force-load-balancing"};
inline constexpr MegatronWords kMegatronBridge{
    "give a dataset, a tokenizer and a schedule of your own",
    "moe_router_force_load_balancing"};

void check_for_megatron(Question& q);
std::vector<std::string> notes_for_megatron(const Question& q, const MegatronWords& words);
// Whether both moments are in bf16 and the master copy in f32: the precision-aware optimizer.
bool has_narrow_moments(const Question& q);
// In which type gradients are summed.
core::DType megatron_sums(const Question& q);
// Layers by stage where they are not the same: E embeddings, t a layer, L the head and loss, m a
// module for multi-token prediction.
std::string megatron_layout(const planner::Strategy& s, std::int64_t mtp_layers);
// p2p, a2a or all_gather.
std::string_view megatron_context_method(const planner::Strategy& s);
// The kernels that the plan counts on, fused, flash or unfused: cuDNN's where the framework takes
// them, from Hopper on.
std::string_view megatron_attention(const Question& q);
bool maps_stages_before_data(const Question& q);
// Gates that are a softmax over all experts, not over the chosen ones.
bool has_softmax_before_choice(const models::Variants& v);

}  // namespace reports::emit
