#include "exec/communicator/mpi/mpi_world.hpp"

#include <algorithm>
#include <map>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/check.hpp"
#include "exec/communicator/frame.hpp"
#include "exec/communicator/mpi/call.hpp"
#include "exec/communicator/mpi/engine.hpp"
#include "exec/communicator/mpi/mpi_collectives.hpp"
#include "exec/communicator/process_rooms.hpp"

namespace exec {

struct MpiWorld::State {
  explicit State(MpiOptions given)
      : options(std::move(given)),
        engine(options, {[this](Message&& m) { rooms.put(std::move(m)); },
                         [this] { rooms.wake(); }}) {}

  const MpiOptions options;
  bool library = false;
  ProcessRooms rooms;
  Engine engine;  // its thread uses rooms
};

namespace {

using Room = ProcessRooms::Room;

// MPI knows no group with a rank twice; servers beside workers talk in messages alone.
bool distinct(const std::vector<int>& group) {
  for (int i = 0; i < static_cast<int>(group.size()); ++i)
    if (earlier_places(group, i) > 0) return false;
  return true;
}

std::string text_of(const Room& room) {
  return fmt::format("{}:{}", room.key.second, fmt::join(room.key.first, ","));
}

// "channel:rank,rank,..." of every group of several ranks that this one is in.
std::set<std::string> texts_of(MpiWorld::State& state) {
  std::set<std::string> texts;
  state.rooms.each([&](const Room& room) {
    if (room.open && room.key.first.size() > 1 && distinct(room.key.first))
      texts.insert(text_of(room));
  });
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
  return state_->rooms.open(state_->engine, index, group_ranks, channel, memory);
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
  std::vector<Room*> rooms;
  state_->rooms.each([&](Room& room) {
    room.library.reset();
    rooms.push_back(&room);
  });
  int tag = 0;
  for (const std::string& text : all) {
    ++tag;
    if (!mine.contains(text)) continue;
    for (Room* room : rooms) {
      if (!room->open || text_of(*room) != text) continue;
      const std::vector<int>& ranks = room->key.first;
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

std::vector<SentTo> MpiWorld::sent() const { return state_->rooms.sent(); }

std::map<std::string, std::string> MpiWorld::environment() const {
  return {{"mpi", state_->engine.version()},
          {"mpi_collectives", state_->library ? "library" : "own"},
          {"mpi_frame_bytes", std::to_string(sizeof(Frame))}};
}

void MpiWorld::finish() {
  exchange("");
  state_->engine.finish();
}

bool MpiWorld::ended() const { return state_->engine.cause().has_value(); }

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
