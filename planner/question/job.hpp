#pragma once
// Job: what is asked for and never searched. Recipes (types by role) and optimizers (slots) are
// data: planner/question/recipes.cpp, planner/question/optimizers.cpp. Value types,
// thread-compatible.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace planner {

enum class Mode : std::uint8_t { train, finetune, inference };
std::string_view name(Mode mode);
std::optional<Mode> mode_from_name(std::string_view text);

// The job's precision as users write it: bf16, fp16, fp8, nvfp4.
std::string_view precision_name(core::DType type);
std::optional<core::DType> precision_from_name(std::string_view text);

// Whether products of layers cast their operands to it (fp8; nvfp4 [nvfp4]): all else is computed
// in the recipe's types, with bf16.
constexpr bool is_narrow(core::DType precision) {
  return precision == core::DType::f8 || precision == core::DType::f4;
}

// Types by role, never one number (design: recipes). `half` stands for the job's 16-bit type and is
// resolved by resolve_recipe.
struct Recipe {
  std::string name;
  core::DType weight{};        // as stored
  core::DType compute{};       // as kernels read it; not weight: cast (or gathered) before use
  bool has_master = false;
  core::DType master{};        // beside the weight, in the optimizer's term
  core::DType gradient{};
  core::DType first_moment{};  // m-like slots
  core::DType second_moment{}; // v-like slots
  core::DType activation{};
  core::DType statistic{};     // f32, f64 in fp64
};

enum class OptimizerKind : std::uint8_t {
  sgd, momentum, adagrad, rmsprop, adadelta, adam, adamw, amsgrad, adam8bit
};
// Slots are stored per parameter element; m-like and v-like take the recipe's types.
struct Optimizer {
  OptimizerKind kind{};
  std::string_view name;
  int first_moments = 0;       // m-like slots
  int second_moments = 0;      // v-like slots
  bool quantised = false;      // adam8bit: both slots in 8 bits, an f32 scale per block of 256
};

std::span<const Optimizer> optimizers();
const Optimizer& optimizer(OptimizerKind kind);
std::optional<OptimizerKind> optimizer_from_name(std::string_view text);

// How attention is computed: in one kernel that keeps no scores (flash1, flash2), or over stored
// scores with their softmax in one kernel (fused_softmax) or in several (unfused).
std::span<const std::string_view> attention_kinds();

std::span<const std::string_view> recipe_names();
// precision: the recipe's 16-bit type, bf16 or f16. nullopt: unknown name.
std::optional<Recipe> resolve_recipe(std::string_view name, core::DType half = core::DType::bf16);
// Whether `half` is a precision of this recipe: mixed, megatron and fsdp2 take bf16 and f16, the
// others state bf16 (fp32 and fp64 have none, and accept the default alone); narrow ones go with
// bf16 kernels.
bool recipe_accepts(std::string_view name, core::DType half);

// Bytes of weights + gradients + optimizer state per trained parameter, unsharded: 16 for mixed
// with Adam. Fractional for block-quantised optimizers.
double state_bytes_per_parameter(const Recipe& recipe, const Optimizer& optimizer);

// Which numbers share a scale: all of a tensor, by this step's values or (delayed) by earlier ones;
// those of a row or column [torchao]; 128 of a row of activations and 128 x 128 of weights
// [deepseekv3] 3.3.2; 32 of a row, with a power of two [mx].
inline constexpr std::array<std::string_view, 5> kFp8Scalings{"tensorwise", "delayed", "rowwise",
                                                              "blockwise", "mxfp8"};
// dispatch: rows and gradients on their way to experts. activation_input: what activations of
// feed-forwards read, kept for the backward pass in 8 bits. attention_output: what the attention
// core makes, kept in 12 bits (E5M6) [deepseekv3] 3.3.3. params: weights of layers' products are
// gathered over data ranks as 8-bit codes (planner/stage/f8_weights.hpp).
inline constexpr std::array<std::string_view, 4> kFp8Tensors{"dispatch", "activation_input",
                                                             "attention_output", "params"};

inline constexpr double kMostImbalance = 64;  // of Job::expert_imbalance
inline constexpr double kMostClip = 1e9;      // of Job::clip
inline constexpr double kMostLossScale = 16'777'216;  // of Job::loss_scale: 2^24, as Apex has it

struct Job {
  Mode mode = Mode::train;
  std::int64_t seq_len = 0;
  std::int64_t global_batch = 0;       // samples per step
  std::string recipe = "mixed";
  core::DType precision = core::DType::bf16;
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::int64_t lora_rank = 0;
  std::vector<std::string> lora_targets{"q", "k", "v", "o"};
  std::string quantization = "none";
  std::string attention = "flash2";
  std::string framework = "native";
  bool fused_norm = true;                   // norms are one kernel each, not several
  bool compile = false;                     // the framework's compiler fuses elementwise kernels
  std::string fp8_scaling = "tensorwise";   // of kFp8Scalings; with fp8 alone
  // Which of kFp8Tensors are stored or sent in few bits, not only multiplied; with fp8 alone.
  std::vector<std::string> fp8_tensors{};
  bool in_few_bits(std::string_view what) const {
    return precision == core::DType::f8 && std::ranges::count(fp8_tensors, what) > 0;
  }
  std::int64_t mtp_layers = 0;         // modules for multi-token prediction that are trained
  // Of mixtures: rows of the busiest expert rank, by those of an equal share.
  double expert_imbalance = 1;
  std::optional<core::DType> reduce_dtype;  // of gradients on the wire; default: gradient type
  // Greatest norm of all gradients of a step: greater ones are scaled down to it. 0: any.
  double clip = 0;
  // Of fp16: what the loss's gradient is multiplied by, so that small gradients of layers stay
  // numbers, and what the update divides by. 0: a dynamic one (LossScale). 1: none.
  double loss_scale = 0;

  friend bool operator==(const Job&, const Job&) = default;
};

// The scale of the loss's gradient in fp16 [mixed]. A step whose gradients are not all finite
// updates nothing; the scale is then halved, and doubled after `interval` steps without one. Every
// rank keeps the same state, which follows from the norm alone.
struct LossScale {
  double initial = 0;                  // 0: none
  std::int64_t interval = 0;           // 0: it stays as it is
  // Elements of the state, in f64 (exec/host/loss_scale.hpp).
  static constexpr std::int64_t kElements = 6;
};
LossScale loss_scale_of(const Job& job);

// Whether a step multiplies its loss's gradient, and leaves an update out where that overflowed.
inline bool scales_loss(const Job& job) {
  return job.mode != Mode::inference && job.precision == core::DType::f16 && job.loss_scale != 1;
}
// Whether the norm of all gradients is known before the first update.
inline bool takes_norm(const Job& job) { return job.clip > 0 || scales_loss(job); }

// Job::loss_scale as users write it: dynamic, none, a number from 1 to kMostLossScale.
std::string loss_scale_text(double scale);
std::optional<double> loss_scale_from_text(std::string_view text);

}  // namespace planner
