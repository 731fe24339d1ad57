// A rank's range of buffers in memory of the library: registered with its communicators, or a
// window of them.

#include <algorithm>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "exec/cuda/nccl/world.hpp"
#include "exec/run/pack.hpp"

namespace exec::cuda {

static std::string size_text(std::size_t bytes) {
  return core::to_text(core::Bytes(static_cast<std::int64_t>(bytes)));
}

void* NcclWorld::allocate_range(std::size_t bytes, int layout) {
  if (!library_.registers()) return nullptr;
  PLANNER_CHECK(range_ == nullptr, "a rank has one range");
  const nccl::Result result = library_.mem_alloc(&range_, bytes);
  if (result != nccl::kSuccess)
    throw std::runtime_error(fmt::format("ncclMemAlloc of {}: {}", size_text(bytes),
                                         words_of(result, nullptr)));
  range_bytes_ = bytes;
  layout_ = layout;
  return range_;
}

void NcclWorld::release_range(void* range) noexcept {
  PLANNER_CHECK(range == range_, "a range that was not allocated");
  deregister_range();
  library_.mem_free(range_);
  range_ = nullptr;
}

// Of this rank's communicators those whose ranks all have ranges of one size and layout: a call's
// buffers are then at the same places of all of them, as the library requires of windows.
std::set<NcclWorld::Key> NcclWorld::keys_of_one_layout() {
  Packer packer;
  packer.value(range_bytes_);
  packer.value(layout_);
  const std::vector<std::string> told = control_.exchange(packer.take());
  std::set<Key> all;
  for (const auto& [key, comm] : comms_) {
    const auto differs = [&](int r) {
      return told[static_cast<std::size_t>(r)] != told[static_cast<std::size_t>(rank())];
    };
    if (range_bytes_ > 0 && std::ranges::none_of(key.first, differs)) all.insert(key);
  }
  return all;
}

// Without windows each rank does so by itself: the library asks nothing of the others before the
// first call that uses it. Of a window all ranks of the communicator take part, in the order of
// keys, which is the same everywhere.
void NcclWorld::register_range() {
  const bool wants_windows = options_.windows && library_.has_windows();
  const std::set<Key> windows = wants_windows ? keys_of_one_layout() : std::set<Key>();
  if (range_ == nullptr) return;
  for (const auto& [key, comm] : comms_) {
    if (windows.contains(key)) register_with(key, true);
    // Between GPUs that do not reach each other's memory a window is nothing, and no error.
    const bool is_window = windows.contains(key) && registered_.back().handle != nullptr;
    if (windows.contains(key) && !is_window) registered_.pop_back();
    if (is_window) ++windows_;
    else register_with(key, false);
  }
  registrations_ = registered_.size() - windows_;
}

void NcclWorld::register_with(const Key& key, bool as_window) {
  const std::string what =
      (as_window ? "ncclCommWindowRegister for " : "ncclCommRegister for ") + text_of(key);
  const nccl::Comm comm = comms_.at(key);
  nccl::Result result = nccl::kSuccess;
  {
    const std::scoped_lock lock(calls_);
    if (aborted_) throw_ended();
    registered_.push_back({comm, nullptr, as_window});
    Registered& made = registered_.back();
    result = as_window ? library_.comm_window_register(comm, range_, range_bytes_, &made.handle,
                                                       nccl::kSymmetricWindow)
                       : library_.comm_register(comm, range_, range_bytes_, &made.handle);
  }
  if (result != nccl::kSuccess && result != nccl::kInProgress)
    throw std::runtime_error(what + ": " + words_of(result, comm));
  await(comm, what);
}

// A communicator that was aborted has let go of it.
void NcclWorld::deregister_range() {
  const std::scoped_lock lock(calls_);
  if (!aborted_)
    for (const Registered& r : registered_) {
      if (r.handle == nullptr) continue;
      if (r.is_window) library_.comm_window_deregister(r.comm, r.handle);
      else library_.comm_deregister(r.comm, r.handle);
    }
  registered_.clear();
}

std::string NcclWorld::range_text() const {
  if (!library_.registers())
    return fmt::format("not registered: NCCL {} has no memory of its own",
                       nccl_version_text(library_.version));
  if (range_bytes_ == 0) return "none";
  std::string text = fmt::format("{} of ncclMemAlloc, ", size_text(range_bytes_));
  if (options_.windows && library_.has_windows())
    text += fmt::format("a symmetric window of {} communicators, ", windows_);
  else if (options_.windows)
    text += fmt::format("no window (NCCL {} has none), ", nccl_version_text(library_.version));
  return text + fmt::format("registered with {} communicators", registrations_);
}

}  // namespace exec::cuda
