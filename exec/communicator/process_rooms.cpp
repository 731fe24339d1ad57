#include "exec/communicator/process_rooms.hpp"

#include <cstring>

#include "core/check.hpp"
#include "exec/communicator/frame.hpp"
#include "exec/communicator/message_communicator.hpp"

namespace exec {
namespace {

// While it lives, the carrier knows that a thread waits.
class Waiting {
 public:
  explicit Waiting(Carrier& carrier) : carrier_(carrier) { carrier.wait_begins(); }
  ~Waiting() { carrier_.wait_ends(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Carrier& carrier_;
};

}  // namespace

class ProcessRooms::EndPoint final : public Transport {
 public:
  EndPoint(ProcessRooms& rooms, Carrier& carrier, std::vector<int> group, int index, int channel)
      : rooms_(rooms), carrier_(carrier), group_(std::move(group)), index_(index),
        room_(rooms.room(room_id(group_, channel, index))) {
    for (int i = 0; i < size(); ++i) {
      ids_.push_back(room_id(group_, channel, i));
      counted_.push_back(&rooms.counted(group_[static_cast<std::size_t>(i)]));
    }
    PLANNER_CHECK(!room_.open, "this communicator is open already, or two share an id");
    room_.open = true;
    room_.key = {group_, channel};
    patience_.stop = [this] { carrier_.throw_if_ended(); };
  }
  ~EndPoint() override { room_.open = false; }

  int size() const override { return static_cast<int>(group_.size()); }
  int index() const override { return index_; }
  int rank_of(int i) const override { return group_[static_cast<std::size_t>(i)]; }
  bool emulated_links() const override { return false; }

  void send(int peer, Lane lane, const Header& header, std::span<const std::byte> data,
            std::size_t zeros) override;
  Message receive(int peer, Lane lane) override {
    const Waiting waiting(carrier_);
    return room_.inbox.take(peer, lane, patience_);
  }
  Peek wait_any(Lane lane) override {
    const Waiting waiting(carrier_);
    return room_.inbox.peek_any(lane, patience_);
  }
  void recycle(Message&& message) override { carrier_.recycle(std::move(message)); }
  LibraryCollectives* library() override { return room_.library.get(); }
  core::Bytes sent() const override { return sent_; }
  void abort(const std::string& message) override { carrier_.end_by(message); }

 private:
  ProcessRooms& rooms_;
  Carrier& carrier_;
  std::vector<int> group_;
  int index_;
  std::vector<std::uint64_t> ids_;  // rooms, by index
  std::vector<Counted*> counted_;   // by index
  Room& room_;
  Inbox::Patience patience_;
  core::Bytes sent_{0};
};

void ProcessRooms::EndPoint::send(int peer, Lane lane, const Header& header,
                                  std::span<const std::byte> data, std::size_t zeros) {
  carrier_.throw_if_ended();
  const std::size_t size = data.size() + zeros;
  Message message = carrier_.blank(size + sizeof(Frame));
  message.size = size;
  if (!data.empty()) std::memcpy(message.bytes.get(), data.data(), data.size());
  if (zeros > 0) std::memset(message.bytes.get() + data.size(), 0, zeros);
  const auto at = static_cast<std::size_t>(peer);
  if (group_[at] == carrier_.rank()) {
    message.header = header;
    return rooms_.room(ids_[at]).inbox.put(index_, lane, std::move(message), {});
  }
  append(message, frame_of(ids_[at], index_, lane, header));
  const auto bytes = static_cast<std::int64_t>(size);
  sent_ += core::Bytes(bytes);
  counted_[at]->messages.fetch_add(1, std::memory_order_relaxed);
  counted_[at]->bytes.fetch_add(bytes, std::memory_order_relaxed);
  carrier_.send(group_[at], std::move(message));
}

ProcessRooms::Room& ProcessRooms::room(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<Room>& room = rooms_[id];
  if (!room) room = std::make_unique<Room>();
  return *room;
}

ProcessRooms::Counted& ProcessRooms::counted(int to) {
  const std::scoped_lock lock(mutex_);
  return counted_[to];
}

void ProcessRooms::put(Message&& message) {
  const Frame frame = strip(message);
  message.header = header_of(frame);
  room(frame.room).inbox.put(frame.sender, lane_of(frame), std::move(message), {});
}

void ProcessRooms::wake() {
  each([](Room& room) { room.inbox.wake(); });
}

void ProcessRooms::each(const std::function<void(Room&)>& body) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, room] : rooms_) body(*room);
}

std::unique_ptr<Communicator> ProcessRooms::open(Carrier& carrier, int index,
                                                 std::span<const int> group_ranks, int channel,
                                                 const MessageMemory& memory) {
  PLANNER_CHECK(!memory.makes_messages(), "messages between processes lie on the host");
  std::vector<int> group(group_ranks.begin(), group_ranks.end());
  PLANNER_CHECK(index >= 0 && index < std::ssize(group) &&
                    group[static_cast<std::size_t>(index)] == carrier.rank(),
                "a place of another process");
  return std::make_unique<MessageCommunicator>(
      std::make_unique<EndPoint>(*this, carrier, std::move(group), index, channel));
}

std::vector<SentTo> ProcessRooms::sent() const {
  const std::scoped_lock lock(mutex_);
  std::vector<SentTo> all;
  for (const auto& [to, c] : counted_)
    if (c.messages.load() > 0) all.push_back({to, c.messages.load(), core::Bytes(c.bytes.load())});
  return all;
}

}  // namespace exec
