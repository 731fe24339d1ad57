#include "exec/communicator/mailbox.hpp"

#include <iterator>
#include <limits>

namespace exec {
void Inbox::put(int sender, Lane lane, Message&& message, Arrives arrives) {
  {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t number = entries_.fetch_add(1, std::memory_order_release);
    queues_[{lane, sender}].push_back({std::move(message), std::move(arrives), Time{}, number});
  }
  changed_.notify_one();
}

void Inbox::wake() {
  {
    const std::scoped_lock lock(mutex_);
    entries_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
}

Inbox::Queues::iterator Inbox::wait(std::unique_lock<std::mutex>& lock,
                                    const std::function<Queues::iterator()>& find,
                                    const Patience& patience) {
  const Time start = std::chrono::steady_clock::now();
  const bool limited = patience.limit.count() > 0;
  int polls = patience.polls;
  for (;;) {
    patience.stop();
    const auto found = find();
    const Time now = std::chrono::steady_clock::now();
    if (found != queues_.end() && found->second.front().earliest <= now) {
      if (has_arrived(found->second.front(), now)) return found;
    } else if (found != queues_.end()) {
      changed_.wait_until(lock, found->second.front().earliest);
    } else if (polls > 0) {
      const std::uint64_t seen = entries_.load(std::memory_order_relaxed);
      lock.unlock();
      while (polls-- > 0 && entries_.load(std::memory_order_acquire) == seen) {}
      lock.lock();
    } else if (!limited) {
      changed_.wait(lock);
    } else if (now >= start + patience.limit) {
      lock.unlock();  // stalled() wakes every inbox, this one too
      patience.stalled();
      lock.lock();
    } else {
      changed_.wait_until(lock, start + patience.limit);
    }
  }
}

void Inbox::revoke(int sender) {
  const std::scoped_lock lock(mutex_);
  for (auto q = queues_.begin(); q != queues_.end();) {
    if (q->first.second == sender)
      std::erase_if(q->second, [](const Arrival& a) { return a.message.lent; });
    q = q->second.empty() ? queues_.erase(q) : std::next(q);
  }
}

bool Inbox::has_arrived(Arrival& arrival, Time now) {
  if (arrival.arrives) arrival.earliest = arrival.arrives(now);
  return arrival.earliest <= now;
}

Message Inbox::take(int sender, Lane lane, const Patience& patience) {
  std::unique_lock lock(mutex_);
  const auto queue = wait(lock, [&] { return queues_.find({lane, sender}); }, patience);
  Message message = std::move(queue->second.front().message);
  queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);  // lanes with a tag come and go
  return message;
}

Inbox::Queues::iterator Inbox::earliest(Lane lane) {
  auto best = queues_.end();
  const auto rank = [](const Arrival& a) { return std::pair(a.earliest, a.number); };
  for (auto q = queues_.lower_bound({lane, std::numeric_limits<int>::min()});
       q != queues_.end() && q->first.first == lane; ++q) {
    if (best == queues_.end() || rank(q->second.front()) < rank(best->second.front())) best = q;
  }
  return best;
}

Peek Inbox::peek_any(Lane lane, const Patience& patience) {
  std::unique_lock lock(mutex_);
  const auto queue = wait(lock, [&] { return earliest(lane); }, patience);
  return {queue->first.second, queue->second.front().message.header};
}

}  // namespace exec
