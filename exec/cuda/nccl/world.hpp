#pragma once
// NcclWorld: ranks that are processes with a GPU each. A control world (TCP) carries ids, barriers,
// failures and records; NCCL moves the bytes of device buffers, in the order of the streams that
// they are given to. No call waits for a peer on the calling thread, so one thread gives all
// streams of a rank their work, in the Program's order.
//
// A watch thread looks at every communicator and at the control world. An error that the library
// tells of later, a step that takes longer than its deadline, or another rank's end makes it end
// the world and abort every communicator, so that nothing waits for what will not come.
//
// Thread-safe as Processes says; communicators belong to the thread that gives work.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/communicator/processes.hpp"
#include "exec/cuda/api/api.hpp"
#include "exec/cuda/api/range_memory.hpp"
#include "exec/cuda/api/watch.hpp"
#include "exec/cuda/nccl/library.hpp"
#include "exec/cuda/nccl/plugin/use.hpp"

namespace exec::cuda {

class NcclCommunicator;

struct NcclOptions {
  // All sums by this program's kernels over send and receive, in program::reduction_order.
  bool own_collectives = false;
  // Ranges are symmetric windows of the communicators whose ranks have one layout, where the
  // library and the GPUs can; it then sums by kernels for which it asks no tuner.
  bool windows = false;
  // By ranks of a communicator: it has at least so many channels, where the library can.
  std::map<int, int> channels;
  core::Seconds deadline{1800};        // of what is given between two moments of rest: a step
  // Where half of a step's deadline is over, once; null: nobody is told.
  std::function<void(const std::string&)> tell;
  // The collectives that the library ran since this was last asked; null: not known.
  std::function<std::vector<Ran>()> ran;
};

class NcclWorld final : public Processes, public Watch, public RangeMemory {
 public:
  // Of a communicator of the library: the ranks in the order of their indices, and what keeps it
  // apart from others of the same ranks.
  using Key = std::pair<std::vector<int>, std::string>;

  // The calling thread has bound the device. All of them outlive the world.
  NcclWorld(Processes& control, Api& api, const CollectiveLibrary& library, NcclOptions options);
  ~NcclWorld() override;
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  std::string name() const override { return "nccl"; }
  int rank() const override { return control_.rank(); }
  int ranks() const override { return control_.ranks(); }
  bool emulated_links() const override { return false; }
  bool calls_wait() const override { return false; }
  const std::vector<int>& neighbours() const override { return control_.neighbours(); }
  void abort(int rank, const std::string& message) override;
  // Makes the library's communicators: every rank takes part in making each, in one order.
  void opened() override;
  std::vector<std::string> exchange(const std::string& mine) override {
    return control_.exchange(mine);
  }
  bool everyone(bool yes) override;
  std::string fail(const std::string& message) override;
  std::vector<SentTo> sent() const override { return {}; }  // the library does not say to whom
  std::map<std::string, std::string> environment() const override;
  void finish() override;
  bool left() override { return control_.left(); }
  bool speaks() const override { return control_.speaks(); }
  int signal() const override { return control_.signal(); }
  bool ended() const override { return control_.ended(); }

  // ---- Watch: while a thread waits for the device
  void look() override;
  void drained() override;
  void keeps(bool on) noexcept override { keeps_ = on; }
  void launched(StreamHandle stream) override;
  // By what the driver says is free before and after communicators are made, and before and after
  // each call until the first step is over: the library connects ranks when they first talk.
  core::Bytes taken() const override { return taken_; }

  // ---- RangeMemory: of the library, and registered with every communicator. That lets NVLink's
  // switches and network cards reach it without a copy to the library's own buffers. Null where the
  // library has no such memory (before 2.19).
  void* allocate_range(std::size_t bytes, int layout) override;
  void release_range(void* range) noexcept override;

  // ---- for communicators of this world
  Api& api() const { return api_; }
  const CollectiveLibrary& library() const { return library_; }
  const NcclOptions& options() const { return options_; }
  // REQUIRES: opened() has made it.
  nccl::Comm comm(const Key& key) const;
  // Calls into the library for `comm`, then waits until it has taken the work. `what` and `stream`:
  // what a message names, and where its end can be seen. Throws what ended the world.
  void call(nccl::Comm comm, const std::string& what, StreamHandle stream,
            const std::function<nccl::Result()>& body);
  void add(NcclCommunicator* communicator);
  void remove(NcclCommunicator* communicator);

 private:
  struct Given {                       // a call whose work may be under way
    std::string what;
    EventHandle done;
  };
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Communicator> open(int index, std::span<const int> group_ranks, int channel,
                                     MessageMemory& memory) override;
  // A thread that does not come out of the library or the driver by then is stuck there.
  static constexpr std::chrono::seconds kPatienceToAbort{2};
  static std::string text_of(const Key& key);
  void agree_on_machines();
  void make_first();
  void make_communicators(const std::set<Key>& all, const std::set<Key>& mine);
  void split(const std::vector<Key>& round);
  void await(nccl::Comm comm, const std::string& what);
  std::string words_of(nccl::Result result, nccl::Comm comm) const;
  // registered.cpp
  void register_range();
  void register_with(const Key& key, bool as_window);
  std::set<Key> keys_of_one_layout();
  void deregister_range();
  std::string range_text() const;
  void close();
  [[noreturn]] void throw_ended();
  void begin_busy();
  void note(const std::string& what, StreamHandle stream);
  void count_taken(const std::function<void()>& body);
  // The watch thread.
  void watch();
  std::string trouble();
  core::Seconds step_so_far() const;
  void tell_slow();
  void abort_all();
  std::string unfinished() const;

  Processes& control_;
  Api& api_;
  const CollectiveLibrary& library_;
  const NcclOptions options_;
  std::set<NcclCommunicator*> communicators_;
  nccl::Comm first_ = nullptr;         // of all ranks: the others are split from it
  // Where the library puts a communicator when the split that it goes on with by itself is over:
  // they may not move, and outlive a split that fails.
  std::deque<nccl::Comm> made_;
  std::map<Key, nccl::Comm> comms_;
  void* range_ = nullptr;              // of the library
  std::size_t range_bytes_ = 0;        // that were allocated, also when they are given back
  int layout_ = 0;                     // of it: ranks of one layout have the same
  struct Registered {
    nccl::Comm comm;
    void* handle = nullptr;            // of the range
    bool is_window = false;
  };
  std::deque<Registered> registered_;  // the library writes handles later: they may not move
  std::size_t registrations_ = 0, windows_ = 0;  // that there were
  core::Bytes taken_{0};
  bool measures_ = true;               // until the first step is over
  bool keeps_ = false;                 // calls are kept, to be done as part of a step

  // Held by whoever calls the library, or reads what is given; the watch thread takes it to abort.
  mutable std::timed_mutex calls_;
  std::deque<Given> given_;            // since the last moment of rest
  std::vector<EventHandle> spare_events_;
  std::atomic<Clock::rep> busy_since_{0};  // of the first that is given after rest; 0: at rest

  std::mutex state_mutex_;             // guards stopping_ and changes of aborted_
  std::condition_variable changed_;
  bool stopping_ = false;
  bool told_ = false;                  // the watch thread's
  std::atomic<bool> aborted_{false};   // no communicator is there any more
  std::thread watch_;                  // last: uses all of the above
};

}  // namespace exec::cuda
