#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include <fmt/format.h>

#include "exec/communicator/tcp/meet.hpp"
#include "exec/communicator/tcp/reception.hpp"

namespace exec::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryAfter = 100ms;
constexpr auto kAnswerWithin = 10s;  // of a process that is there
constexpr auto kMargin = 10s;        // rank 0 says first why they do not meet

class Visit {
 public:
  Visit(const Place& place, const Common& common, const std::atomic<int>* signal)
      : place_(place), common_(common), machine_(this_machine()),
        until_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(place.patience))),
        signal_(signal) {}

  Met meet() {
    const Table table = register_here();
    Met met;
    met.control.push_back(std::move(control_));
    met.data.resize(static_cast<std::size_t>(place_.size));
    for (const Member& m : table.members) met.machine.push_back(m.machine);
    for (int r = 0; r < place_.rank; ++r) met.data[static_cast<std::size_t>(r)] = reach(table, r);
    receive_higher(table, met);
    begin(met.control.front());
    return met;
  }

 private:
  [[noreturn]] void end(const std::string& why, bool speaks) const {
    throw NotMet(fmt::format("rank {}: {}", place_.rank, why), speaks);
  }
  // Of many ranks that cannot reach rank 0, one of each machine says so.
  bool first_here() const { return place_.local_rank <= 0 || place_.rank == 1; }

  Wait wait(Clock::duration within) const { return {Clock::now() + within, signal_}; }

  Join join(Purpose purpose, const std::string& session) const {
    return {purpose,  place_.rank,  place_.size, common_.version, common_.plan,
            machine_, place_.job, port_,       session};
  }

  std::string where() const { return fmt::format("{} port {}", place_.address, place_.port); }

  // Tries until rank 0 is there.
  Table register_here() {
    std::string last = "no answer";
    for (bool first = true; first || Clock::now() < until_; first = false) {
      if (!first) pause();
      try {
        control_ = connect_to(place_.address, place_.port, wait(kAnswerWithin));
        listener_ = listen_at(own_address(control_).host, 0);
        port_ = own_address(listener_).port;
        return register_with(control_);
      } catch (const Refused& refused) {
        end_refused(refused.why());
      } catch (const NotUnderstood& error) {
        end(fmt::format("{}: {}; choose a MASTER_PORT that is free on the machine of rank 0",
                        where(), error.what()),
            first_here());
      } catch (const Interrupted&) {
        throw;
      } catch (const std::runtime_error& error) {
        if (registered_) end_without_host();
        last = error.what();
      }
    }
    end(fmt::format("expected rank 0 at {}, found none within {} s ({}); start it there, and let "
                    "the network pass this port",
                    where(), place_.patience, last),
        first_here());
  }

  void pause() const {
    check_signal(wait(0s));
    std::this_thread::sleep_for(kRetryAfter);
  }

  // Once the host has challenged this rank it is rank 0 and waits for the others.
  Table register_with(const Socket& socket) {
    const Wait last{until_ + kMargin, signal_};
    const std::string said = greet(socket, place_.secret, join(Purpose::registration, ""),
                                   wait(kAnswerWithin), last, &registered_);
    const std::optional<Table> table = decode_table(said);
    if (!table || std::ssize(table->members) != place_.size) throw NotUnderstood();
    return *table;
  }

  [[noreturn]] void end_refused(Refusal why) const {
    if (why == Refusal::secret)
      end(fmt::format("{}: expected the PLANNER_SECRET of rank 0, found another; set the same for "
                      "every rank, or choose another MASTER_PORT if another run is there",
                      where()),
          first_here());
    if (why == Refusal::busy)
      end(fmt::format("MASTER_PORT: expected a rank 0 that waits at {}, found another run that has "
                      "begun; choose another for every rank of this one: export MASTER_PORT={}",
                      where(), place_.port % 65535 + 1),
          first_here());
    if (why == Refusal::protocol)
      end(fmt::format("{}: expected the version of planner that is here ({}), found another; "
                      "install one build on every machine",
                      where(), common_.version),
          first_here());
    end("ended by rank 0, which says why", false);
  }

  Socket reach(const Table& table, int rank) const {
    const Member& m = table.members[static_cast<std::size_t>(rank)];
    const std::string& host = rank == 0 ? place_.address : m.host;
    try {
      Socket socket = connect_to(host, rank == 0 ? place_.port : m.port, wait(kAnswerWithin));
      bool there = false;
      greet(socket, place_.secret, join(Purpose::data, table.session),
            {until_ + kMargin, signal_}, {until_ + kMargin, signal_}, &there);
      return socket;
    } catch (const Interrupted&) {
      throw;
    } catch (const std::runtime_error& error) {
      end(fmt::format("expected to reach rank {} at {} port {}, found none ({}); let the network "
                      "pass the ports that ranks listen at",
                      rank, host, m.port, error.what()),
          rank != 0 || place_.rank == 1);
    }
  }

  void receive_higher(const Table& table, Met& met) {
    Reception reception(std::move(listener_), place_.secret);
    const std::array<int, 1> control{met.control.front().get()};
    for (int due = place_.size - 1 - place_.rank; due > 0;) {
      check_signal(wait(0s));
      for (Guest& guest : reception.look(control)) {
        const Join& j = guest.join;
        if (j.session != table.session || j.rank <= place_.rank || j.rank >= place_.size) continue;
        Socket& data = met.data[static_cast<std::size_t>(j.rank)];
        if (data.open()) continue;
        reception.welcome(guest, "", wait(kAnswerWithin));
        data = std::move(guest.socket);
        --due;
      }
      if (due > 0) look_at_control(met.control.front());
      if (Clock::now() > until_ + kMargin) end("the ranks did not reach each other in time", false);
    }
  }

  // Rank 0 says nothing before all are ready, unless it ends the run.
  void look_at_control(const Socket& control) const {
    char said = 0;
    const ssize_t got = ::recv(control.get(), &said, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) end("ended by rank 0, which says why", false);
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) end_without_host();
  }

  [[noreturn]] void end_without_host() const {
    end("rank 0 ended while the ranks met", place_.rank == 1);
  }

  void begin(const Socket& control) const {
    char said = 0;
    try {
      const Wait last{until_ + 2 * kMargin, signal_};
      send_all(control, std::as_bytes(std::span(&kReady, 1)), last);
      if (!receive_all(control, std::as_writable_bytes(std::span(&said, 1)), last))
        end_without_host();
    } catch (const SocketError&) {
      end_without_host();
    }
    if (said != kBegin) end("ended by rank 0, which says why", false);
  }

  const Place& place_;
  const Common& common_;
  const std::string machine_;
  const Time until_;
  const std::atomic<int>* const signal_;
  Socket control_, listener_;
  int port_ = 0;
  bool registered_ = false;
};

}  // namespace

Met meet_as_guest(const Place& place, const Common& common,
                  const std::atomic<int>* signal) {
  return Visit(place, common, signal).meet();
}

}  // namespace exec::tcp
