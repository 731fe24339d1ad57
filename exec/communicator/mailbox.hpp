#pragma once
// Inbox: the messages on their way to one rank of one group, in a queue per sender and lane.
// Thread-safe: many senders, one receiver.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "exec/communicator/spares.hpp"

namespace exec {

class Inbox {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A message with room for `size` bytes, from the spares if one fits.
  Message blank(std::size_t size) { return spares_.blank(size); }
  void recycle(Message&& message) { spares_.recycle(std::move(message)); }

  // Says, of a message and a time, when the message arrives by what is known then: not earlier than
  // it said before, and for good once that is past. Called while this inbox is locked.
  using Arrives = std::function<Time(Time now)>;

  // Without `arrives` the message is there.
  void put(int sender, Lane lane, Message&& message, Arrives arrives);
  // Wakes the receiver to look at `stop` again.
  void wake();

  // Drops what that sender lent and nobody took.
  void revoke(int sender);

  // How a wait ends without a message: `stop` is asked whenever the receiver wakes and throws;
  // `stalled` is called once `limit` has passed, unless limit is zero, and throws.
  struct Patience {
    std::function<void()> stop;
    std::function<void()> stalled;
    std::chrono::nanoseconds limit{0};
    int polls = 0;
  };
  Message take(int sender, Lane lane, const Patience& patience);
  Peek peek_any(Lane lane, const Patience& patience);

 private:
  struct Arrival {
    Message message;
    Arrives arrives;
    Time earliest;         // that it arrives
    std::uint64_t number;  // order of entry over all queues
  };
  using Key = std::pair<Lane, int>;
  using Queues = std::map<Key, std::deque<Arrival>>;

  // Waits until find() gives a queue whose first message has arrived; locked when it returns.
  Queues::iterator wait(std::unique_lock<std::mutex>& lock,
                        const std::function<Queues::iterator()>& find, const Patience& patience);
  static bool has_arrived(Arrival& arrival, Time now);
  Queues::iterator earliest(Lane lane);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> entries_{0};
  Queues queues_;
  Spares spares_;
};

}  // namespace exec
