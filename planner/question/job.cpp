#include "planner/question/job.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/read_number.hpp"

namespace planner {
namespace {

constexpr std::array<std::string_view, 3> kModes{"train", "finetune", "inference"};
constexpr std::array<std::pair<core::DType, std::string_view>, 4> kPrecisions{
    {{core::DType::bf16, "bf16"}, {core::DType::f16, "fp16"}, {core::DType::f8, "fp8"},
     {core::DType::f4, "nvfp4"}}};

constexpr std::array<std::string_view, 4> kAttention{"flash2", "flash1", "fused_softmax",
                                                     "unfused"};

}  // namespace

std::span<const std::string_view> attention_kinds() { return kAttention; }

std::string_view name(Mode mode) { return kModes[static_cast<std::size_t>(mode)]; }

std::optional<Mode> mode_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kModes.size(); ++i)
    if (kModes[i] == text) return static_cast<Mode>(i);
  return std::nullopt;
}

std::string_view precision_name(core::DType type) {
  for (const auto& [t, text] : kPrecisions)
    if (t == type) return text;
  return core::name(type);
}

LossScale loss_scale_of(const Job& job) {
  if (!scales_loss(job)) return {};
  if (job.loss_scale > 0) return {job.loss_scale, 0};
  return {65'536, 2'000};  // torch.amp.GradScaler
}

std::string loss_scale_text(double scale) {
  if (scale == 0) return "dynamic";
  return scale == 1 ? "none" : fmt::format("{}", scale);
}

std::optional<double> loss_scale_from_text(std::string_view text) {
  if (text == "dynamic") return 0;
  if (text == "none") return 1;
  const std::optional<double> scale = core::number_in<double>(text);
  return scale >= 1.0 && scale <= kMostLossScale ? scale : std::nullopt;
}

std::optional<core::DType> precision_from_name(std::string_view text) {
  for (const auto& [t, known] : kPrecisions)
    if (known == text) return t;
  return std::nullopt;
}

}  // namespace planner
