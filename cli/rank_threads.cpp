#include "cli/rank_threads.hpp"

#include <unistd.h>

#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/process.hpp"
#include "cli/tcp_launch.hpp"
#include "cli/tcp_rank.hpp"
#include "core/thread.hpp"
#include "exec/communicator/tcp/place.hpp"
#include "exec/communicator/tcp/socket.hpp"
#include "exec/communicator/tcp/tcp_world.hpp"
#include "exec/run/run.hpp"

namespace cli {
namespace {

struct Ending {
  std::optional<core::Result<exec::RunRecord>> result;
  std::string why;                     // empty: well, or a signal
};

Ending run_one(const exec::TcpOptions& options, const RankThread& body) {
  Ending ending;
  try {
    exec::TcpWorld world(options);
    try {
      ending.result.emplace(body(world));
      world.finish();
      return ending;
    } catch (const exec::RunFailure& failure) {
      ending.why = failure.what();
    } catch (const std::exception& error) {
      ending.why = world.fail(error.what());
    }
    if (!world.left())
      for (;;) ::pause();  // the progress thread is ending this process
    if (world.signal() != 0) ending.why.clear();
  } catch (const exec::tcp::Interrupted&) {
  } catch (const std::exception& error) {  // they did not meet
    ending.why = error.what();
  }
  return ending;
}

}  // namespace

core::Result<exec::RunRecord> run_rank_threads(int ranks, const RankThread& body) {
  std::optional<WriteInProgress> held(std::in_place);  // a signal ends the worlds first
  exec::tcp::Socket listener = exec::tcp::listen_at(exec::kLoopback, 0);
  const int port = exec::tcp::own_address(listener).port;
  const std::string secret = new_secret();
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  std::latch all_started(1);           // else a rank would wait for one whose thread is refused
  bool go = false;
  const auto join = [&](bool goes) {
    go = goes;
    all_started.count_down();
    for (std::thread& t : threads) t.join();
  };
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      exec::Place place;
      place.rank = place.local_rank = rank;
      place.size = place.local_size = ranks;
      place.address = exec::kLoopback;
      place.port = port;
      place.secret = secret;
      if (rank == 0) place.listener = listener.release();
      const auto at = static_cast<std::size_t>(rank);
      threads.push_back(core::start_thread("a rank", [&, at, place = std::move(place)]() mutable {
        all_started.wait();
        if (!go) return;
        endings[at] = run_one(tcp_options(std::move(place), ""), body);
      }));
    }
  } catch (...) {
    join(false);
    throw;
  }
  join(true);
  for (const Ending& e : endings)
    if (!e.why.empty()) throw exec::RunFailure(e.why);
  held.reset();                        // a signal that came ends the process here
  if (!endings.front().result) throw exec::RunFailure("rank 0 ended without saying why");
  return *std::move(endings.front().result);
}

}  // namespace cli
