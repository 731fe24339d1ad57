#pragma once
// Engine: the progress thread of one process, and all that is said to MPI. Others hand it messages
// and jobs under a lock; it polls, fast while somebody waits and rarely while nobody does, since
// MPI cannot be waited for together with a condition. It also agrees with the other ranks on the
// one cause that ends the world: whoever fails tells rank 0, which tells everybody.

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exec/communicator/ending.hpp"
#include "exec/communicator/mpi/mpi_world.hpp"
#include "exec/communicator/process_rooms.hpp"
#include "exec/communicator/spares.hpp"

namespace exec {

class Engine final : public Carrier {
 public:
  struct Handlers {
    std::function<void(Message&&)> arrived;  // from the progress thread
    std::function<void()> ended;             // likewise, once; cause() is set
  };
  Engine(const MpiOptions& options, Handlers handlers);
  ~Engine() override;

  int rank() const override { return rank_; }
  int size() const { return size_; }
  const std::vector<int>& neighbours() const { return neighbours_; }
  const std::string& version() const { return version_; }

  Message blank(std::size_t size) override { return spares_.blank(size); }
  void recycle(Message&& message) override { spares_.recycle(std::move(message)); }
  void send(int to, Message&& message) override;
  void end_by(const std::string& failure) override { fail(failure); }
  // While a thread waits the engine polls fast.
  void wait_begins() override;
  void wait_ends() override { waiting_.fetch_sub(1); }
  // Runs start() on the progress thread and returns once its request is complete.
  void run(const std::function<MPI_Request()>& start);
  // Likewise for what completes in itself.
  void perform(const std::function<void()>& body);
  Cause fail(const std::string& message);
  void throw_if_ended() const override { ending_.throw_if_ended(); }
  std::optional<Cause> cause() const { return ending_.cause(); }
  void finish();
  bool left() { return ending_.leave(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Sending { MPI_Request request; Message message; };
  struct Receiving { MPI_Request request; Message message; };
  struct Job { std::function<MPI_Request()> start; MPI_Request request; bool begun, done; };
  struct Told { MPI_Request request; std::string text; };

  void serve();
  void start();
  bool poll();
  bool start_sends();
  bool finish_sends();
  bool begin_receives();
  bool finish_receives();
  bool serve_jobs();
  void look_at_failures();
  void hear();
  void tell(int to, int tag, const std::string& text);
  void end(Cause cause);
  void rest(int idle);

  const MpiOptions& options_;
  const Handlers handlers_;
  int rank_ = 0, size_ = 1, spins_ = 0;
  std::vector<int> neighbours_;
  std::string version_;
  MPI_Comm data_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL;
  Spares spares_;
  Ending ending_;

  // The progress thread's own.
  std::vector<Sending> sending_;
  std::vector<std::deque<Receiving>> receiving_;  // by source: delivered in order
  std::deque<Told> told_;
  std::optional<Clock::time_point> failure_told_at_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::pair<int, Message>> outgoing_;
  std::deque<Job*> jobs_;
  std::string start_error_;
  bool started_ = false, finishing_ = false, finished_ = false;
  std::atomic<bool> kicked_{false};
  std::atomic<int> waiting_{0};
  std::thread thread_;
};

}  // namespace exec
