#pragma once
// Streams and events of one rank. The issuing thread gives the compute stream its work; each other
// stream that a Program uses has a thread that gives it its tasks in order. A wait refers to the
// latest signal that was issued before it; the backend is told of every wait and signal, so that a
// device follows the same order when it works later than it is told to. When any task throws,
// fail() wakes everybody and the first error is rethrown on the issuing thread.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/interpret/backend.hpp"
#include "sim/program/program.hpp"

namespace exec {

// One signal of one event instance.
struct Ticket {
  std::size_t instance = 0;
  std::uint64_t sequence = 0;          // 0: nothing was issued, holds at once
};

class Streams {
 public:
  // on_failure: called once, from the failing thread, before others are woken. one_thread: the
  // issuing thread gives every stream its work at once, in the order of issue, and no thread is
  // started: for backends whose calls return before the work is done, and communicators whose calls
  // do not wait. Throws core::ThreadRefused where a stream's thread cannot start.
  Streams(const program::RankClass& rank_class, Backend& backend,
          std::function<void(const std::string&)> on_failure, bool one_thread = false);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Threads that the streams of such a rank have, beside the one that issues its work.
  static std::size_t threads_of(const program::RankClass& rank_class);

  // Issuing thread alone.
  Ticket latest(const program::EventRef& event, const program::Call& call) const;
  Ticket issue(const program::EventRef& event, const program::Call& call, program::Stream by);
  program::Stream signaller(const Ticket& ticket) const { return signallers_[ticket.instance]; }
  void enqueue(program::Stream stream, std::vector<Ticket> waits, std::function<void()> work,
               Ticket signal);

  // The thread that gives stream `by` its work. wait throws the first error when a stream failed.
  void wait(const Ticket& ticket, program::Stream by);
  void complete(const Ticket& ticket, program::Stream by);
  // Issuing thread: until every stream is idle.
  void drain();

 private:
  struct Task { std::vector<Ticket> waits; std::function<void()> work; Ticket signal; };
  struct Worker {
    program::Stream stream;
    std::deque<Task> queue{};
    std::size_t unfinished = 0;
    std::thread thread{};
  };

  std::size_t instance_of(const program::EventRef& event, const program::Call& call) const;
  void serve(Worker& worker);
  void stop();
  void fail(std::exception_ptr error);

  const program::RankClass& class_;
  Backend& backend_;
  std::function<void(const std::string&)> on_failure_;
  const bool one_thread_;
  std::vector<std::size_t> first_;              // by event: its first instance
  std::vector<std::uint64_t> issued_;           // by instance; issuing thread alone
  std::vector<program::Stream> signallers_;     // by instance; issuing thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> done_;             // by instance; guarded
  std::exception_ptr error_;                    // guarded
  bool stopping_ = false;                       // guarded
  std::vector<std::unique_ptr<Worker>> workers_;  // by stream
};

}  // namespace exec
