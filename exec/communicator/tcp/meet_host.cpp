#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exec/communicator/tcp/meet.hpp"
#include "exec/communicator/tcp/reception.hpp"

namespace exec::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kImpostorFor = 5s;  // a rank with the right secret may come still

class Host {
 public:
  Host(const Place& place, const Common& common, const std::atomic<int>* signal)
      : place_(place), common_(common), machine_(this_machine()),
        session_(fmt::format("{:016x}", fmt::join(random_words(), ""))),
        wait_{Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(place.patience)),
              signal},
        guests_(static_cast<std::size_t>(place.size)),
        reception_(listen(), place.secret) {
    met_.control.resize(guests_.size());
    met_.data.resize(guests_.size());
  }

  Met meet() {
    try {
      await_ranks();
      hand_out_table();
      await_data();
      await_ready();
    } catch (const NotMet&) {
      for (const auto& guest : guests_)
        if (guest) refuse(guest->socket, Refusal::ended);
      throw;
    }
    for (std::size_t r = 1; r < guests_.size(); ++r)
      met_.control[r] = std::move(guests_[r]->socket);
    met_.listener = std::move(reception_.listener());
    return std::move(met_);
  }

 private:
  static std::vector<std::uint64_t> random_words() {
    const Nonce nonce = random_nonce();
    std::vector<std::uint64_t> words(2);
    std::copy(nonce.begin(), nonce.end(), reinterpret_cast<char*>(words.data()));
    return words;
  }

  [[noreturn]] static void end(int rank, const std::string& why) {
    throw NotMet(fmt::format("rank {}: {}", rank, why), true);
  }

  Socket listen() {
    if (place_.listener >= 0) {
      prepare(place_.listener);
      return Socket(place_.listener);
    }
    try {
      return listen_where_named();
    } catch (const SocketError& error) {
      if (error.error() != EADDRINUSE) end(0, error.what());
      end(0, fmt::format("MASTER_PORT: expected a free port, found {} in use, perhaps by another "
                         "run on this machine; choose another for every rank: export "
                         "MASTER_PORT={}",
                         place_.port, place_.port % 65535 + 1));
    }
  }

  // A name may be nobody's yet: a pod's is known some seconds after it has begun. This process
  // is rank 0 all the same, and listens at every address.
  Socket listen_where_named() const {
    try {
      return listen_at(place_.address, place_.port);
    } catch (const SocketError&) {
      throw;
    } catch (const std::runtime_error&) {
      return listen_at("0.0.0.0", place_.port);
    }
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = 1; r < place_.size; ++r)
      if (!guests_[static_cast<std::size_t>(r)]) ranks.push_back(r);
    return ranks;
  }

  // Registered ranks that end are not waited for.
  std::vector<Guest> look() {
    check_signal(wait_);
    std::vector<int> registered;
    for (const auto& guest : guests_)
      if (guest) registered.push_back(guest->socket.get());
    std::vector<Guest> came = reception_.look(registered);
    for (int r = 1; r < place_.size; ++r) {
      const auto& guest = guests_[static_cast<std::size_t>(r)];
      if (guest && is_gone(guest->socket))
        end(r, fmt::format("ended, on {}, while the ranks met", guest->host));
    }
    return came;
  }

  void await_ranks() {
    for (std::vector<int> late = missing(); !late.empty(); late = missing()) {
      for (Guest& guest : look()) {
        if (guest.join.purpose != Purpose::registration) continue;
        admit(guest);
        guests_[static_cast<std::size_t>(guest.join.rank)] = std::move(guest);
      }
      const std::vector<int> still = missing();
      if (!still.empty() && Clock::now() > wait_.until) end(0, too_late(still));
      if (!still.empty()) check_impostors(still);
    }
  }

  std::string too_late(const std::vector<int>& late) const {
    const auto& others = reception_.impostors();
    return fmt::format("{} did not come to {} port {} within {} s{}; start every rank, and let the "
                       "network pass this port and those that ranks listen at",
                       ranks_text(late, place_.size), place_.address, place_.port,
                       place_.patience,
                       others.empty() ? "" : " (somebody came with another PLANNER_SECRET)");
  }

  // All that are awaited came with another secret: they will not come back with the right one.
  void check_impostors(const std::vector<int>& late) const {
    const auto& others = reception_.impostors();
    const bool all = std::ranges::all_of(late, [&](int rank) {
      const auto other = others.find(rank);
      return other != others.end() && Clock::now() > other->second.first + kImpostorFor;
    });
    if (all)
      end(late.front(), fmt::format("expected the PLANNER_SECRET of rank 0, found another, on {}; "
                                    "set the same for every rank",
                                    others.at(late.front()).host));
  }

  // Throws where it cannot be one of this run; then it is told that this is said here.
  void admit(const Guest& guest) const try {
    check(guest);
  } catch (const NotMet&) {
    refuse(guest.socket, Refusal::ended);
    throw;
  }

  void check(const Guest& guest) const {
    const Join& j = guest.join;
    const auto differs = [&](std::string_view what, const auto& expected, const auto& found,
                             std::string_view fix) {
      end(j.rank, fmt::format("{}: expected {}, as rank 0 has, found {}, on {}; {}", what,
                              expected, found, guest.host, fix));
    };
    if (j.size != place_.size)
      differs("WORLD_SIZE", place_.size, j.size, "start all ranks with one number");
    if (j.version != common_.version)
      differs("version of planner", common_.version, j.version,
              "install one build on every machine");
    if (j.job != place_.job)
      differs("job", place_.job, j.job,
              "two runs share a port: choose another MASTER_PORT for one of them");
    if (!j.plan.empty() && !common_.plan.empty() && j.plan != common_.plan)
      differs("the plan's file", common_.plan.substr(0, 12), j.plan.substr(0, 12),
              "copy one plan to every machine");
    if (j.rank < 1 || j.rank >= place_.size || guests_[static_cast<std::size_t>(j.rank)])
      end(j.rank, fmt::format("expected one process of each rank below {}, found another that "
                              "says it is this rank, on {}",
                              place_.size, guest.host));
  }

  void hand_out_table() {
    Table table{session_, {{place_.address, place_.port, machine_}}};
    for (int r = 1; r < place_.size; ++r) {
      const Guest& guest = *guests_[static_cast<std::size_t>(r)];
      table.members.push_back({guest.host, guest.join.port, guest.join.machine});
    }
    for (const Member& m : table.members) met_.machine.push_back(m.machine);
    const std::string body = encode(table);
    for (int r = 1; r < place_.size; ++r) {
      try {
        reception_.welcome(*guests_[static_cast<std::size_t>(r)], body, wait_);
      } catch (const SocketError& error) {
        end(r, fmt::format("ended while the ranks met ({})", error.what()));
      }
    }
  }

  void await_data() {
    for (int open = 1; open < place_.size;) {
      for (Guest& guest : look()) {
        const Join& j = guest.join;
        if (j.purpose != Purpose::data || j.session != session_) continue;
        if (j.rank < 1 || j.rank >= place_.size) continue;
        Socket& data = met_.data[static_cast<std::size_t>(j.rank)];
        if (data.open()) continue;
        reception_.welcome(guest, "", wait_);
        data = std::move(guest.socket);
        ++open;
      }
      if (Clock::now() > wait_.until + 10s)
        end(0, "the ranks did not connect to each other in time; let the network pass the ports "
               "that ranks listen at");
    }
  }

  void await_ready() {
    std::vector<pollfd> watched;
    for (int r = 1; r < place_.size; ++r)
      watched.push_back({guests_[static_cast<std::size_t>(r)]->socket.get(), POLLIN, 0});
    for (std::size_t ready = 0; ready < watched.size();) {
      check_signal(wait_);
      ::poll(watched.data(), watched.size(), 100);
      for (std::size_t i = 0; i < watched.size(); ++i) {
        if (watched[i].revents == 0) continue;
        char said = 0;
        if (::recv(watched[i].fd, &said, 1, MSG_DONTWAIT) != 1 || said != kReady)
          end(static_cast<int>(i) + 1, "ended while the ranks met");
        watched[i].fd = -1;  // not looked at any more
        ++ready;
      }
      if (Clock::now() > wait_.until + 10s) end(0, "the ranks did not reach each other in time");
    }
    for (int r = 1; r < place_.size; ++r)
      send_all(guests_[static_cast<std::size_t>(r)]->socket,
               std::as_bytes(std::span(&kBegin, 1)), wait_);
  }

  const Place& place_;
  const Common& common_;
  const std::string machine_, session_;
  const Wait wait_;
  std::vector<std::optional<Guest>> guests_;  // by rank: registered
  Met met_;
  Reception reception_;
};

}  // namespace

std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return (id.empty() ? "unknown" : id) + ' ' + network.string();
}

std::string_view memory_of(std::string_view machine) {
  return machine.substr(0, machine.find(' '));
}

std::string ranks_text(const std::vector<int>& ranks, int size) {
  if (ranks.size() == 1) return fmt::format("rank {} of {}", ranks.front(), size);
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return fmt::format("ranks {} and {} of {}", fmt::join(first, ", "), ranks.back(), size);
}

Met meet_as_host(const Place& place, const Common& common,
                 const std::atomic<int>* signal) {
  return Host(place, common, signal).meet();
}

Met meet(const Place& place, const Common& common, const std::atomic<int>* signal) {
  if (place.size == 1) return {{}, std::vector<Socket>(1), {this_machine()}, {}};
  return place.rank == 0 ? meet_as_host(place, common, signal)
                         : meet_as_guest(place, common, signal);
}

}  // namespace exec::tcp
