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

std::int64_t fake_nccl::place_in_window(CommOf& comm, const void* memory) {
  const std::scoped_lock lock(comm.mutex);
  const auto* const at = static_cast<const std::byte*>(memory);
  for (const CommOf::Window& w : comm.windows)
    if (at >= w.start && at < w.start + w.bytes) return at - w.start;
  return -1;
}

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
// All ends take part. A window of ranks that do not reach each other's memory is null.
FAKE_NCCL Result ncclCommWindowRegister(Comm comm, void* memory, std::size_t bytes, void** window,
                                        int flags) {
  const std::scoped_lock lock(comm->mutex, registering);
  *window = nullptr;
  if (number("windows", 1) == 0) return kSuccess;
  if (comm->aborted || !comm->going.empty() || bytes == 0) return kInvalidUsage;
  if (flags != kSymmetricWindow) return kInvalidArgument;
  ++registered[memory];
  comm->registered.push_back(memory);
  comm->windows.push_back({static_cast<const std::byte*>(memory), bytes});
  fake_nccl::begin_claims(comm, "window" + std::to_string(comm->windows_made++),
                          std::to_string(bytes), "has a window of another size");
  comm->going.push_back([window, memory] {
    *window = memory;
    return kSuccess;
  });
  return kInProgress;
}
FAKE_NCCL Result ncclCommDeregister(Comm comm, void* handle) {
  const std::scoped_lock lock(comm->mutex, registering);
  const auto at = std::ranges::find(comm->registered, handle);
  if (at == comm->registered.end()) return kInvalidArgument;
  comm->registered.erase(at);
  --registered[handle];
  return kSuccess;
}
FAKE_NCCL Result ncclCommWindowDeregister(Comm comm, void* window) {
  {
    const std::scoped_lock lock(comm->mutex);
    if (std::erase_if(comm->windows, [&](const auto& w) { return w.start == window; }) == 0)
      return kInvalidArgument;
  }
  return ncclCommDeregister(comm, window);
}
