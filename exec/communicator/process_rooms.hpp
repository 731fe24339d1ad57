#pragma once
// Communicators between processes, whatever carries their messages. A carrier moves bytes; here is
// what they mean: a room for each place of this rank in a group on a channel, whose inbox is that
// of the local world, and the count of what was sent to whom. Thread-safe.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/communicator/mailbox.hpp"
#include "exec/communicator/processes.hpp"

namespace exec {

// What moves messages from this process to others. Thread-safe.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual int rank() const = 0;
  virtual Message blank(std::size_t size) = 0;
  virtual void recycle(Message&& message) = 0;
  // Buffered; the message ends with its frame. REQUIRES: to is another rank.
  virtual void send(int to, Message&& message) = 0;
  // Ends the world, and waits until it has.
  virtual void end_by(const std::string& failure) = 0;
  virtual void throw_if_ended() const = 0;
  // A thread waits for a message in between.
  virtual void wait_begins() {}
  virtual void wait_ends() {}
};

class ProcessRooms {
 public:
  using GroupKey = std::pair<std::vector<int>, int>;  // ranks, channel

  // A message may come before the rank has opened its room.
  struct Room {
    Inbox inbox;
    GroupKey key;
    bool open = false;
    std::unique_ptr<LibraryCollectives> library;  // the carrier's own, where it has any
  };

  // From the carrier: a message for this rank. REQUIRES: it ends with a frame that is_sound().
  void put(Message&& message);
  // The world has ended: whoever waits looks up.
  void wake();

  // As World::open(). The carrier and this object outlive the communicator.
  std::unique_ptr<Communicator> open(Carrier& carrier, int index, std::span<const int> group_ranks,
                                     int channel, const MessageMemory& memory);
  std::vector<SentTo> sent() const;
  // Of every room, in the order of ids. Not while communicators are opened or closed.
  void each(const std::function<void(Room&)>& body);

 private:
  class EndPoint;
  struct Counted {
    std::atomic<std::int64_t> messages{0}, bytes{0};
  };
  Room& room(std::uint64_t id);
  Counted& counted(int to);

  mutable std::mutex mutex_;  // guards both maps; what they hold stays where it is
  std::map<std::uint64_t, std::unique_ptr<Room>> rooms_;
  std::map<int, Counted> counted_;  // by rank sent to
};

}  // namespace exec
