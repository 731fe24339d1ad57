// How the world ends before its time: one cause, known to every rank that is still there.

#include <utility>

#include "exec/communicator/mpi/call.hpp"
#include "exec/communicator/mpi/engine.hpp"

namespace exec {
namespace {

using namespace std::chrono_literals;

constexpr int kFailure = 1, kVerdict = 2;  // tags: to rank 0, and from it
constexpr auto kVerdictWithin = 2s;        // else rank 0 is gone or hangs

}  // namespace

// The progress thread ends the world, here or on rank 0, or alone when nobody answers.
Cause Engine::fail(const std::string& message) {
  return ending_.fail(message, [this] {
    const std::scoped_lock lock(mutex_);
    kicked_.store(true);
    changed_.notify_all();
  });
}

void Engine::look_at_failures() {
  if (options_.stop_signal != nullptr && *options_.stop_signal != 0)
    return end({rank_, "interrupted", *options_.stop_signal, false});
  hear();
  const std::optional<std::string> failure = ending_.failure();
  if (!failure || ending_.ended()) return;
  if (rank_ == 0) return end({0, *failure, 0, true});
  if (!failure_told_at_) {
    tell(0, kFailure, text_of({rank_, *failure}));
    failure_told_at_ = Clock::now();
  }
  if (Clock::now() > *failure_told_at_ + kVerdictWithin) end({rank_, *failure, 0, false});
}

// What other ranks say about an end.
void Engine::hear() {
  int found = 0;
  MPI_Status status;
  mpi::call(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &found, &status), "MPI_Iprobe");
  if (found == 0) return;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::string text(static_cast<std::size_t>(size), '\0');
  mpi::call(MPI_Recv(text.data(), size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, control_,
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
  end(cause_of(text));
}

void Engine::tell(int to, int tag, const std::string& text) {
  told_.push_back({MPI_REQUEST_NULL, text});
  Told& t = told_.back();
  mpi::call(MPI_Isend(t.text.data(), static_cast<int>(t.text.size()), MPI_BYTE, to, tag, control_,
                      &t.request),
            "MPI_Isend");
}

// Nothing is said to MPI afterwards: those who wait may take back their memory.
void Engine::end(Cause cause) {
  if (rank_ == 0 && cause.agreed)
    for (int to = 1; to < size_; ++to) tell(to, kVerdict, text_of(cause));
  const auto until = Clock::now() + 500ms;
  for (Told& t : told_)
    for (int done = 0; done == 0 && Clock::now() < until;)
      if (MPI_Test(&t.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
  ending_.end(std::move(cause));
  {
    const std::scoped_lock lock(mutex_);  // whoever waits is waiting, or sees the end
  }
  changed_.notify_all();
  handlers_.ended();
}

}  // namespace exec
