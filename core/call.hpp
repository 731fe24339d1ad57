#pragma once
// Call: one question that a program asks of this tool and then goes on, as Python does.
// On the command line the whole process is the question: it has no Call, its files are those of the
// system, and a signal ends it. A Call can be stopped from another thread, and it can bring files
// that exist only in memory. Thread-safe.

#include <atomic>
#include <exception>
#include <map>
#include <string>
#include <string_view>

namespace core {

// Thrown by stop_point() on every thread that works for a stopped call. It only unwinds: nobody
// continues after it but the one who made the call.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

class Call {
 public:
  // By path: read_file() returns these texts and does not look at the file system.
  using Files = std::map<std::string, std::string, std::less<>>;

  explicit Call(Files files = {}) : files_(std::move(files)) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The work for this call ends at its next stop_point().
  void stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
  const Files& files() const { return files_; }

 private:
  Files files_;
  std::atomic<bool> stopped_{false};
};

// The call that this thread works for; nullptr on the command line.
const Call* current_call();

// While one lives, this thread works for `call`. for_each_index() hands the call on to its threads.
class CallScope {
 public:
  explicit CallScope(const Call* call);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope();

 private:
  const Call* previous_;
};

// Throws Stopped where the call of this thread was stopped. A few nanoseconds: long loops pass one
// at least every few milliseconds. Not for functions that a C library calls (NLopt): an exception
// cannot pass through it.
void stop_point();

// The text that the call of this thread brought for the path; nullptr: none.
const std::string* file_of_call(std::string_view path);

}  // namespace core
