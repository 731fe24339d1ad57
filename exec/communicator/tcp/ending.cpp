// How the world ends before its time: what each rank notices, and who decides.

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "exec/communicator/tcp/engine.hpp"

namespace exec::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kVerdictWithin = 2s;  // else rank 0 is gone or hangs
constexpr auto kControlFirst = 1s;   // its end says more than that of a data connection
constexpr auto kOwnSignal = 500ms;   // a launcher's signal reaches all ranks, one by one
constexpr std::size_t kMostCause = 32768;  // bytes of a message

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

// Of a rank that a signal told to stop, for the others.
std::string stopped_by(int signal) {
  return fmt::format("was told to stop by signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace

Cause TcpEngine::fail(const std::string& message) {
  return ending_.fail(message.substr(0, kMostCause), [this] { wake(); });
}

void TcpEngine::look_at_signal() {
  const int signal = signal_at(options_.stop_signal);
  if (signal == 0) return;
  report({rank(), stopped_by(signal), signal, false});
  end({rank(), "interrupted", signal, false});
}

void TcpEngine::look_at_failures() {
  if (waiting_ && Clock::now() > waiting_->first) return end(waiting_->second);
  const std::optional<std::string> failure = ending_.failure();
  if (failure && !told_at_) report({rank(), *failure, 0, false});
  for (const auto& [peer, since] : lost_)
    if (!told_at_ && !ending_.ended() && Clock::now() > since + kControlFirst)
      report({peer, fmt::format("its connection to rank {} ended; the network failed, or something "
                                "closed it", rank()),
              0, false});
  if (!ending_.ended() && told_at_ && Clock::now() > *told_at_ + kVerdictWithin)
    end({rank(), failure.value_or("lost other ranks, and rank 0 does not answer"), 0, false});
}

// A rank that is stopped, or cut off without a word, says nothing. Who was stopped itself has heard
// nobody meanwhile, and begins anew.
void TcpEngine::look_at_silence() {
  const Time now = Clock::now();
  const auto silence = seconds(options_.silence_s);
  const bool was_away = now > looked_at_ + silence / 2;
  looked_at_ = now;
  for (std::size_t r = 0; r < control_.size() && !ending_.ended(); ++r) {
    if (!control_[r] || control_[r]->gone || control_[r]->said_bye) continue;
    if (was_away) control_[r]->heard = now;
    const Time heard = data_[r] ? std::max(control_[r]->heard, data_[r]->heard)
                                : control_[r]->heard;
    if (now <= heard + silence) continue;
    decide({static_cast<int>(r),
            fmt::format("was not heard from for {} s: it is stopped, or its machine or the network "
                        "is gone",
                        options_.silence_s),
            0, false});
  }
}

void TcpEngine::show_life() {
  if (Clock::now() < beat_at_) return;
  beat_at_ = Clock::now() + seconds(options_.beat_s);
  for (std::size_t r = 0; r < control_.size(); ++r)
    if (control_[r] && !control_[r]->gone && !control_[r]->has_unsent())
      put(static_cast<int>(r), true, RecordKind::beat, {});
}

void TcpEngine::lost(int peer, bool control) {
  if (!control) {
    lost_.try_emplace(peer, Clock::now());
    return;
  }
  decide({peer, "ended without a word; it was killed, or its machine failed", 0, false});
}

// To rank 0, which decides.
void TcpEngine::report(Cause cause) {
  if (rank() == 0) return decide(std::move(cause));
  if (told_at_ || !control_[0]) return;
  told_at_ = Clock::now();
  put(0, true, RecordKind::failure, message_of(text_of(cause)));
}

// Rank 0 for all; another rank for itself, where rank 0 is lost.
void TcpEngine::decide(Cause cause) {
  if (ending_.ended() || waiting_) return;
  cause.agreed = rank() == 0;
  const bool told_to_stop = cause.message.starts_with("was told to stop");
  if (rank() == 0 && told_to_stop && cause.rank != 0) {
    waiting_ = {Clock::now() + kOwnSignal, std::move(cause)};
    return;
  }
  end(std::move(cause));
}

void TcpEngine::end(Cause cause) {
  if (ending_.ended()) return;
  if (rank() == 0) {
    const Cause told = cause.signal == 0 ? cause
                                         : Cause{0, stopped_by(cause.signal), 0, true};
    for (int r = 1; r < size(); ++r)
      if (!control_[static_cast<std::size_t>(r)]->gone)
        put(r, true, RecordKind::verdict, message_of(text_of(told)));
  }
  // Who ends alone tells its neighbours that it has not been lost: it says why, and they need not.
  for (const int r : beside_)
    if (const Peer& link = data_[static_cast<std::size_t>(r)]; !cause.agreed && link && !link->gone)
      put(r, false, RecordKind::bye, {});
  const Time until = Clock::now() + kOwnSignal;
  for (const Peer& link : control_)
    while (link && !link->gone && link->flush() && Clock::now() < until)
      std::this_thread::sleep_for(1ms);
  ending_.end(std::move(cause));
  {
    const std::scoped_lock lock(mutex_);  // whoever waits is waiting, or sees the end
  }
  changed_.notify_all();
  handlers_.ended();
}

// Rank 0 where it lives; else of each machine the lowest rank that has not been lost.
bool TcpEngine::speaks() const {
  const std::optional<Cause> cause = ending_.cause();
  if (!cause || cause->signal != 0) return false;
  if (cause->agreed || rank() == 0) return rank() == 0;
  for (const int r : beside_) {
    if (r == rank()) return true;
    const Peer& link = data_[static_cast<std::size_t>(r)];
    if (r != cause->rank && link && (!link->gone || link->said_bye)) return false;
  }
  return true;
}

}  // namespace exec::tcp
