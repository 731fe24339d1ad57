#include "exec/communicator/local.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "core/check.hpp"
#include "core/thread.hpp"
#include "exec/communicator/loans.hpp"
#include "exec/communicator/mailbox.hpp"
#include "exec/communicator/message_communicator.hpp"

namespace exec {
namespace {

// The members of one group on one channel: an inbox each.
struct Room {
  explicit Room(std::size_t members) : inboxes(members), open(members) {}
  std::vector<Inbox> inboxes;
  std::vector<std::atomic<bool>> open;
};

}  // namespace

struct LocalWorld::State {
  State(int count, LocalOptions given)
      : ranks(count), options(std::move(given)), links(count, options.links, options.pairs) {}

  Room& room(const std::vector<int>& group, int channel);
  void abort(int rank, const std::string& message);
  void throw_if_aborted();

  const int ranks;
  const LocalOptions options;
  PacedLinks links;
  std::atomic<bool> aborted{false};
  std::mutex mutex;  // guards what follows
  std::optional<Aborted> cause;
  std::map<std::pair<std::vector<int>, int>, std::unique_ptr<Room>> rooms;
};

Room& LocalWorld::State::room(const std::vector<int>& group, int channel) {
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Room>& room = rooms[{group, channel}];
  if (!room) room = std::make_unique<Room>(group.size());
  return *room;
}

void LocalWorld::State::abort(int rank, const std::string& message) {
  const std::scoped_lock lock(mutex);
  if (cause) return;
  cause.emplace(rank, message);
  aborted.store(true, std::memory_order_release);
  for (auto& [key, room] : rooms) {
    for (Inbox& inbox : room->inboxes) inbox.wake();
  }
}

void LocalWorld::State::throw_if_aborted() {
  if (aborted.load(std::memory_order_acquire)) throw Aborted(*cause);  // set once, before the flag
}

namespace {

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalWorld::State& world, std::vector<int> group, int index, int channel,
                 MessageMemory& memory)
      : world_(world), group_(std::move(group)), index_(index), channel_(channel),
        room_(world.room(group_, channel)), memory_(memory) {
    PLANNER_CHECK(!room_.open[index_].exchange(true), "this communicator is open already");
    patience_.stop = [this] { world_.throw_if_aborted(); };
    patience_.limit = std::chrono::nanoseconds(
        static_cast<std::int64_t>(world.options.stall_limit.value() * 1e9));
    patience_.polls = world.options.polls_before_sleep;
  }
  ~LocalTransport() override { room_.open[index_].store(false); }

  int size() const override { return static_cast<int>(group_.size()); }
  int index() const override { return index_; }
  int rank_of(int i) const override { return group_[i]; }
  bool emulated_links() const override { return world_.links.any(); }

  void send(int peer, Lane lane, const Header& header, std::span<const std::byte> data,
            std::size_t zeros) override;
  void lend(int peer, Lane lane, const Header& header, std::span<const std::byte> data) override;
  void settle() override;
  void recall() noexcept override;
  Message receive(int peer, Lane lane) override;
  Peek wait_any(Lane lane) override;
  void recycle(Message&& message) override {
    if (message.lent) {
      message = {};
      return;
    }
    if (memory_.makes_messages()) return memory_.recycle(std::move(message));
    room_.inboxes[index_].recycle(std::move(message));
  }
  MessageMemory& memory() override { return memory_; }
  core::Bytes sent() const override { return sent_; }
  void abort(const std::string& message) override { world_.abort(group_[index_], message); }

 private:
  [[noreturn]] void stalled(const std::string& awaited);

  LocalWorld::State& world_;
  std::vector<int> group_;
  int index_;
  int channel_;
  Room& room_;
  MessageMemory& memory_;
  Inbox::Patience patience_;
  Loans loans_;
  core::Bytes sent_{0};
};

void LocalTransport::send(int peer, Lane lane, const Header& header,
                          std::span<const std::byte> data, std::size_t zeros) {
  world_.throw_if_aborted();
  Inbox& inbox = room_.inboxes[peer];
  const std::size_t bytes = data.size() + zeros;
  Message message = memory_.makes_messages() ? memory_.blank(bytes) : inbox.blank(bytes);
  message.header = header;
  memory_.copy(message.bytes.get(), data.data(), data.size());
  memory_.zero(message.bytes.get() + data.size(), zeros);
  memory_.sent(message);
  const core::Bytes size(static_cast<std::int64_t>(message.size));
  Inbox::Arrives arrives;
  // A barrier is the measurement's own, no message of the Program's: no link carries it.
  if (world_.links.any() && header.kind != CallKind::barrier) {
    const auto flight =
        world_.links.send(group_[index_], group_[peer], size, Inbox::Time::clock::now());
    if (flight) {
      arrives = [&links = world_.links, flight](Inbox::Time now) {
        return links.arrival(*flight, now);
      };
    }
  }
  if (group_[peer] != group_[index_]) sent_ += size;
  inbox.put(index_, lane, std::move(message), std::move(arrives));
}

// What is on a paced link, or in a device's memory, is on its way as a copy.
void LocalTransport::lend(int peer, Lane lane, const Header& header,
                          std::span<const std::byte> data) {
  if (data.size() < Loans::kLeast || world_.links.any() || memory_.makes_messages())
    return send(peer, lane, header, data, 0);
  world_.throw_if_aborted();
  if (group_[peer] != group_[index_]) sent_ += core::Bytes(std::ssize(data));
  room_.inboxes[peer].put(index_, lane, loans_.lend(header, data), {});
}

void LocalTransport::settle() {
  if (!loans_.any()) return;
  patience_.stalled = [&] { stalled("a rank to read what it was lent"); };
  loans_.settle(patience_);
}

// Called on the way out of an error, when no rank waits for a message any more.
void LocalTransport::recall() noexcept {
  if (!loans_.any()) return;
  for (Inbox& inbox : room_.inboxes) inbox.revoke(index_);
  loans_.wait_for_taken();
}

Message LocalTransport::receive(int peer, Lane lane) {
  patience_.stalled = [&] { stalled(fmt::format("a message from rank {}", group_[peer])); };
  Message message = room_.inboxes[index_].take(peer, lane, patience_);
  memory_.received(message);
  return message;
}

Peek LocalTransport::wait_any(Lane lane) {
  patience_.stalled = [&] { stalled("a message from any rank"); };
  return room_.inboxes[index_].peek_any(lane, patience_);
}

void LocalTransport::stalled(const std::string& awaited) {
  abort(fmt::format("waited more than {} s for {} (group {}, channel {})",
                    world_.options.stall_limit.value(), awaited, fmt::join(group_, ","), channel_));
  world_.throw_if_aborted();
  PLANNER_CHECK(false, "abort() did not set its flag");
  std::terminate();
}

}  // namespace

LocalWorld::LocalWorld(int ranks, LocalOptions options) {
  PLANNER_CHECK(ranks >= 1);
  state_ = std::make_unique<State>(ranks, std::move(options));
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::ranks() const { return state_->ranks; }
bool LocalWorld::emulated_links() const { return state_->links.any(); }

std::unique_ptr<Communicator> LocalWorld::open(int index, std::span<const int> group_ranks,
                                               int channel, MessageMemory& memory) {
  std::vector<int> group(group_ranks.begin(), group_ranks.end());
  PLANNER_CHECK(index >= 0 && index < std::ssize(group), "no place in the group");
  const auto [least, most] = std::ranges::minmax(group);
  PLANNER_CHECK(least >= 0 && most < ranks());
  for (int i = 0; i < static_cast<int>(group.size()); ++i)
    PLANNER_CHECK(earlier_places(group, i) <= 1, "a rank is in the group more than twice");
  return std::make_unique<MessageCommunicator>(
      std::make_unique<LocalTransport>(*state_, std::move(group), index, channel, memory));
}

void LocalWorld::abort(int rank, const std::string& message) { state_->abort(rank, message); }

void LocalWorld::run(const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr cause;  // the first that is not the echo of another
  std::exception_ptr echo;
  const auto keep = [&](std::exception_ptr& slot) {
    const std::scoped_lock lock(mutex);
    if (!slot) slot = std::current_exception();
  };
  // Whatever ends one rank ends the world.
  const auto guarded = [&](int rank, const std::function<void()>& work) {
    try {
      work();
    } catch (const Aborted&) {
      keep(echo);
    } catch (const std::exception& e) {
      keep(cause);
      state_->abort(rank, e.what());
    } catch (...) {
      keep(cause);
      state_->abort(rank, "an exception of unknown type");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks() && !state_->aborted.load(); ++rank)
    guarded(rank, [&] {
      threads.push_back(core::start_thread(fmt::format("rank {}", rank), [&, rank] {
        guarded(rank, [&] { body(rank); });
      }));
    });
  for (std::thread& t : threads) t.join();
  if (cause) std::rethrow_exception(cause);
  if (echo) std::rethrow_exception(echo);
}

}  // namespace exec
