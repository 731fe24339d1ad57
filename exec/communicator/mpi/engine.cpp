#include "exec/communicator/mpi/engine.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/thread.hpp"
#include "exec/communicator/mpi/call.hpp"

namespace exec {
namespace {

using mpi::call;
using namespace std::chrono_literals;

constexpr int kData = 1;               // tag
constexpr int kPollsBeforeSleep = 2000;
constexpr int kYields = 20;
constexpr auto kSleepWhileAwaited = 50us, kSleepElse = 1000us;

std::vector<int> ranks_of_this_machine() {
  MPI_Comm here = MPI_COMM_NULL;
  call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
       "MPI_Comm_split_type");
  int size = 0, rank = 0;
  MPI_Comm_size(here, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  call(MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, here), "MPI_Allgather");
  MPI_Comm_free(&here);
  std::ranges::sort(ranks);
  return ranks;
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace

void Engine::wait_begins() {
  if (waiting_.fetch_add(1) > 0) return;
  {
    const std::scoped_lock lock(mutex_);
    kicked_.store(true);
  }
  changed_.notify_all();
}

Engine::Engine(const MpiOptions& options, Handlers handlers)
    : options_(options), handlers_(std::move(handlers)),
      thread_(core::start_thread("MPI's messages", [this] { serve(); })) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return started_; });
  const std::string error = start_error_;
  lock.unlock();
  if (error.empty()) return;
  thread_.join();
  throw std::runtime_error(error);
}

Engine::~Engine() {
  ending_.leave();
  if (thread_.joinable()) thread_.join();
}

// MPI is started by the thread that makes all later calls, so MPI_THREAD_FUNNELED is enough.
void Engine::start() {
  int provided = 0;
  call(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED)
    throw std::runtime_error("this MPI does not support a process with several threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  call(MPI_Comm_dup(MPI_COMM_WORLD, &data_), "MPI_Comm_dup");
  call(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  receiving_.resize(static_cast<std::size_t>(size_));
  neighbours_ = ranks_of_this_machine();
  version_ = library_version();
  // A core for this thread beside each rank's own: then polling costs nobody anything.
  if (std::thread::hardware_concurrency() >= 2 * neighbours_.size()) spins_ = kPollsBeforeSleep;
}

void Engine::serve() {
  ::prctl(PR_SET_TIMERSLACK, 1000ul);  // ns: a short sleep stays short
  try {
    start();
  } catch (const std::exception& e) {
    start_error_ = e.what();
  }
  {
    const std::scoped_lock lock(mutex_);
    started_ = true;
  }
  changed_.notify_all();
  if (!start_error_.empty()) return;
  try {
    for (int idle = 0; !ending_.ended() && !finished_ && !ending_.leaving();) {
      idle = poll() ? 0 : idle + 1;
      if (idle > 0) rest(idle);
    }
  } catch (const std::exception& e) {
    end({rank_, e.what(), 0, false});
  }
  if (!ending_.ended()) return;
  const Cause cause = *ending_.cause();
  ending_.await_leaving(cause.signal == 0 && (!cause.agreed || rank_ == 0), options_.last_words);
}

bool Engine::poll() {
  look_at_failures();
  if (ending_.ended()) return true;
  bool busy = start_sends();
  busy |= finish_sends();
  busy |= begin_receives();
  busy |= finish_receives();
  busy |= serve_jobs();
  return busy;
}

void Engine::rest(int idle) {
  if (idle <= spins_) return;
  if (idle <= spins_ + kYields) return std::this_thread::yield();
  const bool flies = !sending_.empty() || std::ranges::any_of(receiving_, [](const auto& queue) {
    return !queue.empty();
  });
  std::unique_lock lock(mutex_);
  const bool awaited = waiting_.load() > 0 || flies || !jobs_.empty();
  changed_.wait_for(lock, awaited ? kSleepWhileAwaited : kSleepElse, [&] {
    return !outgoing_.empty() || kicked_.exchange(false);
  });
}

void Engine::send(int to, Message&& message) {
  {
    const std::scoped_lock lock(mutex_);
    outgoing_.emplace_back(to, std::move(message));
  }
  changed_.notify_all();
}

bool Engine::start_sends() {
  std::deque<std::pair<int, Message>> fresh;
  {
    const std::scoped_lock lock(mutex_);
    fresh.swap(outgoing_);
  }
  for (auto& [to, message] : fresh) {
    const mpi::Bytes bytes(message.size, options_.longest_plain);
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Isend(message.bytes.get(), bytes.count(), bytes.type(), to, kData, data_, &request),
         "MPI_Isend");
    sending_.push_back({request, std::move(message)});
  }
  return !fresh.empty();
}

bool Engine::finish_sends() {
  const std::size_t before = sending_.size();
  std::erase_if(sending_, [&](Sending& s) {
    int done = 0;
    call(MPI_Test(&s.request, &done, MPI_STATUS_IGNORE), "MPI_Test of a send");
    if (done != 0) recycle(std::move(s.message));
    return done != 0;
  });
  return sending_.size() < before;
}

bool Engine::begin_receives() {
  bool any = false;
  for (;;) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    call(MPI_Improbe(MPI_ANY_SOURCE, kData, data_, &found, &handle, &status), "MPI_Improbe");
    if (found == 0) return any;
    any = true;
    MPI_Count size = 0;
    call(MPI_Get_elements_x(&status, MPI_BYTE, &size), "MPI_Get_elements_x");
    Receiving r{MPI_REQUEST_NULL, blank(static_cast<std::size_t>(size))};
    const mpi::Bytes bytes(r.message.size, options_.longest_plain);
    call(MPI_Imrecv(r.message.bytes.get(), bytes.count(), bytes.type(), &handle, &r.request),
         "MPI_Imrecv");
    receiving_[static_cast<std::size_t>(status.MPI_SOURCE)].push_back(std::move(r));
  }
}

// A short message may be complete before a long one that was sent earlier: it waits for its turn.
bool Engine::finish_receives() {
  bool any = false;
  for (auto& queue : receiving_)
    while (!queue.empty()) {
      int done = 0;
      call(MPI_Test(&queue.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test of a receive");
      if (done == 0) break;
      any = true;
      handlers_.arrived(std::move(queue.front().message));
      queue.pop_front();
    }
  return any;
}

void Engine::run(const std::function<MPI_Request()>& start) {
  Job job{start, MPI_REQUEST_NULL, false, false};
  wait_begins();
  {
    std::unique_lock lock(mutex_);
    jobs_.push_back(&job);
    kicked_.store(true);
    changed_.notify_all();
    changed_.wait(lock, [&] { return job.done || ending_.ended(); });
  }
  wait_ends();
  if (!job.done) throw_if_ended();
}

void Engine::perform(const std::function<void()>& body) {
  run([&] {
    body();
    return MPI_REQUEST_NULL;
  });
}

bool Engine::serve_jobs() {
  std::vector<Job*> now;
  {
    const std::scoped_lock lock(mutex_);
    now.assign(jobs_.begin(), jobs_.end());
  }
  bool any = false;
  for (Job* job : now) {
    if (!job->begun) job->request = job->start();
    job->begun = true;
    int done = 0;
    mpi::call(MPI_Test(&job->request, &done, MPI_STATUS_IGNORE), "MPI_Test of a collective");
    if (done == 0) continue;
    any = true;
    const std::scoped_lock lock(mutex_);
    std::erase(jobs_, job);
    job->done = true;
    changed_.notify_all();
  }
  const std::scoped_lock lock(mutex_);
  if (!finishing_ || !sending_.empty() || !outgoing_.empty()) return any;
  mpi::call(MPI_Finalize(), "MPI_Finalize");
  finished_ = true;
  changed_.notify_all();
  return true;
}

void Engine::finish() {
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    kicked_.store(true);
    changed_.notify_all();
    changed_.wait(lock, [&] { return finished_ || ending_.ended(); });
  }
  throw_if_ended();
}

}  // namespace exec
