#include "tests/fake_nccl/plugins.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "exec/cuda/nccl/plugin/abi.hpp"
#include "tests/fake_nccl/sums.hpp"

namespace fake_nccl {
namespace {

using namespace exec::cuda::nccl;

void* symbol_of(const char* variable, const char* symbol) {
  const char* const path = std::getenv(variable);
  void* const library = path != nullptr ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  return library != nullptr ? ::dlsym(library, symbol) : nullptr;
}

const Tuner* tuner() {
  static const auto* const found =
      static_cast<const Tuner*>(symbol_of("NCCL_TUNER_PLUGIN", kTunerSymbol));
  return found;
}

const Profiler* profiler() {
  static const auto* const found =
      static_cast<const Profiler*>(symbol_of("NCCL_PROFILER_PLUGIN", kProfilerSymbol));
  return found;
}

struct Call {
  int function;
  const char* name;
};

const Call* call_of(Part::Kind kind) {
  static constexpr Call kCalls[] = {{kAllReduceCall, "AllReduce"},
                                    {kReduceScatterCall, "ReduceScatter"},
                                    {kAllGatherCall, "AllGather"},
                                    {kBroadcastCall, "Broadcast"}};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kCalls) ? &kCalls[index] : nullptr;
}

const char* datatype_of(Type type) {
  switch (type) {
    case kInt32: return "ncclInt32";
    case kFloat16: return "ncclFloat16";
    case kFloat32: return "ncclFloat32";
    case kFloat64: return "ncclFloat64";
    case kBfloat16: return "ncclBfloat16";
    default: return "ncclUint8";
  }
}

}  // namespace

Result attach_plugins(CommOf& comm) {
  if (profiler() != nullptr) {
    int wanted = 0;
    const Result result = profiler()->init(&comm.profiler, &wanted, nullptr, 1, 1, comm.ranks,
                                           comm.rank, nullptr);
    if (result != kSuccess) return result;
  }
  if (tuner() == nullptr) return kSuccess;
  return tuner()->init(static_cast<std::size_t>(comm.ranks), 1, nullptr, &comm.tuner);
}

void detach_plugins(CommOf& comm) {
  if (comm.tuner != nullptr) tuner()->destroy(comm.tuner);
  if (comm.profiler != nullptr) profiler()->finalize(comm.profiler);
  comm.tuner = comm.profiler = nullptr;
}

bool tune_and_profile(CommOf& comm, const Part& part) {
  const Call* const call = call_of(part.kind);
  if (call == nullptr) return true;
  const bool whole = call->function == kAllReduceCall || call->function == kBroadcastCall;
  const std::size_t bytes =
      part.count * size_of(part.type) * (whole ? 1 : static_cast<std::size_t>(comm.ranks));
  int channels = comm.channels;
  // Tree and ring alone, as between GPUs without NVLink's switch; tree is for all-reduce.
  float costs[kAlgorithms][kProtocols];
  for (auto& row : costs)
    for (float& cost : row) cost = kIgnored;
  const float tree[] = {5, 4, 6}, ring[] = {2, 2.5F, 3};
  for (int p = 0; p < kProtocols; ++p) {
    if (call->function == kAllReduceCall) costs[0][p] = tree[p];
    costs[1][p] = ring[p];
  }
  if (comm.tuner != nullptr)
    tuner()->choose(comm.tuner, call->function, bytes, 1, reinterpret_cast<float**>(costs),
                    kAlgorithms, kProtocols, 0, &channels);
  if (channels > comm.channels) {
    const std::scoped_lock lock(comm.mutex);
    comm.error = "a tuner asks for more channels than the communicator has";
    return false;
  }
  int algorithm = 1, protocol = 0;
  for (int a = 0; a < kAlgorithms; ++a)
    for (int p = 0; p < kProtocols; ++p)
      if (costs[a][p] >= 0 && costs[a][p] < costs[algorithm][protocol]) algorithm = a, protocol = p;
  if (comm.profiler == nullptr) return true;
  // NCCL's own words are in capitals.
  static constexpr const char* kAlgorithmWords[] = {"TREE", "RING",      "COLLNET_DIRECT",
                                                    "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
  static constexpr const char* kProtocolWords[] = {"LL", "LL128", "SIMPLE"};
  Event event{kCollectiveEvent,
              nullptr,
              comm.rank,
              {0, call->name, part.from, part.to, part.count, part.peer, datatype_of(part.type),
               static_cast<std::uint8_t>(channels), 16, kAlgorithmWords[algorithm],
               kProtocolWords[protocol]}};
  void* handle = nullptr;
  if (profiler()->start(comm.profiler, &handle, &event) == kSuccess && handle != nullptr)
    profiler()->stop(handle);
  return true;
}

}  // namespace fake_nccl
