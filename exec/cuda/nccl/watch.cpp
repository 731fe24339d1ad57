// The watch thread of NcclWorld: it looks for errors, holds steps to their deadline, and aborts all
// communicators where anything has ended the run.
#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "exec/cuda/nccl/world.hpp"

namespace exec::cuda {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenWatches = 50ms;

}  // namespace

void NcclWorld::abort_all() {
  std::unique_lock calls(calls_, std::defer_lock);
  const bool alone = calls.try_lock_for(kPatienceToAbort);
  // Whoever is stuck in a call is freed by this. As a group, so that all are told to stop before
  // any is waited for: a kernel of one may lie behind that of another on its stream.
  library_.group_start();
  for (const auto& [key, comm] : comms_) library_.comm_abort(comm);
  if (first_ != nullptr) library_.comm_abort(first_);
  library_.group_end();
  if (alone) first_ = nullptr;
  const std::scoped_lock lock(state_mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void NcclWorld::watch() {
  api_.bind();
  std::unique_lock lock(state_mutex_);
  while (!changed_.wait_for(lock, kBetweenWatches, [&] { return stopping_; })) {
    lock.unlock();
    if (!control_.ended()) {
      if (const std::string found = trouble(); !found.empty()) control_.abort(rank(), found);
      tell_slow();
    }
    if (control_.ended()) return abort_all();
    lock.lock();
  }
}

core::Seconds NcclWorld::step_so_far() const {
  const Clock::rep since = busy_since_;
  if (since == 0) return core::Seconds(0);
  const Clock::time_point from{Clock::duration(since)};
  return core::Seconds(std::chrono::duration<double>(Clock::now() - from).count());
}

// Once: a rank may only be slow, and there is time left to look at it.
void NcclWorld::tell_slow() try {
  if (!options_.tell || told_ || step_so_far() <= options_.deadline / 2.0) return;
  const std::unique_lock calls(calls_, kBetweenWatches);
  if (!calls.owns_lock()) return;
  told_ = true;
  options_.tell(fmt::format("rank {}: a step has taken half of its deadline of {}; not over: {}",
                            rank(), core::to_text(options_.deadline), unfinished()));
} catch (const std::exception&) {
  told_ = true;                        // the device failed meanwhile: trouble() says so next
}

// What the library tells of a communicator by now, or a step that takes too long.
std::string NcclWorld::trouble() try {
  const std::unique_lock calls(calls_, kBetweenWatches);
  if (calls.owns_lock()) {
    for (const auto& [key, comm] : comms_) {
      nccl::Result state = nccl::kSuccess;
      const nccl::Result result = library_.comm_get_async_error(comm, &state);
      if (result != nccl::kSuccess) state = result;
      if (state != nccl::kSuccess && state != nccl::kInProgress)
        return fmt::format("{}: {}; not over: {}", text_of(key), words_of(state, comm),
                           unfinished());
    }
  }
  if (step_so_far() <= options_.deadline) return "";
  return fmt::format(
      "a step took longer than {}; not over: {}; where that is too short, --deadline SECONDS",
      core::to_text(options_.deadline),
      calls.owns_lock() ? unfinished() : std::string("a call that does not return"));
} catch (const std::exception& e) {
  return e.what();                     // the device failed meanwhile
}

// REQUIRES: calls_ is held.
std::string NcclWorld::unfinished() const {
  for (const Given& g : given_)
    if (!api_.happened(g.done)) return g.what;
  return given_.empty() ? "making communicators" : "nothing that was given to the library";
}

}  // namespace exec::cuda
