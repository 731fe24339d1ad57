// Memory that the fake NCCL allocates for its caller, and which communicators reach it.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tests/fake_nccl/comm.hpp"

using namespace exec::cuda::nccl;
using fake_nccl::number;

namespace {

std::mutex registering;
std::map<void*, int> registered;        // memory: communicators that reach it

}  // namespace

// The caller holds comm.mutex.
void fake_nccl::let_go(CommOf& comm) {
  const std::scoped_lock lock(registering);
  for (void* memory : comm.registered) --registered[memory];
  comm.registered.clear();
}

// The range that is registered, and with how many communicators: all must let go of it before it
// goes, and no call may use other memory of the library.
FAKE_NCCL Result ncclMemAlloc(void** memory, std::size_t bytes) {
  static const auto allocate = reinterpret_cast<void* (*)(std::int64_t)>(
      ::dlsym(RTLD_DEFAULT, "planner_twin_allocate"));
  if (number("memory", 1) == 0) return kSystemError;
  *memory = allocate(static_cast<std::int64_t>(bytes));
  return kSuccess;
}
FAKE_NCCL Result ncclMemFree(void* memory) {
  static const auto release =
      reinterpret_cast<void (*)(void*)>(::dlsym(RTLD_DEFAULT, "planner_twin_release"));
  const std::scoped_lock lock(registering);
  if (registered[memory] != 0) std::abort();  // a communicator still reaches it
  release(memory);
  return kSuccess;
}
FAKE_NCCL Result ncclCommRegister(Comm comm, void* memory, std::size_t bytes, void** handle) {
  const std::scoped_lock lock(comm->mutex, registering);
  if (comm->aborted || !comm->going.empty() || bytes == 0) return kInvalidUsage;
  ++registered[memory];
  comm->registered.push_back(memory);
  *handle = memory;
  return kSuccess;
}
FAKE_NCCL Result ncclCommDeregister(Comm comm, void* handle) {
  const std::scoped_lock lock(comm->mutex, registering);
  const auto at = std::ranges::find(comm->registered, handle);
  if (at == comm->registered.end()) return kInvalidArgument;
  comm->registered.erase(at);
  --registered[handle];
  return kSuccess;
}
