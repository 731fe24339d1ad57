#include "exec/interpret/streams.hpp"

#include <set>

#include "core/check.hpp"
#include "core/thread.hpp"

namespace exec {

using program::Call;
using program::EventRef;
using program::Stream;

Streams::Streams(const program::RankClass& rank_class, Backend& backend,
                 std::function<void(const std::string&)> on_failure, bool one_thread)
    : class_(rank_class),
      backend_(backend),
      on_failure_(std::move(on_failure)),
      one_thread_(one_thread),
      workers_(program::kStreams) {
  std::size_t instances = 0;
  for (const program::Event& e : class_.events) {
    first_.push_back(instances);
    instances += static_cast<std::size_t>(e.extent * e.slots);
  }
  issued_.resize(instances, 0);
  done_.resize(instances, 0);
  signallers_.resize(instances, Stream::compute);
  if (one_thread_) return;
  for (const program::Action& a : class_.actions) {
    auto& worker = workers_[static_cast<std::size_t>(a.stream)];
    if (a.stream == Stream::compute || worker) continue;
    worker = std::make_unique<Worker>(Worker{a.stream});
    try {
      worker->thread = core::start_thread(std::string("stream ").append(program::name(a.stream)),
                                          [this, w = worker.get()] { serve(*w); });
    } catch (...) {
      stop();                          // the destructor does not run
      throw;
    }
  }
}

Streams::~Streams() { stop(); }

void Streams::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& w : workers_)
    if (w && w->thread.joinable()) w->thread.join();
}

std::size_t Streams::threads_of(const program::RankClass& rank_class) {
  std::set<Stream> beside;
  for (const program::Action& a : rank_class.actions)
    if (a.stream != Stream::compute) beside.insert(a.stream);
  return beside.size();
}

std::size_t Streams::instance_of(const EventRef& event, const Call& call) const {
  return first_[event.event] + static_cast<std::size_t>(program::instance_of(
                                   class_.events[event.event], event, call));
}

Ticket Streams::latest(const EventRef& event, const Call& call) const {
  const std::size_t i = instance_of(event, call);
  return {i, issued_[i]};
}

Ticket Streams::issue(const EventRef& event, const Call& call, Stream by) {
  const std::size_t i = instance_of(event, call);
  signallers_[i] = by;
  return {i, ++issued_[i]};
}

void Streams::enqueue(Stream stream, std::vector<Ticket> waits, std::function<void()> work,
                      Ticket signal) {
  if (one_thread_) {
    for (const Ticket& t : waits) wait(t, stream);
    work();
    return complete(signal, stream);
  }
  Worker& worker = *workers_[static_cast<std::size_t>(stream)];
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    worker.queue.push_back({std::move(waits), std::move(work), signal});
    ++worker.unfinished;
  }
  changed_.notify_all();
}

void Streams::wait(const Ticket& ticket, Stream by) {
  if (ticket.sequence == 0) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || done_[ticket.instance] >= ticket.sequence; });
    if (error_) std::rethrow_exception(error_);
  }
  backend_.wait(by, ticket.instance);
}

void Streams::complete(const Ticket& ticket, Stream by) {
  if (ticket.sequence == 0) return;
  backend_.signal(by, ticket.instance);
  {
    const std::lock_guard lock(mutex_);
    done_[ticket.instance] = ticket.sequence;
  }
  changed_.notify_all();
}

void Streams::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    if (error_) return true;
    for (const auto& w : workers_)
      if (w && w->unfinished > 0) return false;
    return true;
  });
  if (error_) std::rethrow_exception(error_);
}

void Streams::fail(std::exception_ptr error) {
  std::string message = "unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    message = e.what();
  } catch (...) {
  }
  on_failure_(message);
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  changed_.notify_all();
}

void Streams::serve(Worker& worker) {
  try {
    backend_.enter_thread();
    while (true) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || error_ || !worker.queue.empty(); });
        if (stopping_ || error_) return;
        task = std::move(worker.queue.front());
        worker.queue.pop_front();
      }
      for (const Ticket& t : task.waits) wait(t, worker.stream);
      task.work();
      complete(task.signal, worker.stream);
      {
        const std::lock_guard lock(mutex_);
        --worker.unfinished;
      }
      changed_.notify_all();
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

}  // namespace exec
