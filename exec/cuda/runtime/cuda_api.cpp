#include "exec/cuda/runtime/cuda_api.hpp"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "core/parse_units.hpp"
#include "exec/cuda/runtime/check.hpp"
#include "exec/cuda/runtime/cudnn_attention.hpp"
#include "exec/cuda/runtime/cupti_activity.hpp"
#include "exec/cuda/runtime/products.hpp"
#include "exec/cuda/nvml/nvml.hpp"

namespace exec::cuda {
namespace {

constexpr std::size_t kUnaskedShared = std::size_t{48} << 10;  // more must be asked for, once
// Short beside a step of milliseconds, and long beside a query of about a microsecond.
constexpr std::chrono::microseconds kBetweenLooks{20};

std::string version(int number) {      // 13000: 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

cudaStream_t raw(StreamHandle s) { return reinterpret_cast<cudaStream_t>(s); }
cudaEvent_t raw(EventHandle e) { return reinterpret_cast<cudaEvent_t>(e); }
cudaMemPool_t raw(PoolHandle p) { return reinterpret_cast<cudaMemPool_t>(p); }
cudaGraphExec_t raw(GraphHandle g) { return reinterpret_cast<cudaGraphExec_t>(g); }

// Of a query: whether what was asked about is done. "Not ready" is an answer, not an error.
bool is_past(cudaError_t status, const char* call) {
  if (status == cudaErrorNotReady) {
    quietly(status);
    return false;
  }
  check(status, call);
  return true;
}

core::Bytes bytes(std::uint64_t n) { return core::Bytes(static_cast<std::int64_t>(n)); }

std::string sized(const char* call, std::size_t n) {
  return std::string(call) + "(" + core::to_text(bytes(n)) + ")";
}

// Says what is wrong with the driver, or the number of the GPU, before the runtime does it less
// clearly.
void check_driver(int device) {
  int driver = 0, runtime = 0, count = 0;
  quietly(cudaDriverGetVersion(&driver));
  quietly(cudaRuntimeGetVersion(&runtime));
  if (driver == 0)
    throw DeviceFailure(FailureKind::no_driver, "cudaDriverGetVersion", "libcuda.so.1 is absent");
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    throw DeviceFailure(FailureKind::old_driver, "cudaGetDeviceCount",
                        "the driver knows CUDA " + version(driver) + ", this binary needs " +
                            version(runtime));
  check(status, "cudaGetDeviceCount");
  if (count == 0) throw DeviceFailure(FailureKind::no_device, "cudaGetDeviceCount", "0");
  if (device < 0 || device >= count)
    throw DeviceFailure(FailureKind::no_device, "GPU " + std::to_string(device),
                        "the driver shows GPUs 0 to " + std::to_string(count - 1));
}

class CudaApi final : public Api {
 public:
  explicit CudaApi(int device);
  ~CudaApi() override { quietly(cudaStreamDestroy(idle_)); }

  void bind() override { check(cudaSetDevice(info_.index), "cudaSetDevice"); }

  DeviceInfo device() override { return info_; }
  DeviceMemory memory() override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {bytes(free), bytes(total)};
  }
  core::Bytes context_bytes() override { return context_; }
  Readings readings() override;
  Topology topology() override;

  PoolHandle create_pool() override;
  void destroy(PoolHandle pool) noexcept override { quietly(cudaMemPoolDestroy(raw(pool))); }
  PoolMarks marks(PoolHandle pool) override;
  void* allocate(PoolHandle pool, std::size_t n) override;
  void release(PoolHandle, void* memory) noexcept override {
    quietly(cudaFreeAsync(memory, idle_));
    quietly(cudaStreamSynchronize(idle_));
  }
  void* allocate_pinned(std::size_t n) override {
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, n, cudaHostAllocDefault);
    if (status == cudaErrorMemoryAllocation)
      throw DeviceFailure(FailureKind::out_of_host_memory, sized("cudaHostAlloc", n),
                          cudaGetErrorString(cudaGetLastError()));
    check(status, sized("cudaHostAlloc", n));
    return memory;
  }
  void release_pinned(void* memory) noexcept override { quietly(cudaFreeHost(memory)); }

  StreamHandle create_stream(bool urgent) override;
  void destroy(StreamHandle s) noexcept override {
    quietly(cudaStreamSynchronize(raw(s)));
    quietly(cudaStreamDestroy(raw(s)));
  }
  EventHandle create_event(bool timed) override {
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreate");
    return reinterpret_cast<EventHandle>(e);
  }
  void destroy(EventHandle e) noexcept override { quietly(cudaEventDestroy(raw(e))); }
  void record(EventHandle e, StreamHandle s) override {
    check(cudaEventRecord(raw(e), raw(s)), "cudaEventRecord");
  }
  void wait(StreamHandle s, EventHandle e) override {
    check(cudaStreamWaitEvent(raw(s), raw(e), 0), "cudaStreamWaitEvent");
  }
  void synchronise(StreamHandle s) override {
    check(cudaStreamSynchronize(raw(s)), "cudaStreamSynchronize");
  }
  void synchronise(EventHandle e) override {
    check(cudaEventSynchronize(raw(e)), "cudaEventSynchronize");
  }
  void synchronise(StreamHandle s, const std::function<void()>& look) override {
    while (!is_past(cudaStreamQuery(raw(s)), "cudaStreamQuery")) {
      look();
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  bool happened(EventHandle e) override {
    return is_past(cudaEventQuery(raw(e)), "cudaEventQuery");
  }
  double seconds_between(EventHandle from, EventHandle to) override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, raw(from), raw(to)), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }

  void copy(const RowCopy& c, StreamHandle s) override;
  void copy_in(void* to, const void* pinned, std::size_t n, StreamHandle s) override {
    check(cudaMemcpyAsync(to, pinned, n, cudaMemcpyDefault, raw(s)), "cudaMemcpyAsync");
  }
  void copy_out(void* pinned, const void* from, std::size_t n, StreamHandle s) override {
    check(cudaMemcpyAsync(pinned, from, n, cudaMemcpyDefault, raw(s)), "cudaMemcpyAsync");
  }
  void set_zero(void* to, std::size_t n, StreamHandle s) override {
    check(cudaMemsetAsync(to, 0, n, raw(s)), "cudaMemsetAsync");
  }
  void launch(const Launch& l, StreamHandle s) override;
  void time_products(ProductChoices* kept) override { products_->time_algorithms(kept); }
  std::string product_library() override {
    return "cuBLASLt " + std::to_string(cublasLtGetVersion());
  }
  void multiply(const host::MixedGemm& g, void* workspace, StreamHandle s) override {
    products_->multiply(g, workspace, raw(s));
  }
  bool multiply_gelu(const host::MixedGemm& g, const host::View& before, bool gradient,
                     void* workspace, StreamHandle s) override {
    return products_->multiply_gelu(g, before, gradient, workspace, raw(s));
  }
  std::size_t product_workspace() override { return Products::kWorkspace; }
  OpenedAttention open_attention() override {
    const core::Bytes before = memory().free;
    OpenedAttention opened = open_cudnn();
    context_ += std::max(before - memory().free, core::Bytes(0));
    return opened;
  }

  OpenedActivity open_activity() override { return open_cupti(); }

  // Relaxed: other threads give work to streams that joined, and memory may be asked for meanwhile.
  void begin_capture(StreamHandle origin) override {
    check(cudaStreamBeginCapture(raw(origin), cudaStreamCaptureModeRelaxed),
          "cudaStreamBeginCapture");
  }
  GraphHandle end_capture(StreamHandle origin) override;
  void abandon_capture(StreamHandle origin) noexcept override {
    cudaGraph_t kept = nullptr;
    quietly(cudaStreamEndCapture(raw(origin), &kept));
    if (kept != nullptr) quietly(cudaGraphDestroy(kept));
  }
  void launch(GraphHandle graph, StreamHandle s) override {
    check(cudaGraphLaunch(raw(graph), raw(s)), "cudaGraphLaunch");
  }
  void destroy(GraphHandle graph) noexcept override {
    quietly(cudaGraphExecDestroy(raw(graph)));
  }

  void push_range(const char* name) override { nvtxRangePushA(name); }
  void pop_range() override { nvtxRangePop(); }

 private:
  void read_device();
  void ask_for_shared(const Launch& l);

  DeviceInfo info_;
  core::Bytes context_{};
  cudaStream_t idle_ = nullptr;        // for allocations
  std::unique_ptr<Products> products_;
  std::unique_ptr<Nvml> nvml_;
  std::mutex mutex_;
  std::map<const void*, std::size_t> granted_;  // dynamic shared memory, by kernel
};

// What the driver reports as used before and after the context and cuBLASLt stand.
CudaApi::CudaApi(int device) {
  check_driver(device);
  info_.index = device;
  std::array<char, 32> pci{};
  check(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), device),
        "cudaDeviceGetPCIBusId");
  nvml_ = std::make_unique<Nvml>(pci.data());
  const auto before = nvml_->memory();
  bind();
  check(cudaFree(nullptr), "cudaFree(0)");
  products_ = std::make_unique<Products>();
  check(cudaStreamCreateWithFlags(&idle_, cudaStreamNonBlocking), "cudaStreamCreate");
  read_device();
  info_.pci = pci.data();
  const auto after = nvml_->memory();
  if (before && after && after->used > before->used) {
    context_ = bytes(after->used - before->used);
    return;
  }
  // Without NVML: all that is not free, on a card that nobody else uses.
  const DeviceMemory now = memory();
  context_ = now.total - now.free;
}

void CudaApi::read_device() {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, info_.index), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  info_ = {p.name, p.major, p.minor, p.multiProcessorCount, p.sharedMemPerBlockOptin,
           bytes(p.totalGlobalMem), version(driver), version(runtime), "", info_.index};
}

Readings CudaApi::readings() { return readings_of(*nvml_); }
Topology CudaApi::topology() { return read_topology(NvmlLibrary()); }

PoolHandle CudaApi::create_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, info_.index};
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  std::uint64_t keep = ~0ULL;          // nothing goes back to the device before the pool does
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  return reinterpret_cast<PoolHandle>(pool);
}

PoolMarks CudaApi::marks(PoolHandle pool) {
  std::uint64_t used = 0, reserved = 0;
  check(cudaMemPoolGetAttribute(raw(pool), cudaMemPoolAttrUsedMemHigh, &used),
        "cudaMemPoolGetAttribute");
  check(cudaMemPoolGetAttribute(raw(pool), cudaMemPoolAttrReservedMemHigh, &reserved),
        "cudaMemPoolGetAttribute");
  return {bytes(used), bytes(reserved)};
}

// Usable by every stream at once: the allocation has happened when this returns.
void* CudaApi::allocate(PoolHandle pool, std::size_t n) {
  void* memory = nullptr;
  check(cudaMallocFromPoolAsync(&memory, n, raw(pool), idle_),
        sized("cudaMallocFromPoolAsync", n));
  check(cudaStreamSynchronize(idle_), "cudaStreamSynchronize");
  return memory;
}

StreamHandle CudaApi::create_stream(bool urgent) {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t s = nullptr;
  check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, urgent ? highest : lowest),
        "cudaStreamCreateWithPriority");
  return reinterpret_cast<StreamHandle>(s);
}

void CudaApi::copy(const RowCopy& c, StreamHandle s) {
  if (c.rows == 1)
    return check(cudaMemcpyAsync(c.to, c.from, c.width, cudaMemcpyDefault, raw(s)),
                 "cudaMemcpyAsync");
  check(cudaMemcpy2DAsync(c.to, c.to_pitch, c.from, c.from_pitch, c.width, c.rows,
                          cudaMemcpyDefault, raw(s)),
        "cudaMemcpy2DAsync");
}

void CudaApi::ask_for_shared(const Launch& l) {
  const std::scoped_lock lock(mutex_);
  std::size_t& granted = granted_[l.function];
  if (l.shared <= granted) return;
  check(cudaFuncSetAttribute(l.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(l.shared)),
        std::string("cudaFuncSetAttribute(") + l.name + ")");
  granted = l.shared;
}

void CudaApi::launch(const Launch& l, StreamHandle s) {
  if (l.shared > kUnaskedShared) ask_for_shared(l);
  const dim3 grid(l.grid.x, l.grid.y, l.grid.z), block(l.block.x, l.block.y, l.block.z);
  check(cudaLaunchKernel(l.function, grid, block, l.arguments, l.shared, raw(s)),
        std::string("kernel ") + l.name);
}

// What cannot be instantiated may still run plainly.
GraphHandle CudaApi::end_capture(StreamHandle origin) {
  cudaGraph_t kept = nullptr;
  check(cudaStreamEndCapture(raw(origin), &kept), "cudaStreamEndCapture");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&graph, kept, 0);
  quietly(cudaGraphDestroy(kept));
  if (status == cudaSuccess) return reinterpret_cast<GraphHandle>(graph);
  throw DeviceFailure(FailureKind::graph, "cudaGraphInstantiate",
                      cudaGetErrorString(cudaGetLastError()));
}

}  // namespace

std::unique_ptr<Api> open_cuda(int device) { return std::make_unique<CudaApi>(device); }

std::unique_ptr<Api> open_cuda_of_rank(int local_rank) {
  int count = 0;
  // Where this fails, opening says it better.
  if (cudaGetDeviceCount(&count) != cudaSuccess) quietly(cudaSuccess);
  return open_cuda(count == 1 ? 0 : local_rank);
}

}  // namespace exec::cuda
