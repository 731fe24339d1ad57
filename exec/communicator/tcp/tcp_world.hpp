#pragma once
// TcpWorld: ranks that are processes joined by TCP alone, on one machine or several, however they
// were started (place.hpp). One thread of each process, the progress thread, receives; messages go
// into the mailbox of the local world, so algorithms, order and counts are those of
// MessageCommunicator. A rank that is killed, stopped or cut off ends all others within seconds.
// Thread-safe, as Processes says.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "exec/communicator/processes.hpp"
#include "exec/communicator/tcp/meet.hpp"

namespace exec {

struct TcpOptions {
  Place place;
  tcp::Common common;
  // Set by a signal handler: the world ends within a tenth of a second.
  const std::atomic<int>* stop_signal = nullptr;
  // As MpiOptions has it.
  std::function<void(const std::string& text)> last_words;
  double beat_s = 1;      // between two signs of life
  double silence_s = 5;   // after which a rank counts as lost
  // The world's end ends a process that does not leave in time. Tests have several in one.
  bool ends_process = true;
};

class TcpWorld final : public Processes {
 public:
  // Waits until all ranks have come. Throws tcp::NotMet, tcp::Interrupted.
  explicit TcpWorld(TcpOptions options);
  ~TcpWorld() override;
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  std::string name() const override { return "tcp"; }
  int rank() const override;
  int ranks() const override;
  bool emulated_links() const override { return false; }
  const std::vector<int>& neighbours() const override;
  void abort(int rank, const std::string& message) override;
  void opened() override {}
  std::vector<std::string> exchange(const std::string& mine) override;
  std::string fail(const std::string& message) override;
  std::vector<SentTo> sent() const override;
  std::map<std::string, std::string> environment() const override;
  void finish() override;
  bool ended() const override;
  bool left() override;
  bool speaks() const override;
  int signal() const override;

  struct State;

 private:
  std::unique_ptr<Communicator> open(int index, std::span<const int> group_ranks, int channel,
                                     MessageMemory& memory) override;

  std::unique_ptr<State> state_;
};

}  // namespace exec
