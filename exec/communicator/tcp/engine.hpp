#pragma once
// TcpEngine: the progress thread of one process and its connections. It receives, sends what a
// socket did not take at once, shows that this process lives, and agrees with the other ranks on
// the one cause that ends the world: whoever fails, or misses another, tells rank 0, which tells
// everybody; where rank 0 itself is lost, each rank ends alone.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exec/communicator/ending.hpp"
#include "exec/communicator/process_rooms.hpp"
#include "exec/communicator/tcp/link.hpp"
#include "exec/communicator/tcp/tcp_world.hpp"

namespace exec::tcp {

class TcpEngine final : public Carrier {
 public:
  struct Handlers {
    std::function<void(Message&&)> arrived;  // from the progress thread
    std::function<void()> ended;             // likewise, once; cause() is set
  };
  TcpEngine(const TcpOptions& options, Met met, Handlers handlers);
  ~TcpEngine() override;

  int rank() const override { return options_.place.rank; }
  int size() const { return options_.place.size; }
  const std::vector<int>& neighbours() const { return neighbours_; }

  Message blank(std::size_t size) override { return spares_.blank(size); }
  void recycle(Message&& message) override { spares_.recycle(std::move(message)); }
  void send(int to, Message&& message) override;
  void end_by(const std::string& failure) override { fail(failure); }
  void throw_if_ended() const override { ending_.throw_if_ended(); }

  std::vector<std::string> exchange(const std::string& mine);
  Cause fail(const std::string& message);
  std::optional<Cause> cause() const { return ending_.cause(); }
  // Whether this rank is the one to say why the world ended.
  bool speaks() const;
  void finish();
  bool left() { return ending_.leave(); }

 private:
  using Peer = std::unique_ptr<Link>;

  void serve();
  void step();
  void watch(int fd, std::uint64_t key, bool writes, bool first);
  void serve_event(std::uint64_t key, std::uint32_t events);
  void serve_link(Link& link, int peer, bool control, std::uint32_t events, std::uint64_t key);
  void take(Record&& record, int peer);
  void send_latecomers_away();
  void put(int to, bool control, RecordKind kind, Message&& body);
  void wake();
  Message message_of(std::string_view text);

  // ending.cpp
  void look_at_signal();
  void look_at_failures();
  void look_at_silence();
  void show_life();
  void lost(int peer, bool control);
  void report(Cause cause);
  void decide(Cause cause);
  void end(Cause cause);
  bool done();

  const TcpOptions& options_;
  const Handlers handlers_;
  std::vector<int> neighbours_, beside_;  // share its memory; its network too
  Spares spares_;
  Ending ending_;
  std::vector<Peer> control_, data_;  // by rank; null: none
  Socket listener_;
  std::deque<Socket> late_;           // strangers, told and soon closed
  Socket epoll_, wake_;

  // The progress thread's own.
  Time beat_at_{}, looked_at_ = Clock::now();
  std::optional<Time> told_at_;       // rank 0 was told a failure
  std::map<int, Time> lost_;          // data connections that ended, not yet anybody's failure
  std::optional<std::pair<Time, Cause>> waiting_;  // rank 0: its own signal may explain it

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::deque<std::string>> texts_;  // rank 0: by rank
  std::deque<std::string> answers_;             // others: all texts in one
  bool finishing_ = false, finished_ = false;
  std::thread thread_;
};

}  // namespace exec::tcp
