#pragma once
// The part of NCCL's binary interface that is called here, declared anew so that nothing needs
// nccl.h to be built. Names in the comments are NCCL's; a test holds every value and offset against
// nccl.h where that is installed.

#include <climits>
#include <cstddef>

namespace exec::cuda::nccl {

using Comm = struct CommOf*;           // ncclComm_t
using Stream = void*;                  // cudaStream_t

enum Result : int {                    // ncclResult_t
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};

enum Op : int { kSum = 0, kMax = 2 };  // ncclRedOp_t

enum Type : int {                      // ncclDataType_t
  kUint8 = 1,
  kInt32 = 2,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9
};

// Of a window: calls that all ranks make with buffers at the same places of their windows.
constexpr int kSymmetricWindow = 1;    // NCCL_WIN_COLL_SYMMETRIC

struct UniqueId {                      // ncclUniqueId
  char internal[128];
};

constexpr int version_code(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}
// ncclCommSplit came with it, and the configuration below is its own. Newer ones take older
// configurations by their size.
constexpr int kLeastVersion = version_code(2, 18, 1);
constexpr int kNoColour = -1;          // NCCL_SPLIT_NOCOLOR
constexpr int kMostCtas = 64;          // MAXCHANNELS: what maxCTAs is where it is not given
constexpr unsigned kConfigMagic = 0xcafebeef;

struct Config {                        // the head of ncclConfig_t, as of 2.18
  std::size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kLeastVersion;
  int blocking = INT_MIN;              // INT_MIN: the library's default
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

}  // namespace exec::cuda::nccl
