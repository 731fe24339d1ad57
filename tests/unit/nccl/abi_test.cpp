// What exec/cuda/nccl/abi.hpp declares anew is what nccl.h declares.
#include "exec/cuda/nccl/abi.hpp"

#include <nccl.h>

#include <cstddef>

#include "tests/catch.hpp"

namespace {

namespace own = exec::cuda::nccl;

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<int>(a) == static_cast<int>(b);
}

static_assert(same(own::kSuccess, ncclSuccess) &&
              same(own::kUnhandledCudaError, ncclUnhandledCudaError) &&
              same(own::kSystemError, ncclSystemError) &&
              same(own::kInternalError, ncclInternalError) &&
              same(own::kInvalidArgument, ncclInvalidArgument) &&
              same(own::kInvalidUsage, ncclInvalidUsage) &&
              same(own::kRemoteError, ncclRemoteError) && same(own::kInProgress, ncclInProgress));
static_assert(same(own::kSum, ncclSum) && same(own::kMax, ncclMax));
static_assert(same(own::kUint8, ncclUint8) && same(own::kInt32, ncclInt32) &&
              same(own::kFloat16, ncclFloat16) && same(own::kFloat32, ncclFloat32) &&
              same(own::kFloat64, ncclFloat64) && same(own::kBfloat16, ncclBfloat16));
static_assert(sizeof(own::Result) == sizeof(ncclResult_t) &&
              sizeof(own::Type) == sizeof(ncclDataType_t) &&
              sizeof(own::Op) == sizeof(ncclRedOp_t));
static_assert(sizeof(own::UniqueId) == sizeof(ncclUniqueId));
static_assert(own::kNoColour == NCCL_SPLIT_NOCOLOR);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(own::kSymmetricWindow == NCCL_WIN_COLL_SYMMETRIC);
#endif
static_assert(own::Config{}.blocking == NCCL_CONFIG_UNDEF_INT);
static_assert(own::version_code(2, 28, 9) == NCCL_VERSION(2, 28, 9));

// The head of the configuration; what newer versions added lies behind it.
static_assert(offsetof(own::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(own::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(own::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(own::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(own::Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(own::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(own::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(own::Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(own::Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(own::Config) <= sizeof(ncclConfig_t));

}  // namespace

TEST_CASE("the magic number of NCCL's configuration is that of nccl.h") {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  CHECK(own::Config{}.magic == theirs.magic);
  // The size tells the library which members are there, so it may not lie in one.
  CHECK(own::Config{}.size == sizeof(own::Config));
}
