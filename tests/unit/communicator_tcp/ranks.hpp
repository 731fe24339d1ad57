#pragma once
// Ranks joined by TCP, each a thread of this process with a world of its own.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/thread.hpp"
#include "exec/communicator/tcp/socket.hpp"
#include "exec/communicator/tcp/tcp_world.hpp"

namespace tcp_ranks {

// How one rank ended.
struct Ending {
  std::string why;      // empty: well
  bool speaks = false;  // it is the one to say so
};

inline exec::TcpOptions options_of(int rank, int size, int port) {
  exec::TcpOptions o;
  o.place.rank = rank;
  o.place.size = size;
  o.place.address = "127.0.0.1";
  o.place.port = port;
  o.place.secret = "a secret";
  o.common = {"1.0", "plan"};
  o.ends_process = false;
  return o;
}

inline Ending end_of(const exec::TcpOptions& options,
                     const std::function<void(exec::TcpWorld&)>& body) {
  try {
    exec::TcpWorld world(options);
    try {
      body(world);
      return {};
    } catch (const std::exception& e) {
      const std::string why = world.fail(e.what());
      return {why, world.speaks()};
    }
  } catch (const exec::tcp::NotMet& not_met) {
    return {not_met.what(), not_met.speaks()};
  }
}

using Adjust = std::function<void(exec::TcpOptions&)>;

// Every rank runs body in its world; those that adjust() gives another rank or address do so too.
// Rank 0 listens already, as under a launcher of this project.
inline std::vector<Ending> run(int size, const std::function<void(exec::TcpWorld&)>& body,
                               const Adjust& adjust = {}) {
  exec::tcp::Socket listener = exec::tcp::listen_at("127.0.0.1", 0);
  const int port = exec::tcp::own_address(listener).port;
  std::vector<exec::TcpOptions> options;
  for (int rank = 0; rank < size; ++rank) {
    options.push_back(options_of(rank, size, port));
    if (rank == 0) options.back().place.listener = listener.release();
    if (adjust) adjust(options.back());
  }
  std::vector<Ending> endings(options.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < options.size(); ++i)
    threads.push_back(core::start_thread(
        "a rank", [&, i] { endings[i] = end_of(options[i], body); }));
  for (std::thread& t : threads) t.join();
  return endings;
}

}  // namespace tcp_ranks
