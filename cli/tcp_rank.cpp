#include "cli/tcp_rank.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/rank_process.hpp"
#include "cli/tcp_launch.hpp"
#include "cli/version.hpp"
#include "core/file.hpp"
#include "core/sha256.hpp"
#include "exec/communicator/tcp/tcp_world.hpp"

namespace cli {
namespace {

constexpr std::size_t kMostPlan = std::size_t{256} << 20;  // bytes

std::vector<std::string> words_of(int count, char** arguments) {
  return {arguments + std::min(count, 1), arguments + count};
}

// Empty where this machine does not have it: rank 0 tells what to run.
std::string plan_digest(const std::vector<std::string>& words) {
  const std::string path = plan_file_of(words);
  const auto text = path.empty() ? core::Result<std::string>(std::string())
                                 : core::read_file(path, kMostPlan);
  return text.ok() && !text->empty() ? core::sha256_base64(*text) : "";
}

}  // namespace

exec::TcpOptions tcp_options(exec::Place place, std::string plan_digest) {
  exec::TcpOptions options;
  options.place = std::move(place);
  options.common = {std::string(version_text()), std::move(plan_digest)};
  options.stop_signal = &pending_signal();
  options.last_words = [](const std::string& text) {
    if (!text.empty()) write_reason(text);
  };
  return options;
}

bool is_tcp_rank(std::string_view communicator, int count, char** arguments) {
  return asks_for_communicator(words_of(count, arguments), communicator) && joins_tcp_job();
}

void be_tcp_rank(int count, char** arguments, RankOptions rank_options) {
  prepare_process();
  const WriteInProgress held;  // a signal ends the world, which ends the process
  const std::vector<std::string> words = words_of(count, arguments);
  auto place = exec::place_from(exec::environment_variables());
  if (!place.ok()) {
    // One of all ranks says what holds for each.
    const char* const local = std::getenv("LOCAL_RANK");
    const bool first = local == nullptr || std::string_view(local) == "0";
    if (first) refuse(place.problems());
    ::_exit(kBadInput);
  }
  try {
    rank_options.followed = (*place)->followed;
    exec::TcpWorld world(tcp_options(std::move(**place), plan_digest(words)));
    be_rank(world, rank_options, count, arguments);
  } catch (const exec::tcp::Interrupted& interrupted) {
    if (interrupted.signal() == SIGINT) write_reason("interrupted");
    ::_exit(128 + interrupted.signal());
  } catch (const exec::tcp::NotMet& not_met) {
    if (not_met.speaks()) write_reason(not_met.what());
  } catch (const std::exception& error) {
    write_reason(error.what());
  }
  ::_exit(kFailed);
}

}  // namespace cli
