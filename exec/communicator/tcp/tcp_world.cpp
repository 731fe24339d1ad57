#include "exec/communicator/tcp/tcp_world.hpp"

#include <utility>

#include "exec/communicator/frame.hpp"
#include "exec/communicator/process_rooms.hpp"
#include "exec/communicator/tcp/engine.hpp"

namespace exec {

struct TcpWorld::State {
  explicit State(TcpOptions given)
      : options(std::move(given)),
        engine(options, tcp::meet(options.place, options.common, options.stop_signal),
               {[this](Message&& m) { rooms.put(std::move(m)); }, [this] { rooms.wake(); }}) {}

  const TcpOptions options;
  ProcessRooms rooms;
  tcp::TcpEngine engine;  // its thread uses rooms
};

TcpWorld::TcpWorld(TcpOptions options) : state_(std::make_unique<State>(std::move(options))) {}
TcpWorld::~TcpWorld() = default;

int TcpWorld::rank() const { return state_->engine.rank(); }
int TcpWorld::ranks() const { return state_->engine.size(); }
const std::vector<int>& TcpWorld::neighbours() const { return state_->engine.neighbours(); }

std::unique_ptr<Communicator> TcpWorld::open(int index, std::span<const int> group_ranks,
                                             int channel, MessageMemory& memory) {
  return state_->rooms.open(state_->engine, index, group_ranks, channel, memory);
}

void TcpWorld::abort(int, const std::string& message) { state_->engine.fail(message); }

std::vector<std::string> TcpWorld::exchange(const std::string& mine) {
  return state_->engine.exchange(mine);
}

std::string TcpWorld::fail(const std::string& message) {
  const Cause cause = state_->engine.fail(message);
  return Aborted(cause.rank, cause.message).what();
}

std::vector<SentTo> TcpWorld::sent() const { return state_->rooms.sent(); }

std::map<std::string, std::string> TcpWorld::environment() const {
  return {{"tcp_protocol", std::to_string(tcp::kProtocol)},
          {"tcp_frame_bytes", std::to_string(sizeof(Frame) + sizeof(tcp::RecordHead))}};
}

void TcpWorld::finish() { state_->engine.finish(); }
bool TcpWorld::ended() const { return state_->engine.cause().has_value(); }
bool TcpWorld::left() { return state_->engine.left(); }
bool TcpWorld::speaks() const { return state_->engine.speaks(); }

int TcpWorld::signal() const {
  const auto cause = state_->engine.cause();
  return cause ? cause->signal : 0;
}

}  // namespace exec
