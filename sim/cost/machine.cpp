#include "sim/cost/machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hw_profiles/mixed.hpp"
#include "planner/question/nvfp4.hpp"
#include "sim/cost/mixed.hpp"

namespace cost {

// K0 of cards whose profile states none, in a K loop step of common 16-bit kernels: the value that
// every GPU profile carries. CPUs state none and get no prologue.
static double prologue(const hw_profiles::Gpu& gpu) { return gpu.gemm_prologue_k.value_or(0); }

// Where a profile states none: what PCIe 3 x16 keeps (te42kyfo/gpu-benches), and eight channels of
// DDR4-3200, usual in servers (unverified).
static constexpr core::BytesPerSecond kPcie3(12.35e9), kHostMemory(204.8e9);

// Bytes moved for each element of a product's input, and of its gradient, where it is cast to 8
// bits. With one scale a tensor one kernel reads 16 bits and writes the cast and its transpose,
// which the product that sums over rows takes (NVIDIA/TransformerEngine, common/transpose/
// cast_transpose.cu). With a scale for each row the cast along columns has others: each of the two
// reads once for the scales and once to cast (pytorch/ao, float8/float8_linear.py).
static constexpr double kTensorwiseCast = 2 + 1 + 1, kRowwiseCast = 2 * (2 + 2 + 1);
// NVFP4: one kernel reads 16 bits for the tensor's scale. A second one reads them again, and writes
// codes and scales by rows and by columns (NVIDIA/TransformerEngine, common/hadamard_transform/
// hadamard_transform.cu and row_cast_col_hadamard_transform_cast_fusion.cu).
static constexpr double kNvfp4Cast = 2 + 2 + 2 * planner::kNvfp4Bytes;

// CUTLASS and cuBLAS reach more than 0.9 of a V100's f32 peak (NVIDIA, announcement of CUTLASS).
static constexpr double kVectorGemm = 0.9;

// Bytes per weight that decoding gptq moves by AutoGPTQ's torch operators (9f7d370,
// auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py, as it trains): the shift to i32 4.5, the cast
// to i8 5, the mask 2, the zero point 2, the scale 3; and by one kernel, codes and 16 bits. Kernels
// that broadcast, or have one byte an element, do not fill the memory's rate: by 24 published steps
// of the Trainer they take 1.5 times as long (chosen by hand; 1.0 and 1.3 leave the mean error of
// its 57 steps at 14.3 and 12.1 % instead of 10.8 %).
static constexpr double kGptqOperators = 4.5 + 5 + 2 + 2 + 3, kGptqKernel = 0.5 + 2,
                        kGptqPace = 1.5;

static double published_attention(const hw_profiles::Profile& profile, const KernelUse& use) {
  const hw_profiles::Gpu& gpu = profile.gpu;
  const double flash2 = gpu.attention_flash2.value_or(gpu.attention_flash1.value_or(0));
  if (use.attention == "flash1") return gpu.attention_flash1.value_or(flash2);
  if (profile.framework.vendor_attention && gpu.attention_fused) return *gpu.attention_fused;
  return flash2;
}

// In 256 MiB few models compute attention's backward pass in one call: a micro-batch of 32 of GPT-2
// takes 805 MB. On an H100 cuDNN made 401 TFLOP/s in one call where own kernels made 158 (heads of
// 128, 4096 tokens, reports/measured/h100_attention.json).
AttentionRoom attention_room(const hw_profiles::Profile& profile) {
  constexpr std::int64_t kShare = 32;
  AttentionRoom room;
  room.always = room.most = profile.gpu.workspace + profile.framework.fixed_memory;
  const bool asks = profile.gpu.compute_capability && profile.native.attention_backward &&
                    profile.framework.executor_kernels.value_or(false);
  if (asks) room.most = std::max(room.most, core::Bytes(profile.gpu.usable.value() / kShare));
  return room;
}

static void set_attention(const hw_profiles::Profile& profile, const KernelUse& use,
                          Machine& machine) {
  const double published = published_attention(profile, use);
  machine.attention_forward = machine.attention_backward = published;
  if (!machine.executor_kernels || use.attention != "flash2") return;
  machine.attention_forward = profile.native.attention_forward.value_or(published);
  machine.attention_backward = profile.native.attention_backward.value_or(published);
  machine.narrow_forward = profile.native.narrow_forward.value_or(machine.narrow_forward);
  machine.narrow_backward = profile.native.narrow_backward.value_or(machine.narrow_backward);
  if (profile.native.attention_backward) machine.attention_workspace = machine.attention_room.most;
}

// The part of their peak that products reach through whole steps, at most the best that anybody
// measured: a greater one speaks of the sheet's clock, not of kernels. This executor's is stated
// for a GPU that does nothing but products. In a step they are a share of the time, and the other
// kernels draw little power, so the power limit leaves products 1 / share times as much. Power
// grows with the cube of the clock (the voltage rises with it), so the clock is 1 / share^(1/3)
// times as high. That is within 2.2 % of three measurements on Hopper (reports/measured/README.md).
static double sustained(const hw_profiles::Profile& profile, bool executor_kernels,
                        double product_share) {
  const hw_profiles::Gpu& gpu = profile.gpu;
  const double published = gpu.gemm_sustained.value_or(gpu.gemm_efficiency);
  const bool own = executor_kernels && profile.native.gemm_sustained;
  const double kept =
      own ? *profile.native.gemm_sustained / std::cbrt(product_share) : published;
  return std::min(kept, gpu.gemm_efficiency);
}

// Products whose operands are cast to 8 or 4 bits.
static void set_narrow(const hw_profiles::Profile& profile, const KernelUse& use,
                       Machine& machine) {
  const bool f8 = use.fp8 && profile.gpu.peak_f8, f4 = use.nvfp4 && profile.gpu.peak_f4;
  if (f8 && !use.fp8_rowwise) machine.narrow_gemms = core::DType::f8;
  if (f4) machine.narrow_gemms = core::DType::f4;
  machine.narrow_casts = (f8 || f4) && !profile.framework.executor_kernels.value_or(false);
  if (!machine.narrow_casts) return;
  machine.narrow_cast = f4 ? kNvfp4Cast : use.fp8_rowwise ? kRowwiseCast : kTensorwiseCast;
}

static void add_framework(const hw_profiles::Framework& f, const KernelUse& use, bool gpu,
                          Machine& machine) {
  const bool softmax = use.attention == "fused_softmax", unfused = use.attention == "unfused";
  if (f.kernel_submit) {
    const auto host = [&](double kernels) { return *f.kernel_submit * kernels; };
    machine.host.gemm = host(f.kernels_gemm);
    machine.host.adapter = host(f.kernels_adapter.value_or(f.kernels_gemm));
    machine.host.norm = host(use.fused_norm || use.compile ? 1 : f.kernels_norm);
    machine.host.elementwise = host(use.compile ? 1 : f.kernels_elementwise);
    machine.host_ahead = f.host_ahead.value_or(false);
    machine.block_host = f.block_host.value_or(core::Seconds{});
    machine.launch_blend = f.launch_blend.value_or(0);
    machine.host.collective = f.collective_submit.value_or(host(f.kernels_collective));
    machine.host.experts = f.expert_submit.value_or(core::Seconds{});
    machine.host.update = f.step_host;
    machine.host.unfused = host(2 * f.kernels_softmax);
    machine.host.attention =
        host(softmax ? f.kernels_softmax : unfused ? 2 * f.kernels_softmax : f.kernels_attention);
  }
  const double compiled = use.compile ? f.traffic_compiled : 1;
  machine.elementwise_traffic = f.traffic_elementwise * compiled;
  // A compiler makes one kernel of a norm's operators.
  const bool one_norm = use.fused_norm || use.compile;
  machine.norm_traffic = one_norm ? machine.elementwise_traffic : f.traffic_norm;
  machine.loss_traffic = f.traffic_loss;
  machine.rotary_traffic = f.traffic_rotary * compiled;
  machine.gated_traffic = f.traffic_gated * compiled;
  machine.clamp_traffic = f.traffic_clamp.value_or(0);
  machine.expert_bias_forward = f.expert_bias_forward.value_or(0);
  machine.expert_bias_backward = f.expert_bias_backward.value_or(0);
  machine.adapter_traffic = f.traffic_adapter * compiled;
  machine.score_passes = softmax ? f.passes_softmax : unfused ? f.passes_unfused : 0;
  machine.unfused_passes = f.passes_unfused;
  machine.exposed_tensor = f.exposed_tensor;
  machine.exposed_overlapped = f.exposed_overlapped;
  machine.hides_rows = f.hides_rows;
  machine.collective_sync = f.collective_sync;
  machine.wide_gradients = f.wide_gradients && use.bf16;
  machine.gathers_logits = f.gathers_logits;
  machine.gelu_in_product = gpu && f.gelu_in_product.value_or(false);
  machine.bias_gradient = gpu ? f.bias_gradient.value_or(0) : 0;
  machine.accumulate_traffic = f.accumulate_traffic.value_or(0);
  machine.activation_waits = f.activation_waits.value_or(1);
}

static Machine machine_of_one_kind(const hw_profiles::Profile& profile, const KernelUse& use) {
  const hw_profiles::Gpu& gpu = profile.gpu;
  const hw_profiles::Node& node = profile.node;
  Machine machine;
  for (std::size_t i = 0; i < core::kDTypes; ++i)
    machine.peak[i] = hw_profiles::peak(gpu, static_cast<core::DType>(i)).value_or(
        core::FlopsPerSecond{});
  machine.executor_kernels =
      gpu.compute_capability && profile.framework.executor_kernels.value_or(false);
  machine.product_share = use.product_share;
  machine.gemm_efficiency = sustained(profile, machine.executor_kernels, use.product_share);
  // Products on vector units draw less power than tensor cores' and keep their clock: of what GEMMs
  // of the card keep, f32 keeps kVectorGemm of its peak.
  const bool vectors = gpu.compute_capability && machine.gemm_efficiency > 0;
  core::FlopsPerSecond& f32 = machine.peak[static_cast<std::size_t>(core::DType::f32)];
  const double kept_clock = std::max(1.0, kVectorGemm / machine.gemm_efficiency);
  if (vectors) f32 = f32 * kept_clock;
  if (vectors) machine.attention_f32 = profile.framework.attention_f32.value_or(0) / kept_clock;
  // What a step keeps of the best GEMM is a matter of clocks, the same for every type.
  const double kept = machine.gemm_efficiency / gpu.gemm_efficiency;
  machine.gemm_efficiency_f8 = gpu.gemm_efficiency_f8.value_or(gpu.gemm_efficiency) * kept;
  machine.gemm_wave_loss = gpu.gemm_wave_loss.value_or(machine.gemm_wave_loss);
  machine.gemm_prologue_k = prologue(gpu);
  machine.attention_room = attention_room(profile);
  set_attention(profile, use, machine);
  set_narrow(profile, use, machine);
  add_framework(profile.framework, use, gpu.compute_capability.has_value(), machine);
  if (use.quantization == "gptq") machine.decode_traffic = kGptqPace * kGptqOperators / kGptqKernel;
  machine.multiprocessors = gpu.enabled_sms;
  const auto& own_memory = profile.native.memory_efficiency;
  machine.memory = gpu.memory_bandwidth * (machine.executor_kernels && own_memory
                                               ? *own_memory
                                               : gpu.memory_efficiency);
  machine.launch = profile.native.graph_launch;
  machine.submit = profile.native.kernel_submit;
  machine.gpus_per_node = node.gpus_per_node;
  machine.link_latency = node.link_latency;
  machine.internode_latency = node.internode_latency;
  machine.rank_wait = node.rank_wait.value_or(core::Seconds{});
  machine.link = node.link_bandwidth;
  // [C6] A staged copy passes the host's memory twice, and all GPUs of the node copy at once.
  if (node.link == hw_profiles::LinkKind::host_staged && node.host_bandwidth)
    machine.link = std::min(machine.link, *node.host_bandwidth / (2.0 * node.gpus_per_node));
  machine.meshed = node.link == hw_profiles::LinkKind::nvlink_mesh;
  if (machine.meshed || node.link == hw_profiles::LinkKind::nvlink_pairs) {
    machine.pair = node.pair_bandwidth.value_or(core::BytesPerSecond{});
    machine.pair_latency = node.pair_latency.value_or(node.link_latency);
  }
  machine.hold = node.hold_bandwidth.value_or(core::BytesPerSecond{});
  machine.internode = node.internode_bandwidth * node.internode_efficiency.value_or(1);
  machine.host_link = gpu.pcie_effective.value_or(kPcie3);
  machine.host_memory = node.host_bandwidth.value_or(kHostMemory) / (1.0 * node.gpus_per_node);
  machine.updates_over_bus =
      gpu.compute_capability && profile.framework.updates_over_bus.value_or(false);
  if (gpu.compute_capability) {
    machine.fabric = make_fabric(profile);
    machine.fabric->tree_wait = machine.fabric->tree_wait * machine.activation_waits;
  }
  return machine;
}

Machine make_machine(const hw_profiles::Profile& profile, const KernelUse& use) {
  Machine machine = machine_of_one_kind(profile, use);
  if (profile.others.empty()) return machine;
  std::vector<int> first_rank{0};
  std::vector<Machine> kinds{machine};
  for (const hw_profiles::OtherGpus& other : profile.others) {
    first_rank.push_back(static_cast<int>(other.first_rank));
    kinds.push_back(machine_of_one_kind(other.profile, use));
  }
  machine.mixed = std::make_shared<Mixed>(
      make_mixed(std::move(first_rank), std::move(kinds),
                 machine_of_one_kind(hw_profiles::between_kinds(profile), use)));
  return machine;
}

}  // namespace cost
