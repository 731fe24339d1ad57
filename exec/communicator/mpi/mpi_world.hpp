#pragma once
// MpiWorld: ranks that are processes under mpirun or srun. One thread of each process, the progress
// thread, makes every call of MPI, so that messages move while ranks compute and MPI needs to
// support no more than one thread. Messages are copied once, into the mailbox of the local world;
// algorithms, order and counts are those of MessageCommunicator. One world per process and life.
// Thread-safe, as Processes says.

#include <atomic>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "exec/communicator/processes.hpp"

namespace exec {

struct MpiOptions {
  // Set by a signal handler: the world ends within a poll.
  const std::atomic<int>* stop_signal = nullptr;
  // Said by the progress thread when the world has ended and the process has not left() in time,
  // just before it ends the process; text: why, empty where another rank says it.
  std::function<void(const std::string& text)> last_words;
  // A longer message travels as a derived type, as MPI counts in int.
  std::size_t longest_plain = std::numeric_limits<int>::max();
};

class MpiWorld final : public Processes {
 public:
  // Starts MPI. Throws std::runtime_error when it does not start.
  explicit MpiWorld(MpiOptions options);
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  // Before any communicator is opened: MPI's own collectives for those that a library would choose
  // (ring, tree, gathers, scatters). It chooses algorithm and order of sums; nobody counts bytes.
  void use_library_collectives();

  std::string name() const override { return "mpi"; }
  int rank() const override;
  int ranks() const override;
  bool emulated_links() const override { return false; }
  const std::vector<int>& neighbours() const override;
  void abort(int rank, const std::string& message) override;
  void opened() override;
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
