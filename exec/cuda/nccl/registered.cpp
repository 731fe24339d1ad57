// A rank's range of buffers in memory of the library, registered with its communicators.

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "exec/cuda/nccl/world.hpp"

namespace exec::cuda {

static std::string size_text(std::size_t bytes) {
  return core::to_text(core::Bytes(static_cast<std::int64_t>(bytes)));
}

void* NcclWorld::allocate_range(std::size_t bytes) {
  if (!library_.registers()) return nullptr;
  PLANNER_CHECK(range_ == nullptr, "a rank has one range");
  const nccl::Result result = library_.mem_alloc(&range_, bytes);
  if (result != nccl::kSuccess)
    throw std::runtime_error(fmt::format("ncclMemAlloc of {}: {}", size_text(bytes),
                                         words_of(result, nullptr)));
  range_bytes_ = bytes;
  return range_;
}

void NcclWorld::release_range(void* range) noexcept {
  PLANNER_CHECK(range == range_, "a range that was not allocated");
  deregister_range();
  library_.mem_free(range_);
  range_ = nullptr;
}

// Each rank by itself: the library asks nothing of the others before the first call that uses it.
void NcclWorld::register_range() {
  if (range_ == nullptr) return;
  for (const auto& [key, comm] : comms_) {
    const std::string what = "ncclCommRegister for " + text_of(key);
    nccl::Result result = nccl::kSuccess;
    {
      const std::scoped_lock lock(calls_);
      if (aborted_) throw_ended();
      registered_.emplace_back(comm, nullptr);
      result = library_.comm_register(comm, range_, range_bytes_, &registered_.back().second);
    }
    if (result != nccl::kSuccess && result != nccl::kInProgress)
      throw std::runtime_error(what + ": " + words_of(result, comm));
    await(comm, what);
  }
  registrations_ = registered_.size();
}

// A communicator that was aborted has let go of it.
void NcclWorld::deregister_range() {
  const std::scoped_lock lock(calls_);
  if (!aborted_)
    for (const auto& [comm, handle] : registered_)
      if (handle != nullptr) library_.comm_deregister(comm, handle);
  registered_.clear();
}

std::string NcclWorld::range_text() const {
  if (!library_.registers())
    return fmt::format("not registered: NCCL {} has no memory of its own",
                       nccl_version_text(library_.version));
  if (range_bytes_ == 0) return "none";
  return fmt::format("{} of ncclMemAlloc, registered with {} communicators",
                     size_text(range_bytes_), registrations_);
}

}  // namespace exec::cuda
