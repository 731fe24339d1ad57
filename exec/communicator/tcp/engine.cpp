#include "exec/communicator/tcp/engine.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/check.hpp"
#include "core/thread.hpp"
#include "exec/communicator/frame.hpp"
#include "exec/communicator/tcp/reception.hpp"

namespace exec::tcp {
namespace {

constexpr int kTick = 100;  // ms between looks at signals and silence
constexpr std::size_t kMostLate = 16;
// What an event is about: the wake-up, the listener, or a connection with a rank.
constexpr std::uint64_t kWake = 0, kListener = 1, kControl = std::uint64_t{1} << 32,
                        kData = std::uint64_t{2} << 32;

std::vector<int> alike(const std::vector<std::string>& machines, int rank,
                       std::string_view (*part)(std::string_view)) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < machines.size(); ++r)
    if (part(machines[r]) == part(machines[static_cast<std::size_t>(rank)]))
      ranks.push_back(static_cast<int>(r));
  return ranks;
}

// Texts in a row, each behind its length.
std::string pack_texts(const std::vector<std::string>& texts) {
  std::string row;
  for (const std::string& text : texts) {
    const std::uint64_t size = text.size();
    row.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  return row;
}

std::vector<std::string> unpack_texts(std::string_view row, std::size_t count) {
  std::vector<std::string> texts;
  while (texts.size() < count) {
    std::uint64_t size = 0;
    if (row.size() < sizeof size) break;
    std::memcpy(&size, row.data(), sizeof size);
    row.remove_prefix(sizeof size);
    if (size > row.size()) break;
    texts.emplace_back(row.substr(0, size));
    row.remove_prefix(size);
  }
  if (texts.size() < count || !row.empty()) throw BadRecord("rank 0 sent texts of other lengths");
  return texts;
}

}  // namespace

TcpEngine::TcpEngine(const TcpOptions& options, Met met, Handlers handlers)
    : options_(options), handlers_(std::move(handlers)),
      neighbours_(alike(met.machine, options.place.rank, memory_of)),
      beside_(alike(met.machine, options.place.rank,
                    [](std::string_view machine) { return machine; })),
      control_(static_cast<std::size_t>(options.place.size)), data_(control_.size()),
      listener_(std::move(met.listener)), epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), texts_(control_.size()) {
  if (!epoll_.open() || !wake_.open()) throw SocketError("epoll", errno);
  watch(wake_.get(), kWake, false, true);
  if (listener_.open()) watch(listener_.get(), kListener, false, true);
  for (std::size_t r = 0; r < data_.size(); ++r) {
    if (r < met.control.size() && met.control[r].open()) {
      control_[r] = std::make_unique<Link>(std::move(met.control[r]), spares_);
      watch(control_[r]->fd(), kControl | r, false, true);
    }
    if (met.data[r].open()) {
      data_[r] = std::make_unique<Link>(std::move(met.data[r]), spares_);
      watch(data_[r]->fd(), kData | r, false, true);
    }
  }
  thread_ = core::start_thread("the connections to other ranks", [this] { serve(); });
}

TcpEngine::~TcpEngine() {
  ending_.leave();
  wake();
  if (thread_.joinable()) thread_.join();
}

void TcpEngine::watch(int fd, std::uint64_t key, bool writes, bool first) {
  epoll_event event{};
  event.events = EPOLLIN | (writes ? EPOLLOUT : 0u);
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
}

void TcpEngine::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void TcpEngine::serve() {
  ::prctl(PR_SET_TIMERSLACK, 1000ul);  // ns: a short sleep stays short
  try {
    while (!ending_.ended() && !ending_.leaving() && !done()) step();
  } catch (const std::exception& e) {
    if (!ending_.ended()) end({rank(), e.what(), 0, false});
  }
  if (ending_.ended() && options_.ends_process)
    ending_.await_leaving(speaks(), options_.last_words);
}

void TcpEngine::step() {
  std::array<epoll_event, 64> events{};
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), kTick);
  for (int i = 0; i < n && !ending_.ended(); ++i)
    serve_event(events[static_cast<std::size_t>(i)].data.u64,
                events[static_cast<std::size_t>(i)].events);
  if (!ending_.ended()) look_at_signal();
  if (!ending_.ended()) look_at_failures();
  if (!ending_.ended()) look_at_silence();
  if (!ending_.ended()) show_life();
}

void TcpEngine::serve_event(std::uint64_t key, std::uint32_t events) {
  if (key == kListener) return send_latecomers_away();
  if (key == kWake) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(wake_.get(), &count, sizeof count);
    return;
  }
  const bool control = (key & kControl) != 0;
  const auto peer = static_cast<std::size_t>(key & 0xffffffff);
  serve_link(*(control ? control_ : data_)[peer], static_cast<int>(peer), control, events, key);
}

void TcpEngine::serve_link(Link& link, int peer, bool control, std::uint32_t events,
                           std::uint64_t key) {
  if ((events & EPOLLOUT) != 0 && !link.flush()) {
    watch(link.fd(), key, false, false);
    if (link.has_unsent()) watch(link.fd(), key, true, false);  // given in between
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return;
  bool there = false;
  try {
    there = link.receive([&](Record&& record) {
      if (record.kind == RecordKind::bye) link.said_bye = true;
      else take(std::move(record), peer);
    });
  } catch (const BadRecord& bad) {
    report({peer, bad.what(), 0, false});
  }
  if (there) return;
  link.gone = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.fd(), nullptr);
  if (!link.said_bye && !ending_.ended() && !told_at_) lost(peer, control);
}

void TcpEngine::take(Record&& record, int peer) {
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(record.body.bytes.get()), record.body.size);
  };
  switch (record.kind) {
    case RecordKind::data:
      if (!is_sound(record.body)) throw BadRecord("sent a message without a sound frame");
      return handlers_.arrived(std::move(record.body));
    case RecordKind::text: {
      const std::scoped_lock lock(mutex_);
      texts_[static_cast<std::size_t>(peer)].push_back(text());
      return changed_.notify_all();
    }
    case RecordKind::texts: {
      const std::scoped_lock lock(mutex_);
      answers_.push_back(text());
      return changed_.notify_all();
    }
    case RecordKind::failure:
      if (rank() == 0) decide(cause_of(text()));
      return;
    case RecordKind::verdict: return end(cause_of(text()));
    case RecordKind::beat:
    case RecordKind::bye: return;
  }
}

// Someone else's ranks that come to this port are told that it is taken.
void TcpEngine::send_latecomers_away() {
  for (;;) {
    Socket late = accept_from(listener_);
    if (!late.open()) return;
    refuse(late, Refusal::busy);
    if (late_.size() == kMostLate) late_.pop_front();
    late_.push_back(std::move(late));  // closed at once, it might not be heard
  }
}

void TcpEngine::put(int to, bool control, RecordKind kind, Message&& body) {
  const auto peer = static_cast<std::size_t>(to);
  const Peer& link = (control ? control_ : data_)[peer];
  if (link->send(kind, std::move(body)))
    watch(link->fd(), (control ? kControl : kData) | peer, true, false);
}

void TcpEngine::send(int to, Message&& message) {
  if (message.size > most_bytes(RecordKind::data))
    throw std::runtime_error("a message of " + std::to_string(message.size) +
                             " bytes, more than one record takes");
  put(to, false, RecordKind::data, std::move(message));
}

Message TcpEngine::message_of(std::string_view text) {
  Message message = blank(text.size());
  if (!text.empty()) std::memcpy(message.bytes.get(), text.data(), text.size());
  return message;
}

// Over rank 0: all texts go to it, and their row comes back.
std::vector<std::string> TcpEngine::exchange(const std::string& mine) {
  std::vector<std::string> all(texts_.size());
  all[static_cast<std::size_t>(rank())] = mine;
  if (size() == 1) return all;
  const auto check_size = [](std::size_t bytes) {
    if (bytes > most_bytes(RecordKind::text))
      throw std::runtime_error(
          "what the ranks tell each other exceeds 2 GiB; leave out --trace");
  };
  check_size(mine.size());
  std::unique_lock lock(mutex_);
  if (rank() != 0) {
    lock.unlock();
    put(0, false, RecordKind::text, message_of(mine));
    lock.lock();
    changed_.wait(lock, [&] { return !answers_.empty() || ending_.ended(); });
    if (answers_.empty()) ending_.throw_if_ended();
    const std::string row = std::move(answers_.front());
    answers_.pop_front();
    lock.unlock();
    return unpack_texts(row, texts_.size());
  }
  for (std::size_t r = 1; r < all.size(); ++r) {
    changed_.wait(lock, [&] { return !texts_[r].empty() || ending_.ended(); });
    if (texts_[r].empty()) ending_.throw_if_ended();
    all[r] = std::move(texts_[r].front());
    texts_[r].pop_front();
  }
  lock.unlock();
  const std::string row = pack_texts(all);
  check_size(row.size());
  Message message = message_of(row);
  message.capacity = 0;  // shared by all who are sent it: no spare
  for (int r = 1; r < size(); ++r) put(r, false, RecordKind::texts, Message(message));
  return all;
}

void TcpEngine::finish() {
  exchange("");
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
  }
  for (int r = 0; r < size(); ++r)
    for (const bool control : {true, false})
      if ((control ? control_ : data_)[static_cast<std::size_t>(r)])
        put(r, control, RecordKind::bye, {});
  wake();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ || ending_.ended(); });
  if (!finished_) ending_.throw_if_ended();
}

// Everything that was said has left, and everybody has said that nothing follows.
bool TcpEngine::done() {
  {
    const std::scoped_lock lock(mutex_);
    if (!finishing_) return false;
  }
  for (const auto* links : {&control_, &data_})
    for (const Peer& link : *links)
      if (link && !link->gone && (!link->said_bye || link->has_unsent())) return false;
  const std::scoped_lock lock(mutex_);
  finished_ = true;
  changed_.notify_all();
  return true;
}

}  // namespace exec::tcp
