// Section environment: what the card and the software say about themselves.

#include <dlfcn.h>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "tools/probe/worker.hpp"

namespace probe {

using exec::cuda::Nvml;

namespace {

int attribute(cudaDeviceAttr what, int device) {
  int value = 0;
  PROBE_TRY(cudaDeviceGetAttribute(&value, what, device));
  return value;
}

Json device_properties(int device) {
  cudaDeviceProp properties{};
  PROBE_TRY(cudaGetDeviceProperties(&properties, device));
  Json json = Json::object();
  json["name"] = properties.name;
  json["compute_capability"] =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  json["sms"] = properties.multiProcessorCount;
  json["sm_clock_max_khz"] = attribute(cudaDevAttrClockRate, device);
  json["memory_clock_max_khz"] = attribute(cudaDevAttrMemoryClockRate, device);
  json["memory_bus_bits"] = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  json["l2_bytes"] = properties.l2CacheSize;
  json["persisting_l2_max_bytes"] = properties.persistingL2CacheMaxSize;
  json["total_memory_bytes"] = properties.totalGlobalMem;
  json["shared_memory_per_sm_bytes"] = properties.sharedMemPerMultiprocessor;
  json["shared_memory_per_block_optin_bytes"] = properties.sharedMemPerBlockOptin;
  json["registers_per_sm"] = properties.regsPerMultiprocessor;
  json["threads_per_sm"] = properties.maxThreadsPerMultiProcessor;
  json["copy_engines"] = properties.asyncEngineCount;
  json["ecc"] = properties.ECCEnabled != 0;
  json["integrated"] = properties.integrated != 0;
  json["memory_pools"] = attribute(cudaDevAttrMemoryPoolsSupported, device) != 0;
  return json;
}

std::string dotted(int version, int base) {  // 13000, 1000 -> 13.0; 22809, 10000 -> 2.28.9
  const std::string major = std::to_string(version / base);
  if (base == 1000) return major + "." + std::to_string(version % 1000 / 10);
  return major + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

Json versions(const Nvml& nvml) {
  int driver = 0, runtime = 0;
  PROBE_TRY(cudaDriverGetVersion(&driver));
  PROBE_TRY(cudaRuntimeGetVersion(&runtime));
  Json json = Json::object();
  json["driver"] = or_null(nvml.driver_version());
  json["driver_cuda"] = dotted(driver, 1000);
  json["runtime"] = dotted(runtime, 1000);
  json["cublaslt"] = cublasLtGetVersion();
#ifdef PROBE_WITH_NCCL
  int nccl = 0;
  PROBE_TRY(ncclGetVersion(&nccl));
  json["nccl"] = dotted(nccl, 10000);
#else
  json["nccl"] = Json();
#endif
  json["cudnn"] = Json();
  if (void* library = ::dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL)) {
    if (void* symbol = ::dlsym(library, "cudnnGetVersion")) {
      json["cudnn"] = reinterpret_cast<std::size_t (*)()>(symbol)();
    }
  }
  return json;
}

Json nvml_state(const Nvml& nvml) {
  Json json = Json::object();
  if (!nvml.problem().empty()) {
    json["error"] = nvml.problem();
    return json;
  }
  if (const auto memory = nvml.memory()) {
    json["total_bytes"] = memory->total;
    json["reserved_bytes"] = memory->reserved;
    json["used_bytes"] = memory->used;
    json["free_bytes"] = memory->free;
  }
  if (const auto processes = nvml.processes()) json["compute_processes"] = processes->count;
  json["sm_clock_mhz"] = or_null(nvml.clock_mhz(Nvml::Clock::sm));
  json["sm_clock_max_mhz"] = or_null(nvml.max_clock_mhz(Nvml::Clock::sm));
  json["memory_clock_mhz"] = or_null(nvml.clock_mhz(Nvml::Clock::memory));
  json["memory_clock_max_mhz"] = or_null(nvml.max_clock_mhz(Nvml::Clock::memory));
  json["power_watts"] = or_null(nvml.power_watts());
  json["power_limit_watts"] = or_null(nvml.power_limit_watts());
  json["temperature_celsius"] = or_null(nvml.temperature_celsius());
  json["pcie_generation"] = or_null(nvml.pcie_generation(false));
  json["pcie_generation_max"] = or_null(nvml.pcie_generation(true));
  json["pcie_width"] = or_null(nvml.pcie_width(false));
  json["pcie_width_max"] = or_null(nvml.pcie_width(true));
  return json;
}

}  // namespace

void run_environment(Worker& worker) {
  const int device = worker.options().device;
  const Nvml nvml(pci_bus_id(device));
  worker.part("device", [&] { return device_properties(device); });
  worker.part("versions", [&] { return versions(nvml); });
  worker.part("nvml_before_context", [&] { return nvml_state(nvml); });
  worker.part("memory_in_fresh_context", [&] {
    use_device(device);
    const MemoryNow memory = memory_now();
    Json json = Json::object();
    json["free_bytes"] = memory.free;
    json["total_bytes"] = memory.total;
    return json;
  });
  worker.part("kernel_image", [&] {
    const Stream stream;
    launch_empty(stream);
    stream.wait();
    return Json("the binary has code for this GPU");
  });
}

}  // namespace probe
