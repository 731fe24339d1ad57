#include "exec/communicator/ending.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "exec/communicator/communicator.hpp"

namespace exec {
namespace {

using namespace std::chrono_literals;

constexpr auto kLeaveWithin = 3s;  // a kernel may run that long before it looks
constexpr int kFailed = 3;         // exit code, as the command line's

}  // namespace

std::string text_of(const Cause& cause) { return std::to_string(cause.rank) + ':' + cause.message; }

Cause cause_of(const std::string& text) {
  return {std::atoi(text.c_str()), text.substr(text.find(':') + 1), 0, true};
}

Cause Ending::fail(const std::string& message, const std::function<void()>& kick) {
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = message;
  lock.unlock();
  kick();
  lock.lock();
  changed_.wait(lock, [&] { return ended_.load(); });
  return *cause_;
}

std::optional<std::string> Ending::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Ending::end(Cause cause) {
  {
    const std::scoped_lock lock(mutex_);
    cause_ = std::move(cause);
    ended_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

std::optional<Cause> Ending::cause() const {
  const std::scoped_lock lock(mutex_);
  return cause_;
}

void Ending::throw_if_ended() const {
  if (ended()) throw Aborted(cause_->rank, cause_->message);  // set once, before the flag
}

void Ending::await_leaving(bool speaks,
                           const std::function<void(const std::string&)>& last_words) {
  const auto until = std::chrono::steady_clock::now() + kLeaveWithin;
  while (!leaving() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(5ms);
  if (!leave()) return;
  if (last_words) last_words(speaks ? Aborted(cause_->rank, cause_->message).what() : "");
  ::_exit(cause_->signal != 0 ? 128 + cause_->signal : kFailed);
}

}  // namespace exec
