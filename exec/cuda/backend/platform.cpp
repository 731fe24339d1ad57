#include "exec/cuda/backend/platform.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/host/quantise.hpp"
#include "exec/run/environment.hpp"
#include "sim/program/arguments.hpp"
#include "sim/program/replay.hpp"

namespace exec::cuda {
namespace {

// The device's copy of both code maps.
const float* upload_maps(Api& api, PoolHandle pool) {
  std::array<float, 512> maps{};
  std::ranges::copy(host::signed_map(), maps.begin());
  std::ranges::copy(host::unsigned_map(), maps.begin() + 256);
  auto* const on_device = static_cast<float*>(api.allocate(pool, sizeof maps));
  auto* const pinned = static_cast<float*>(api.allocate_pinned(sizeof maps));
  std::ranges::copy(maps, pinned);
  const StreamHandle stream = api.create_stream(false);
  api.copy_in(on_device, pinned, sizeof maps, stream);
  api.synchronise(stream);
  api.destroy(stream);
  api.release_pinned(pinned);
  return on_device;
}

// Ranges of all ranks on the card, and the workspaces that they have beside.
core::Bytes needed(const program::Program& p, const SharedDevice& device,
                   const std::optional<OwnRank>& own) {
  core::Bytes need{0};
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    if (own && p.class_of(own->rank) != static_cast<int>(c)) continue;
    const core::Bytes one = program::replay(p.classes[c]).reserved +
                            core::Bytes(static_cast<std::int64_t>(
                                workspace_of(device, p.classes[c], p.samples)));
    need += one * (own ? 1 : std::ssize(p.ranks_of(static_cast<int>(c))));
  }
  return need;
}

// Graphs in which several operators read what an activation reads.
core::Problems shared_inputs(const program::Program& p) {
  core::Problems found;
  for (const program::RankClass& k : p.classes)
    for (const program::Action& a : k.actions) {
      const bool adds = a.kind == program::ActionKind::input_gradient &&
                        (a.flags & program::kAccumulate) != 0;
      if (!adds) continue;
      const models::Operator& op = k.operators[a.op];
      if (!models::ops::is_unary(op.kind)) continue;
      found.push_back({"--backend cuda", "activations that alone read their input", op.name,
                       "execute the graph with --backend host"});
    }
  return found;
}

// Whether operators write what they keep for backward (models::KeptBeside) to an output of that
// name.
bool keeps_beside(const program::Program& p, std::string_view output) {
  const auto keeps = [&](const models::Operator& op) { return program::has_output(op, output); };
  return std::ranges::any_of(p.classes, [&](const program::RankClass& k) {
    return std::ranges::any_of(k.operators, keeps);
  });
}

void put(RunRecord& r, const char* key, const std::optional<double>& value, const char* unit) {
  if (value) r.environment[key] = fmt::format("{:.6g} {}", *value, unit);
}

}  // namespace

CudaPlatform::CudaPlatform(Api& api, const GpuChoices& choices, std::optional<OwnRank> own)
    : api_(api),
      choices_(choices),
      attention_(choices.attention, api, choices.deterministic),
      recorder_(api, choices.records),
      own_(own) {
  gelu_.by_products = choices.gelu_by_products;
  if (choices.products != nullptr || !choices.deterministic) api.time_products(choices.products);
  const DeviceInfo info = api.device();
  pool_ = api.create_pool();
  messages_ = std::make_unique<MessagePool>(api);
  device_ = std::make_unique<SharedDevice>(
      SharedDevice{api, *messages_, attention_, gelu_, recorder_, info});
  if (own_) device_->watch = own_->watch;
  if (own_) device_->ranges = own_->ranges;
  device_->context = api.context_bytes();
  device_->workspace = choices.workspace;
  device_->free = api.memory().free;   // before the first pool takes more than it is asked for
  device_->maps = upload_maps(api, pool_);
  before_ = api.readings();
}

CudaPlatform::~CudaPlatform() {
  messages_.reset();
  if (device_->maps != nullptr) api_.release(pool_, const_cast<float*>(device_->maps));
  api_.destroy(pool_);
}

// Refuses products in 8 bits that this backend's kernels or cuBLASLt do not compute. cuBLASLt wants
// sums of a multiple of 16 elements, and weight gradients sum over the rows of a micro-batch.
static void add_f8_problems(const program::Program& program, const planner::Job& job,
                            const DeviceInfo& device, core::Problems& found) {
  constexpr int kFirst = 89, kMultiple = 16;  // Ada; [cublasLtMatmul]
  if (10 * device.major + device.minor < kFirst)
    found.push_back({"precision", "bf16 or fp16 on " + device.name, "fp8",
                     "plan with --precision bf16, or for a GPU of compute capability 8.9"});
  if (job.fp8_scaling != "tensorwise")
    found.push_back({"fp8_scaling", "tensorwise on a GPU", job.fp8_scaling,
                     "plan with --fp8-scaling tensorwise, or run it with --backend host"});
  if (job.seq_len % kMultiple != 0)
    found.push_back({"seq_len", "a multiple of 16 with fp8 on a GPU", std::to_string(job.seq_len),
                     "plan with another --seq"});
  const auto is_of_experts = [](const models::Operator& op) {
    return op.kind == models::OpKind::expert_linear;
  };
  const bool experts = std::ranges::any_of(program.classes, [&](const program::RankClass& k) {
    return std::ranges::any_of(k.operators, is_of_experts);
  });
  if (experts)
    found.push_back({"precision", "bf16 or fp16 for a mixture of experts on a GPU", "fp8",
                     "plan with --precision bf16, or run it with --backend host"});
}

core::Problems CudaPlatform::problems(const program::Program& program, const planner::Job& job,
                                      std::span<const int>) {
  core::Problems found = kernel_problems(program, name(), computes,
                                         "execute it with --backend host, or another model: GPUs "
                                         "have transformers with heads of up to 256, and chains");
  for (core::Problem& p : shared_inputs(program)) found.push_back(std::move(p));
  if (job.precision == core::DType::f8) add_f8_problems(program, job, device_->info, found);
  if (job.quantization == "two_factor")
    found.push_back({"quantization", "none, int8 or nf4 on a GPU", job.quantization,
                     "plan with --quantization nf4"});
  if (keeps_beside(program, "probabilities"))
    found.push_back({"attention", "flash2 or flash1 on a GPU", job.attention,
                     "plan with --attention flash2"});
  if (choices_.attention == AttentionKernel::library && !attention_.absent().empty())
    found.push_back({"--attention-kernel cudnn", "cuDNN and its frontend", attention_.absent(),
                     "or use --attention-kernel own"});
  if (choices_.products != nullptr) {
    const std::string gpu = device_->info.name, library = api_.product_library();
    ProductChoices& kept = *choices_.products;
    if (kept.gpu.empty()) kept.gpu = gpu, kept.library = library;
    if (kept.gpu != gpu || kept.library != library)
      found.push_back({"--tuned-products", fmt::format("choices for {} and {}", gpu, library),
                       fmt::format("a file of {} and {}", kept.gpu, kept.library),
                       "name another file for this GPU and library"});
  }
  if (!found.empty()) return found;
  const core::Bytes need = needed(program, *device_, own_), have = api_.memory().free;
  if (need > have)
    found.push_back({"--backend cuda",
                     "at most " + core::to_text(have) + " of free memory on " + device_->info.name +
                         (own_ ? " for rank " + std::to_string(own_->rank)
                               : " for all " + std::to_string(program.mesh.ranks()) + " ranks"),
                     core::to_text(need),
                     "plan fewer --gpus, a smaller --global-batch, recomputation or sharding"});
  device_->ranks = own_ ? 1 : program.mesh.ranks();
  return found;
}

std::unique_ptr<Backend> CudaPlatform::backend(const program::Program& program,
                                               const program::RankClass& rank_class, int rank) {
  if (own_) device_->layout = program.class_of(rank);
  return std::make_unique<CudaBackend>(*device_, rank_class, program.samples, rank);
}

std::string CudaPlatform::device_states() {
  const Readings after = api_.readings();
  std::string text;
  const auto add = [&](const std::string& more, const char* when) {
    if (!more.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", when, more);
  };
  add(to_text(before_), "before");
  add(to_text(after), "after");
  const auto carried = [&](const char* way, const std::optional<core::Bytes>& from,
                           const std::optional<core::Bytes>& to) {
    if (from && to) add(fmt::format("{} bytes", (*to - *from).value()), way);
  };
  carried("sent over NVLink", before_.nvlink_sent, after.nvlink_sent);
  carried("received over NVLink", before_.nvlink_received, after.nvlink_received);
  return text;
}

void CudaPlatform::describe(RunRecord& r, RanksAre) {
  const DeviceInfo& d = device_->info;
  r.device = d.name;
  r.environment = environment();
  r.environment["compute_capability"] = fmt::format("{}.{}", d.major, d.minor);
  r.environment["cuda_driver"] = d.driver;
  r.environment["cuda_runtime"] = d.runtime;
  r.environment["pci"] = d.pci;
  r.environment["attention"] = attention_.text();
  r.environment["gelu"] = gelu_.text();
  if (choices_.products != nullptr)
    r.environment["tuned_products"] = fmt::format(
        "{} shapes in the file, {} of them timed by this run", choices_.products->of.size(),
        choices_.products->added);
  r.environment["deterministic"] = choices_.deterministic ? "on" : "off";
  r.environment["device_times"] = recorder_.text();
  if (r.ranks > 1 && !own_) r.environment["ranks_per_gpu"] = std::to_string(r.ranks);
  const Readings after = api_.readings();
  if (!after.driver.empty()) r.environment["driver_version"] = after.driver;
  put(r, "sm_clock", after.sm_mhz, "MHz");
  put(r, "memory_clock", after.memory_mhz, "MHz");
  put(r, "power", after.watts, "W");
  put(r, "temperature", after.celsius, "C");
  if (before_.joules && after.joules)
    put(r, "energy_of_the_run", *after.joules - *before_.joules, "J");
  if (const std::string states = device_states(); !states.empty() && !own_)
    r.environment["gpu"] = states;
}

}  // namespace exec::cuda
