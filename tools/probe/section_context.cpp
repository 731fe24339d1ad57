// Section context: GPU memory that a process costs before its first tensor, step by step in a fresh
// process: the context, the first kernel, each library's handle and its first call.

#include <dlfcn.h>

#include <functional>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "tools/probe/matmul.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "tools/probe/worker.hpp"

namespace probe {

using exec::cuda::Nvml;

namespace {

struct Reading {
  std::optional<std::uint64_t> nvml_used, nvml_process;
  std::optional<std::size_t> cuda_free;
};

// Card-wide figures see other processes too: the environment section says whether there are any.
Reading read(const Nvml& nvml, bool have_context) {
  Reading reading;
  if (const auto memory = nvml.memory()) reading.nvml_used = memory->used;
  if (const auto processes = nvml.processes()) reading.nvml_process = processes->own_bytes;
  if (have_context) reading.cuda_free = memory_now().free;
  return reading;
}

template <class T>
Json difference(const std::optional<T>& from, const std::optional<T>& to) {
  if (!from || !to) return {};
  return static_cast<std::int64_t>(*to) - static_cast<std::int64_t>(*from);
}

class Steps {
 public:
  Steps(Worker& worker, const Nvml& nvml) : worker_(worker), nvml_(nvml), last_(read(nvml, false)) {
    worker_.data()["before"]["nvml_used_bytes"] = or_null(last_.nvml_used);
    worker_.data()["steps"] = Json::array();
  }

  // Runs `work` and records what it took; false when it failed.
  bool step(const std::string& name, const std::function<void()>& work) {
    worker_.say(name);
    Json json = Json::object();
    json["step"] = name;
    const double start = now();
    try {
      work();
      record(json, now() - start);
    } catch (const std::exception& error) {
      json["error"] = error.what();
    }
    const bool good = !json.has("error");
    worker_.data()["steps"].push(std::move(json));
    worker_.save();
    return good;
  }

 private:
  void record(Json& json, double seconds) {
    PROBE_TRY(cudaDeviceSynchronize());
    const Reading reading = read(nvml_, true);
    json["seconds"] = seconds;
    json["taken_bytes"] = difference(reading.cuda_free, last_.cuda_free);  // free before - after
    json["nvml_used_delta_bytes"] = difference(last_.nvml_used, reading.nvml_used);
    json["nvml_process_bytes"] = or_null(reading.nvml_process);
    json["cuda_free_bytes"] = or_null(reading.cuda_free);
    last_ = reading;
  }

  Worker& worker_;
  const Nvml& nvml_;
  Reading last_;
};

constexpr int kSide = 1024;

void cublaslt_steps(Steps& steps, const DeviceBuffer& operands, const DeviceBuffer& workspace,
                    const Stream& stream) {
  cublasLtHandle_t handle = nullptr;
  if (!steps.step("cublaslt_create", [&] { PROBE_TRY(cublasLtCreate(&handle)); })) return;
  steps.step("cublaslt_first_matmul", [&] {
    const Matmul matmul(handle, {kSide, kSide, kSide}, Kind::bf16, Layout::tn);
    matmul.run(operands.get(), operands.get(), operands.as<char>() + 2 * kSide * kSide,
               workspace.get(), stream);
    stream.wait();
  });
}

void cublas_steps(Steps& steps, const DeviceBuffer& operands, const Stream& stream) {
  cublasHandle_t handle = nullptr;
  if (!steps.step("cublas_create", [&] { PROBE_TRY(cublasCreate(&handle)); })) return;
  steps.step("cublas_first_gemm", [&] {
    const float one = 1.0F, zero = 0.0F;
    PROBE_TRY(cublasSetStream(handle, stream));
    PROBE_TRY(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, kSide, kSide, kSide, &one,
                           operands.get(), CUDA_R_16BF, kSide, operands.get(), CUDA_R_16BF, kSide,
                           &zero, operands.as<char>() + 2 * kSide * kSide, CUDA_R_16BF, kSide,
                           CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    stream.wait();
  });
}

void nccl_steps([[maybe_unused]] Steps& steps, [[maybe_unused]] const DeviceBuffer& buffer,
                [[maybe_unused]] const Stream& stream) {
#ifdef PROBE_WITH_NCCL
  ncclComm_t communicator = nullptr;
  const bool made = steps.step("nccl_init_one_rank", [&] {
    ncclUniqueId id{};
    PROBE_TRY(ncclGetUniqueId(&id));
    PROBE_TRY(ncclCommInitRank(&communicator, 1, id, 0));
  });
  if (!made) return;
  steps.step("nccl_first_all_reduce", [&] {
    PROBE_TRY(ncclAllReduce(buffer.get(), buffer.get(), 1024, ncclFloat, ncclSum, communicator,
                            stream));
    stream.wait();
  });
  steps.step("nccl_destroy", [&] { PROBE_TRY(ncclCommDestroy(communicator)); });
#endif
}

// cuDNN by its C interface and dlopen: only the handle is of interest here.
void cudnn_step(Steps& steps) {
  steps.step("cudnn_create", [] {
    void* library = ::dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_GLOBAL);
    if (library == nullptr) throw DeviceError("libcudnn.so.9 cannot be opened");
    void* symbol = ::dlsym(library, "cudnnCreate");
    if (symbol == nullptr) throw DeviceError("libcudnn.so.9 has no cudnnCreate");
    void* handle = nullptr;
    const int status = reinterpret_cast<int (*)(void**)>(symbol)(&handle);
    if (status != 0) throw DeviceError("cudnnCreate returned " + std::to_string(status));
  });
}

}  // namespace

void run_context(Worker& worker) {
  const int device = worker.options().device;
  const Nvml nvml(pci_bus_id(device));
  if (!nvml.problem().empty()) worker.data()["nvml_problem"] = nvml.problem();
  Steps steps(worker, nvml);
  if (!steps.step("context", [&] { use_device(device); })) {
    throw DeviceError("no context could be made; the step says why");
  }
  const Stream stream;
  steps.step("first_kernel", [&] {
    launch_empty(stream);
    stream.wait();
  });
  // Allocated between steps: the next step's delta must not contain the operands.
  std::optional<DeviceBuffer> operands, workspace;
  steps.step("operands_and_workspace_36_MiB", [&] {
    operands.emplace(std::size_t{4} << 20);
    workspace.emplace(kWorkspaceBytes);
    PROBE_TRY(cudaMemset(operands->get(), 0, operands->size()));
  });
  if (!operands || !workspace) return;
  cublaslt_steps(steps, *operands, *workspace, stream);
  cublas_steps(steps, *operands, stream);
  nccl_steps(steps, *operands, stream);
  cudnn_step(steps);
}

}  // namespace probe
