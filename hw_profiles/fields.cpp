#include "hw_profiles/fields.hpp"

#include <array>
#include <type_traits>

#include "core/check.hpp"

namespace hw_profiles {
namespace {

// Conversions between a member's type and a number in its base unit.
template <class T>
struct Convert {  // a Quantity
  static double number(T v) { return static_cast<double>(v.value()); }
  static T value(double n) { return T(static_cast<typename T::rep>(n)); }
};
template <>
struct Convert<double> {
  static double number(double v) { return v; }
  static double value(double n) { return n; }
};
template <>
struct Convert<int> {
  static double number(int v) { return v; }
  static int value(double n) { return static_cast<int>(n); }
};
template <>
struct Convert<bool> {
  static double number(bool v) { return v ? 1 : 0; }
  static bool value(double n) { return n != 0; }
};
template <>
struct Convert<LinkKind> {
  static double number(LinkKind v) { return static_cast<int>(v); }
  static LinkKind value(double n) { return static_cast<LinkKind>(static_cast<int>(n)); }
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <auto part, auto member>
using MemberType = std::remove_cvref_t<decltype((std::declval<Profile&>().*part).*member)>;

template <auto part, auto member>
std::optional<double> get(const Profile& profile) {
  using T = MemberType<part, member>;
  const T& slot = (profile.*part).*member;
  if constexpr (IsOptional<T>::value) {
    if (!slot) return std::nullopt;
    return Convert<typename T::value_type>::number(*slot);
  } else {
    return Convert<T>::number(slot);
  }
}

template <auto part, auto member>
void put(Profile& profile, std::optional<double> value) {
  using T = MemberType<part, member>;
  T& slot = (profile.*part).*member;
  if constexpr (IsOptional<T>::value) {
    slot = value ? T(Convert<typename T::value_type>::value(*value)) : T();
  } else {
    PLANNER_CHECK(value.has_value(), "a required field was emptied");
    slot = Convert<T>::value(*value);
  }
}

template <auto part, auto member>
constexpr Field field(std::string_view name, Kind kind) {
  return {name, kind, IsOptional<MemberType<part, member>>::value, &get<part, member>,
          &put<part, member>};
}

template <auto member>
constexpr Field gpu(std::string_view name, Kind kind) {
  return field<&Profile::gpu, member>(name, kind);
}
template <auto member>
constexpr Field node(std::string_view name, Kind kind) {
  return field<&Profile::node, member>(name, kind);
}
template <auto member>
constexpr Field framework(std::string_view name, Kind kind) {
  return field<&Profile::framework, member>(name, kind);
}
constexpr Field since_then(Field field) {
  field.later = true;
  return field;
}
template <auto member>
constexpr Field site(std::string_view name, Kind kind) {
  return field<&Profile::site, member>(name, kind);
}
template <auto member>
constexpr Field native(std::string_view name, Kind kind) {
  return field<&Profile::native, member>(name, kind);
}

constexpr std::array kFields{
    gpu<&Gpu::compute_capability>("gpu.compute_capability", Kind::capability),
    gpu<&Gpu::die_gpcs>("gpu.die_gpcs", Kind::count),
    gpu<&Gpu::die_sms>("gpu.die_sms", Kind::count),
    gpu<&Gpu::enabled_sms>("gpu.enabled_sms", Kind::count),
    gpu<&Gpu::tensor_cores_per_sm>("gpu.tensor_cores_per_sm", Kind::count),
    gpu<&Gpu::tensor_fma_per_cycle>("gpu.tensor_fma_per_cycle", Kind::count),
    gpu<&Gpu::boost_clock>("gpu.boost_clock", Kind::hertz),
    gpu<&Gpu::tensor_clock>("gpu.tensor_clock", Kind::hertz),
    gpu<&Gpu::peak_f64>("gpu.peak_f64", Kind::flops_per_second),
    gpu<&Gpu::peak_f32>("gpu.peak_f32", Kind::flops_per_second),
    gpu<&Gpu::peak_tf32>("gpu.peak_tf32", Kind::flops_per_second),
    gpu<&Gpu::peak_16bit>("gpu.peak_16bit", Kind::flops_per_second),
    gpu<&Gpu::peak_f8>("gpu.peak_f8", Kind::flops_per_second),
    gpu<&Gpu::peak_f4>("gpu.peak_f4", Kind::flops_per_second),
    gpu<&Gpu::memory>("gpu.memory", Kind::bytes),
    gpu<&Gpu::usable>("gpu.usable", Kind::bytes),
    gpu<&Gpu::memory_bandwidth>("gpu.memory_bandwidth", Kind::bytes_per_second),
    gpu<&Gpu::memory_efficiency>("gpu.memory_efficiency", Kind::fraction),
    gpu<&Gpu::l2>("gpu.l2", Kind::bytes),
    gpu<&Gpu::nvlink_bandwidth>("gpu.nvlink_bandwidth", Kind::bytes_per_second),
    gpu<&Gpu::nvlink_effective>("gpu.nvlink_effective", Kind::bytes_per_second),
    gpu<&Gpu::pcie_generation>("gpu.pcie_generation", Kind::count),
    gpu<&Gpu::pcie_lanes>("gpu.pcie_lanes", Kind::count),
    gpu<&Gpu::pcie_bandwidth>("gpu.pcie_bandwidth", Kind::bytes_per_second),
    gpu<&Gpu::pcie_effective>("gpu.pcie_effective", Kind::bytes_per_second),
    gpu<&Gpu::peer_to_peer>("gpu.peer_to_peer", Kind::flag),
    gpu<&Gpu::tdp>("gpu.tdp", Kind::watts),
    gpu<&Gpu::price>("gpu.price", Kind::dollars_per_hour),
    gpu<&Gpu::gemm_efficiency>("gpu.gemm_efficiency", Kind::fraction),
    gpu<&Gpu::gemm_sustained>("gpu.gemm_sustained", Kind::fraction),
    gpu<&Gpu::sustained_spread>("gpu.sustained_spread", Kind::ratio),
    gpu<&Gpu::gemm_efficiency_f8>("gpu.gemm_efficiency_f8", Kind::fraction),
    gpu<&Gpu::gemm_wave_loss>("gpu.gemm_wave_loss", Kind::ratio),
    gpu<&Gpu::gemm_prologue_k>("gpu.gemm_prologue_k", Kind::count),
    gpu<&Gpu::attention_flash2>("gpu.attention_flash2", Kind::fraction),
    gpu<&Gpu::attention_flash1>("gpu.attention_flash1", Kind::fraction),
    gpu<&Gpu::attention_fused>("gpu.attention_fused", Kind::fraction),
    gpu<&Gpu::context>("gpu.context", Kind::bytes),
    gpu<&Gpu::workspace>("gpu.workspace", Kind::bytes),
    gpu<&Gpu::kernel_launch>("gpu.kernel_launch", Kind::seconds),
    node<&Node::gpus_per_node>("node.gpus_per_node", Kind::count),
    node<&Node::link>("node.link", Kind::link),
    node<&Node::link_bandwidth>("node.link_bandwidth", Kind::bytes_per_second),
    node<&Node::link_latency>("node.link_latency", Kind::seconds),
    node<&Node::pair_bandwidth>("node.pair_bandwidth", Kind::bytes_per_second),
    node<&Node::pair_latency>("node.pair_latency", Kind::seconds),
    node<&Node::host_bandwidth>("node.host_bandwidth", Kind::bytes_per_second),
    node<&Node::hold_bandwidth>("node.hold_bandwidth", Kind::bytes_per_second),
    node<&Node::nics>("node.nics", Kind::count),
    node<&Node::internode_bandwidth>("node.internode_bandwidth", Kind::bytes_per_second),
    node<&Node::internode_efficiency>("node.internode_efficiency", Kind::fraction),
    node<&Node::internode_latency>("node.internode_latency", Kind::seconds),
    node<&Node::rank_wait>("node.rank_wait", Kind::seconds),
    node<&Node::tree_wait>("node.tree_wait", Kind::seconds),
    node<&Node::nccl_latency>("node.nccl_latency", Kind::seconds),
    node<&Node::nccl_low_latency>("node.nccl_low_latency", Kind::flag),
    node<&Node::nccl_nvls>("node.nccl_nvls", Kind::flag),
    node<&Node::nccl_buffer>("node.nccl_buffer", Kind::bytes),
    node<&Node::nccl_nvls_chunk>("node.nccl_nvls_chunk", Kind::bytes),
    node<&Node::nccl_minor>("node.nccl_minor", Kind::count),
    node<&Node::host_memory>("node.host_memory", Kind::bytes),
    native<&Native::kernel_submit>("native.kernel_submit", Kind::seconds),
    native<&Native::graph_launch>("native.graph_launch", Kind::seconds),
    native<&Native::gemm_sustained>("native.gemm_sustained", Kind::fraction),
    native<&Native::memory_efficiency>("native.memory_efficiency", Kind::fraction),
    native<&Native::attention_forward>("native.attention_forward", Kind::fraction),
    native<&Native::attention_backward>("native.attention_backward", Kind::fraction),
    native<&Native::narrow_forward>("native.narrow_forward", Kind::ratio),
    native<&Native::narrow_backward>("native.narrow_backward", Kind::ratio),
    framework<&Framework::overlap_gradients>("framework.overlap_gradients", Kind::flag),
    framework<&Framework::overlap_divided>("framework.overlap_divided", Kind::flag),
    since_then(framework<&Framework::gathers_ahead_of_adapters>(
        "framework.gathers_ahead_of_adapters", Kind::flag)),
    framework<&Framework::bucket>("framework.bucket", Kind::bytes),
    framework<&Framework::caching_allocator>("framework.caching_allocator", Kind::flag),
    framework<&Framework::kernel_submit>("framework.kernel_submit", Kind::seconds),
    framework<&Framework::kernels_gemm>("framework.kernels_gemm", Kind::ratio),
    framework<&Framework::kernels_norm>("framework.kernels_norm", Kind::ratio),
    framework<&Framework::kernels_elementwise>("framework.kernels_elementwise", Kind::ratio),
    framework<&Framework::kernels_attention>("framework.kernels_attention", Kind::ratio),
    framework<&Framework::kernels_softmax>("framework.kernels_softmax", Kind::ratio),
    framework<&Framework::kernels_collective>("framework.kernels_collective", Kind::ratio),
    framework<&Framework::step_host>("framework.step_host", Kind::seconds),
    framework<&Framework::traffic_elementwise>("framework.traffic_elementwise", Kind::ratio),
    framework<&Framework::traffic_norm>("framework.traffic_norm", Kind::ratio),
    framework<&Framework::traffic_loss>("framework.traffic_loss", Kind::ratio),
    framework<&Framework::traffic_rotary>("framework.traffic_rotary", Kind::ratio),
    framework<&Framework::traffic_gated>("framework.traffic_gated", Kind::ratio),
    framework<&Framework::traffic_adapter>("framework.traffic_adapter", Kind::ratio),
    framework<&Framework::traffic_compiled>("framework.traffic_compiled", Kind::ratio),
    framework<&Framework::passes_softmax>("framework.passes_softmax", Kind::ratio),
    framework<&Framework::passes_unfused>("framework.passes_unfused", Kind::ratio),
    framework<&Framework::vendor_attention>("framework.vendor_attention", Kind::flag),
    since_then(framework<&Framework::memory_efficient_attention>(
        "framework.memory_efficient_attention", Kind::flag)),
    framework<&Framework::exposed_tensor>("framework.exposed_tensor", Kind::ratio),
    framework<&Framework::exposed_overlapped>("framework.exposed_overlapped", Kind::ratio),
    framework<&Framework::hides_rows>("framework.hides_rows", Kind::flag),
    framework<&Framework::recomputes_pointwise>("framework.recomputes_pointwise", Kind::flag),
    since_then(framework<&Framework::recomputes_modules>(
        "framework.recomputes_modules", Kind::flag)),
    since_then(framework<&Framework::trains_mtp>("framework.trains_mtp", Kind::flag)),
    framework<&Framework::uneven_shares>("framework.uneven_shares", Kind::flag),
    framework<&Framework::shares_key_heads>("framework.shares_key_heads", Kind::flag),
    since_then(framework<&Framework::recomputes_one_in_k>(
        "framework.recomputes_one_in_k", Kind::flag)),
    framework<&Framework::collective_sync>("framework.collective_sync", Kind::seconds),
    framework<&Framework::kept_norm>("framework.kept_norm", Kind::ratio),
    framework<&Framework::kept_gated>("framework.kept_gated", Kind::ratio),
    framework<&Framework::kept_softmax>("framework.kept_softmax", Kind::ratio),
    framework<&Framework::kept_probabilities>("framework.kept_probabilities", Kind::ratio),
    framework<&Framework::kept_unfused>("framework.kept_unfused", Kind::ratio),
    framework<&Framework::kept_rotary>("framework.kept_rotary", Kind::ratio),
    framework<&Framework::kept_returned_row>("framework.kept_returned_row", Kind::ratio),
    framework<&Framework::kept_product_input>("framework.kept_product_input", Kind::ratio),
    framework<&Framework::kept_logits>("framework.kept_logits", Kind::ratio),
    framework<&Framework::kept_logits_compiled>("framework.kept_logits_compiled", Kind::ratio),
    framework<&Framework::gathers_logits>("framework.gathers_logits", Kind::flag),
    framework<&Framework::aligned_logits>("framework.aligned_logits", Kind::flag),
    framework<&Framework::loss_chunks>("framework.loss_chunks", Kind::count),
    framework<&Framework::stand_ins>("framework.stand_ins", Kind::flag),
    framework<&Framework::wide_gradients>("framework.wide_gradients", Kind::flag),
    framework<&Framework::root_unit>("framework.root_unit", Kind::flag),
    framework<&Framework::whole_scales>("framework.whole_scales", Kind::flag),
    framework<&Framework::fixed_memory>("framework.fixed_memory", Kind::bytes),
    framework<&Framework::pass_gradients>("framework.pass_gradients", Kind::flag),
    framework<&Framework::reducer_buckets>("framework.reducer_buckets", Kind::flag),
    framework<&Framework::adapter_inputs>("framework.adapter_inputs", Kind::flag),
    framework<&Framework::update_copies>("framework.update_copies", Kind::flag),
    framework<&Framework::frozen_f8>("framework.frozen_f8", Kind::flag),
    framework<&Framework::nvfp4_products>("framework.nvfp4_products", Kind::flag),
    framework<&Framework::f8_weight_orders>("framework.f8_weight_orders", Kind::count),
    framework<&Framework::gradients_as_reduced>("framework.gradients_as_reduced", Kind::flag),
    framework<&Framework::row_buffers>("framework.row_buffers", Kind::count),
    framework<&Framework::rows_waiting>("framework.rows_waiting", Kind::count),
    framework<&Framework::world_groups>("framework.world_groups", Kind::count),
    framework<&Framework::model_group>("framework.model_group", Kind::flag),
    framework<&Framework::host_ahead>("framework.host_ahead", Kind::flag),
    framework<&Framework::block_host>("framework.block_host", Kind::seconds),
    framework<&Framework::collective_submit>("framework.collective_submit", Kind::seconds),
    framework<&Framework::activation_waits>("framework.activation_waits", Kind::ratio),
    framework<&Framework::accumulate_traffic>("framework.accumulate_traffic", Kind::ratio),
    framework<&Framework::expert_submit>("framework.expert_submit", Kind::seconds),
    framework<&Framework::expert_bias_forward>("framework.expert_bias_forward", Kind::ratio),
    framework<&Framework::expert_bias_backward>("framework.expert_bias_backward", Kind::ratio),
    framework<&Framework::traffic_clamp>("framework.traffic_clamp", Kind::ratio),
    framework<&Framework::gelu_in_product>("framework.gelu_in_product", Kind::flag),
    framework<&Framework::updates_over_bus>("framework.updates_over_bus", Kind::flag),
    framework<&Framework::attention_f32>("framework.attention_f32", Kind::ratio),
    framework<&Framework::executor_kernels>("framework.executor_kernels", Kind::flag),
    framework<&Framework::bias_gradient>("framework.bias_gradient", Kind::ratio),
    framework<&Framework::divides_by_cost>("framework.divides_by_cost", Kind::flag),
    framework<&Framework::kernels_adapter>("framework.kernels_adapter", Kind::ratio),
    framework<&Framework::launch_blend>("framework.launch_blend", Kind::ratio),
    framework<&Framework::successor_capability>("framework.successor_capability",
                                                Kind::capability),
    site<&Site::runs>("site.runs", Kind::count),
    site<&Site::pace>("site.pace", Kind::ratio),
    site<&Site::device>("site.device", Kind::ratio),
    site<&Site::host>("site.host", Kind::ratio),
    site<&Site::links>("site.links", Kind::ratio),
    site<&Site::network>("site.network", Kind::ratio),
    site<&Site::device_left>("site.device_left", Kind::ratio),
    site<&Site::host_left>("site.host_left", Kind::ratio),
    site<&Site::links_left>("site.links_left", Kind::ratio),
    site<&Site::network_left>("site.network_left", Kind::ratio),
    site<&Site::measured>("site.measured", Kind::count),
};

}  // namespace

std::span<const Field> fields() { return kFields; }

const Field* find_field(std::string_view name) {
  for (const Field& f : kFields)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace hw_profiles
