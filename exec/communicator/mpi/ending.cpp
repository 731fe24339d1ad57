// How the world ends before its time: one cause, known to every rank that is still there.

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "exec/communicator/mpi/call.hpp"
#include "exec/communicator/mpi/engine.hpp"

namespace exec {
namespace {

using namespace std::chrono_literals;

constexpr int kFailure = 1, kVerdict = 2;  // tags: to rank 0, and from it
constexpr auto kVerdictWithin = 2s;        // else rank 0 is gone or hangs
constexpr auto kLeaveWithin = 3s;          // a kernel may run that long before it looks
constexpr int kFailed = 3;                 // exit code, as the command line's

// A cause as text: its rank, a colon, the message.
Cause cause_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {std::atoi(text.c_str()), text.substr(colon + 1), 0, true};
}

std::string text_of(int rank, const std::string& message) {
  return std::to_string(rank) + ':' + message;
}

}  // namespace

void Engine::throw_if_ended() const {
  if (ended_.load(std::memory_order_acquire)) throw Aborted(cause_->rank, cause_->message);
}

std::optional<Cause> Engine::cause() const {
  const std::scoped_lock lock(mutex_);
  return cause_;
}

// The progress thread ends the world, here or on rank 0, or alone when nobody answers.
Cause Engine::fail(const std::string& message) {
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = message;
  kicked_.store(true);
  changed_.notify_all();
  changed_.wait(lock, [&] { return ended_.load(); });
  return *cause_;
}

void Engine::look_at_failures() {
  if (options_.stop_signal != nullptr && *options_.stop_signal != 0)
    return end({rank_, "interrupted", *options_.stop_signal, false});
  hear();
  std::optional<std::string> failure;
  {
    const std::scoped_lock lock(mutex_);
    failure = failure_;
  }
  if (!failure || ended_.load()) return;
  if (rank_ == 0) return end({0, *failure, 0, true});
  if (!failure_told_at_) {
    tell(0, kFailure, text_of(rank_, *failure));
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
  {
    const std::scoped_lock lock(mutex_);
    cause_ = std::move(cause);
  }
  if (rank_ == 0 && cause_->agreed)
    for (int to = 1; to < size_; ++to) tell(to, kVerdict, text_of(cause_->rank, cause_->message));
  const auto until = Clock::now() + 500ms;
  for (Told& t : told_)
    for (int done = 0; done == 0 && Clock::now() < until;)
      if (MPI_Test(&t.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
  {
    const std::scoped_lock lock(mutex_);
    ended_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  handlers_.ended();
}

void Engine::await_leaving() {
  const auto until = Clock::now() + kLeaveWithin;
  while (!leaving_.load() && Clock::now() < until) std::this_thread::sleep_for(5ms);
  if (leaving_.exchange(true)) return;
  const bool speaks = cause_->signal == 0 && (cause_->agreed ? rank_ == 0 : true);
  if (options_.last_words)
    options_.last_words(speaks ? Aborted(cause_->rank, cause_->message).what() : "");
  ::_exit(cause_->signal != 0 ? 128 + cause_->signal : kFailed);
}

}  // namespace exec
