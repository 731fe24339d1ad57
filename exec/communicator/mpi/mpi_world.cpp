#include "exec/communicator/mpi/mpi_world.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/check.hpp"
#include "exec/communicator/mailbox.hpp"
#include "exec/communicator/message_communicator.hpp"
#include "exec/communicator/mpi/call.hpp"
#include "exec/communicator/mpi/engine.hpp"
#include "exec/communicator/mpi/frame.hpp"
#include "exec/communicator/mpi/mpi_collectives.hpp"

namespace exec {
namespace {

using GroupKey = std::pair<std::vector<int>, int>;  // ranks, channel

// This rank's place in a group on a channel. A message may come before the rank has opened it.
struct Room {
  Inbox inbox;
  GroupKey key;
  bool open = false;
  std::unique_ptr<MpiCollectives> library;
};

struct Counted {
  std::atomic<std::int64_t> messages{0}, bytes{0};
};

}  // namespace

struct MpiWorld::State {
  explicit State(MpiOptions given)
      : options(std::move(given)),
        engine(options, {[this](Message&& m) { put(std::move(m)); }, [this] { wake(); }}),
        counted(static_cast<std::size_t>(engine.size())) {}

  Room& room(std::uint64_t id) {
    const std::scoped_lock lock(mutex);
    std::unique_ptr<Room>& room = rooms[id];
    if (!room) room = std::make_unique<Room>();
    return *room;
  }
  void put(Message&& message) {
    const Frame frame = strip(message);
    message.header = header_of(frame);
    room(frame.room).inbox.put(frame.sender, lane_of(frame), std::move(message), {});
  }
  void wake() {
    const std::scoped_lock lock(mutex);
    for (auto& [id, room] : rooms) room->inbox.wake();
  }

  const MpiOptions options;
  bool library = false;
  std::mutex mutex;  // guards rooms
  std::map<std::uint64_t, std::unique_ptr<Room>> rooms;
  Engine engine;     // its thread uses rooms
  std::vector<Counted> counted;  // by rank sent to
};

namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport(MpiWorld::State& world, std::vector<int> group, int index, int channel)
      : world_(world), group_(std::move(group)), index_(index),
        room_(world.room(room_id(group_, channel, index))) {
    for (int i = 0; i < size(); ++i) ids_.push_back(room_id(group_, channel, i));
    PLANNER_CHECK(!room_.open, "this communicator is open already, or two share an id");
    room_.open = true;
    room_.key = {group_, channel};
    patience_.stop = [this] { world_.engine.throw_if_ended(); };
  }
  ~MpiTransport() override { room_.open = false; }

  int size() const override { return static_cast<int>(group_.size()); }
  int index() const override { return index_; }
  int rank_of(int i) const override { return group_[i]; }
  bool emulated_links() const override { return false; }

  void send(int peer, Lane lane, const Header& header, std::span<const std::byte> data,
            std::size_t zeros) override;
  Message receive(int peer, Lane lane) override {
    const Engine::Waiting waiting(world_.engine);
    return room_.inbox.take(peer, lane, patience_);
  }
  Peek wait_any(Lane lane) override {
    const Engine::Waiting waiting(world_.engine);
    return room_.inbox.peek_any(lane, patience_);
  }
  void recycle(Message&& message) override { world_.engine.recycle(std::move(message)); }
  LibraryCollectives* library() override { return room_.library.get(); }
  core::Bytes sent() const override { return sent_; }
  void abort(const std::string& message) override { world_.engine.fail(message); }

 private:
  MpiWorld::State& world_;
  std::vector<int> group_;
  int index_;
  std::vector<std::uint64_t> ids_;     // rooms, by index
  Room& room_;
  Inbox::Patience patience_;
  core::Bytes sent_{0};
};

void MpiTransport::send(int peer, Lane lane, const Header& header,
                        std::span<const std::byte> data, std::size_t zeros) {
  world_.engine.throw_if_ended();
  const std::size_t size = data.size() + zeros;
  Message message = world_.engine.blank(size + sizeof(Frame));
  message.size = size;
  if (!data.empty()) std::memcpy(message.bytes.get(), data.data(), data.size());
  if (zeros > 0) std::memset(message.bytes.get() + data.size(), 0, zeros);
  const std::uint64_t id = ids_[static_cast<std::size_t>(peer)];
  if (group_[peer] == group_[index_]) {
    message.header = header;
    return world_.room(id).inbox.put(index_, lane, std::move(message), {});
  }
  append(message, frame_of(id, index_, lane, header));
  const auto bytes = static_cast<std::int64_t>(size);
  sent_ += core::Bytes(bytes);
  Counted& counted = world_.counted[static_cast<std::size_t>(group_[peer])];
  counted.messages.fetch_add(1, std::memory_order_relaxed);
  counted.bytes.fetch_add(bytes, std::memory_order_relaxed);
  world_.engine.send(group_[peer], std::move(message));
}

// MPI knows no group with a rank twice; servers beside workers talk in messages alone.
bool distinct(const std::vector<int>& group) {
  for (int i = 0; i < static_cast<int>(group.size()); ++i)
    if (earlier_places(group, i) > 0) return false;
  return true;
}

// "channel:rank,rank,..." of every group of several ranks that this one is in.
std::set<std::string> texts_of(const MpiWorld::State& state) {
  std::set<std::string> texts;
  for (const auto& [id, room] : state.rooms)
    if (room->open && room->key.first.size() > 1 && distinct(room->key.first))
      texts.insert(fmt::format("{}:{}", room->key.second, fmt::join(room->key.first, ",")));
  return texts;
}

MPI_Comm make_comm(const std::vector<int>& ranks, int tag) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  mpi::call(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  mpi::call(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some),
            "MPI_Group_incl");
  mpi::call(MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &comm), "MPI_Comm_create_group");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return comm;
}

}  // namespace

MpiWorld::MpiWorld(MpiOptions options) : state_(std::make_unique<State>(std::move(options))) {}
MpiWorld::~MpiWorld() = default;

void MpiWorld::use_library_collectives() { state_->library = true; }
int MpiWorld::rank() const { return state_->engine.rank(); }
int MpiWorld::ranks() const { return state_->engine.size(); }
const std::vector<int>& MpiWorld::neighbours() const { return state_->engine.neighbours(); }

std::unique_ptr<Communicator> MpiWorld::open(int index, std::span<const int> group_ranks,
                                             int channel, MessageMemory& memory) {
  PLANNER_CHECK(!memory.makes_messages(), "messages between processes lie on the host");
  std::vector<int> group(group_ranks.begin(), group_ranks.end());
  PLANNER_CHECK(index >= 0 && index < std::ssize(group) &&
                    group[static_cast<std::size_t>(index)] == rank(),
                "a place of another process");
  return std::make_unique<MessageCommunicator>(
      std::make_unique<MpiTransport>(*state_, std::move(group), index, channel));
}

void MpiWorld::abort(int, const std::string& message) { state_->engine.fail(message); }

// Every process makes the communicators it is in, in one order over all of them: none can wait for
// one that waits for it.
void MpiWorld::opened() {
  if (!state_->library) return;
  std::set<std::string> all;
  for (const std::string& texts : exchange(fmt::format("{}", fmt::join(texts_of(*state_), "\n"))))
    for (std::size_t at = 0; at < texts.size();) {
      const std::size_t end = std::min(texts.find('\n', at), texts.size());
      all.insert(texts.substr(at, end - at));
      at = end + 1;
    }
  const std::set<std::string> mine = texts_of(*state_);
  for (auto& [id, room] : state_->rooms) room->library.reset();
  int tag = 0;
  for (const std::string& text : all) {
    ++tag;
    if (!mine.contains(text)) continue;
    for (auto& [id, room] : state_->rooms) {
      const auto& [ranks, channel] = room->key;
      if (!room->open || fmt::format("{}:{}", channel, fmt::join(ranks, ",")) != text) continue;
      MPI_Comm comm = MPI_COMM_NULL;
      state_->engine.perform([&] { comm = make_comm(ranks, tag); });
      const auto index = std::ranges::find(ranks, rank()) - ranks.begin();
      room->library = std::make_unique<MpiCollectives>(
          state_->engine, comm, static_cast<int>(ranks.size()), static_cast<int>(index));
    }
  }
}

std::vector<std::string> MpiWorld::exchange(const std::string& mine) {
  Engine& engine = state_->engine;
  const auto size = static_cast<std::size_t>(engine.size());
  const auto own = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(size);
  engine.run([&] {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::call(MPI_Iallgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, MPI_COMM_WORLD,
                             &request),
              "MPI_Iallgather");
    return request;
  });
  std::vector<int> counts, places;
  std::int64_t total = 0;
  for (std::int64_t s : sizes) {
    places.push_back(static_cast<int>(total));
    counts.push_back(static_cast<int>(s));
    total += s;
  }
  if (total > std::numeric_limits<int>::max())
    throw std::runtime_error("what the ranks tell each other exceeds 2 GiB; leave out --trace");
  std::string all(static_cast<std::size_t>(total), '\0');
  engine.run([&] {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi::call(MPI_Iallgatherv(mine.data(), static_cast<int>(own), MPI_BYTE, all.data(),
                              counts.data(), places.data(), MPI_BYTE, MPI_COMM_WORLD, &request),
              "MPI_Iallgatherv");
    return request;
  });
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < size; ++r)
    texts.push_back(all.substr(static_cast<std::size_t>(places[r]),
                               static_cast<std::size_t>(counts[r])));
  return texts;
}

std::string MpiWorld::fail(const std::string& message) {
  const Cause cause = state_->engine.fail(message);
  return Aborted(cause.rank, cause.message).what();
}

std::vector<SentTo> MpiWorld::sent() const {
  std::vector<SentTo> all;
  for (std::size_t to = 0; to < state_->counted.size(); ++to) {
    const Counted& c = state_->counted[to];
    if (c.messages.load() > 0)
      all.push_back({static_cast<int>(to), c.messages.load(), core::Bytes(c.bytes.load())});
  }
  return all;
}

std::map<std::string, std::string> MpiWorld::environment() const {
  return {{"mpi", state_->engine.version()},
          {"mpi_collectives", state_->library ? "library" : "own"},
          {"mpi_frame_bytes", std::to_string(sizeof(Frame))}};
}

void MpiWorld::finish() {
  exchange("");
  state_->engine.finish();
}

bool MpiWorld::left() { return state_->engine.left(); }

bool MpiWorld::speaks() const {
  const auto cause = state_->engine.cause();
  return cause && cause->signal == 0 && (!cause->agreed || rank() == 0);
}

int MpiWorld::signal() const {
  const auto cause = state_->engine.cause();
  return cause ? cause->signal : 0;
}

}  // namespace exec
