#pragma once
// What NCCL asks of its tuner and profiler plugins, declared anew: version 4 of both. Releases from
// 2.27 call both; newer ones still look for version 4 where a plugin has no newer one. Layouts and
// values: NVIDIA/nccl 2.30.7 (commit 5067397), src/include/plugin/tuner/tuner_v4.h,
// src/include/plugin/profiler/profiler_v4.h, src/include/plugin/nccl_tuner.h and
// src/include/nccl_common.h. Names in the comments are NCCL's.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "exec/cuda/nccl/abi.hpp"

namespace exec::cuda::nccl {

using Log = void (*)(int level, unsigned long flags, const char* file, int line,
                     const char* format, ...);  // ncclDebugLogger_t

enum Function : int {                  // ncclFunc_t
  kBroadcastCall = 0,
  kAllGatherCall = 2,
  kReduceScatterCall = 3,
  kAllReduceCall = 4
};
// Rows and columns of a table of costs: NCCL_ALGO_*, NCCL_PROTO_*.
inline constexpr const char* kAlgorithmNames[] = {"tree",          "ring", "collnet_direct",
                                                  "collnet_chain", "nvls", "nvls_tree", "pat"};
inline constexpr const char* kProtocolNames[] = {"ll", "ll128", "simple"};
inline constexpr int kAlgorithms = 7, kProtocols = 3;
constexpr float kIgnored = -1.0f;      // NCCL_ALGO_PROTO_IGNORE: this pair cannot be had

struct Tuner {                         // ncclTuner_v4_t
  const char* name;
  Result (*init)(std::size_t ranks, std::size_t nodes, Log log, void** context);
  // costs: rows of `protocols` numbers, one row after another, for all that it is declared so.
  Result (*choose)(void* context, int function, std::size_t bytes, int piped, float** costs,
                   int algorithms, int protocols, int registered, int* channels);  // getCollInfo
  Result (*destroy)(void* context);
};
inline constexpr const char* kTunerSymbol = "ncclTunerPlugin_v4";

enum EventType : std::uint8_t { kGroupEvent = 1 << 0, kCollectiveEvent = 1 << 1 };

struct Event {                         // the head of ncclProfilerEventDescr_v4_t, with `coll`
  std::uint8_t type;
  void* parent;
  int rank;
  struct {
    std::uint64_t number;
    const char* function;              // "AllReduce"
    const void* from;
    void* to;
    std::size_t count;
    int root;
    const char* datatype;              // "ncclFloat32"
    std::uint8_t channels;
    std::uint8_t warps;
    const char* algorithm;             // "RING"
    const char* protocol;              // "SIMPLE"
  } collective;
};

struct Profiler {                      // ncclProfiler_v4_t
  const char* name;
  Result (*init)(void** context, int* wanted, const char* communicator, std::uint64_t hash,
                 int nodes, int ranks, int rank, Log log);
  Result (*start)(void* context, void** event, Event* described);
  Result (*stop)(void* event);
  Result (*record)(void* event, int state, void* arguments);
  Result (*finalize)(void* context);
};
inline constexpr const char* kProfilerSymbol = "ncclProfiler_v4";

// Of this project's plugin: a collective that NCCL ran, in the letters of the names above.
struct Ran {
  const char* algorithm;
  const char* protocol;
  int channels;
  std::int64_t bytes;                  // that each rank contributed
};
// Tells each that ran since it was last asked, in their order.
using TakeRan = void (*)(void* to, void (*each)(void* to, const Ran* ran));
inline constexpr const char* kTakeSymbol = "planner_nccl_take";

}  // namespace exec::cuda::nccl
