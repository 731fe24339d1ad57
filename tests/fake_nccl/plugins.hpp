#pragma once
// Plugins of the fake NCCL, loaded and called as NCCL does: NCCL_TUNER_PLUGIN and
// NCCL_PROFILER_PLUGIN name libraries, whose symbols of version 4 are looked for. The tuner gets a
// table of costs for each collective, and the cheapest pair that is left is what "runs".

#include "tests/fake_nccl/comm.hpp"
#include "tests/fake_nccl/work.hpp"

namespace fake_nccl {

exec::cuda::nccl::Result attach_plugins(exec::cuda::nccl::CommOf& comm);
void detach_plugins(exec::cuda::nccl::CommOf& comm);
// Sends and receives have no algorithm: nothing is asked or told.
// False: a plugin asks for what cannot be.
bool tune_and_profile(exec::cuda::nccl::CommOf& comm, const Part& part);

}  // namespace fake_nccl
