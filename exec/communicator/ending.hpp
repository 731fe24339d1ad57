#pragma once
// Ending: how a world of processes ends before its time, as one of them knows it: what failed here,
// and the one cause that all agreed on. A carrier's progress thread decides and calls end(); the
// others ask, or fail() and wait for the verdict. Thread-safe.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace exec {

// Why the world ended.
struct Cause {
  int rank = 0;
  std::string message;
  int signal = 0;       // this process was told to stop, by nobody's fault
  bool agreed = false;  // rank 0 told everybody; it is then the one to say it
};

// Rank and message of a cause, as ranks tell each other.
std::string text_of(const Cause& cause);
// REQUIRES: a text of text_of(). What it says is agreed.
Cause cause_of(const std::string& text);

class Ending {
 public:
  // This process failed: `kick` makes the progress thread look at failure(). Returns the cause when
  // the world has ended. The first message of this process counts.
  Cause fail(const std::string& message, const std::function<void()>& kick);
  std::optional<std::string> failure() const;

  // Only by the progress thread, once.
  void end(Cause cause);
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  std::optional<Cause> cause() const;
  void throw_if_ended() const;  // Aborted

  // The caller leaves now: false where somebody has said so before.
  bool leave() { return !leaving_.exchange(true); }
  bool leaving() const { return leaving_.load(); }
  // The progress thread, after end(): ends the process where nobody leaves within 3 s, as a thread
  // that computes may not look for long. last_words: may be empty; said just before.
  void await_leaving(bool speaks, const std::function<void(const std::string&)>& last_words);

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<std::string> failure_;
  std::optional<Cause> cause_;
  std::atomic<bool> ended_{false}, leaving_{false};
};

}  // namespace exec
