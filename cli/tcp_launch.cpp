#include "cli/tcp_launch.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/process.hpp"
#include "cli/rank_launch.hpp"
#include "cli/requirements.hpp"
#include "exec/communicator/tcp/place.hpp"
#include "exec/communicator/tcp/socket.hpp"

namespace cli {
namespace {

constexpr int kMostProcesses = 1024;  // processes of one machine

// As torchrun says it to its own. Rank 0 is handed a socket that listens: no port is free for long.
std::map<std::string, std::string> variables(int rank, int ranks, int port, int listener,
                                             const std::string& secret) {
  const std::string own = std::to_string(rank), all = std::to_string(ranks);
  return {{"RANK", own},
          {"LOCAL_RANK", own},
          {"WORLD_SIZE", all},
          {"LOCAL_WORLD_SIZE", all},
          {"MASTER_ADDR", exec::kLoopback},
          {exec::kPortVariable, std::to_string(port)},
          {exec::kSecretVariable, secret},
          {exec::kFollowedVariable, "1"},
          {exec::kListenerVariable, rank == 0 ? std::to_string(listener) : ""}};
}

// How a rank ended that no rank can tell of. The first that a signal ended is the cause; what this
// process killed had not ended by itself.
std::optional<core::Problem> killed(const std::vector<ChildEnding>& endings,
                                    const RunRequest& request) {
  const ChildEnding* first = nullptr;
  for (const ChildEnding& e : endings)
    if (e.signal != 0 && !e.ended_here && (first == nullptr || e.order < first->order)) first = &e;
  if (first == nullptr) return std::nullopt;
  return run_failed(fmt::format("rank {}", first - endings.data()), "to run to its end",
                    fmt::format("ended by signal {} ({}); all others were ended too",
                                first->signal, ::strsignal(first->signal)),
                    how_to_go_on(request));
}

// Of the ranks that failed by themselves the first; rank 0's where it did.
int failed_code(const std::vector<ChildEnding>& endings) {
  if (endings.front().code != 0 && !endings.front().ended_here) return endings.front().code;
  const auto first = std::ranges::min_element(endings, {}, [](const ChildEnding& e) {
    return e.code != 0 && !e.ended_here ? e.order : 1 << 30;
  });
  return first->code != 0 ? first->code : kFailed;
}

core::Result<exec::RunRecord> outcome(const std::vector<ChildEnding>& endings,
                                      const RankLines& lines, const RunRequest& request) {
  const bool well =
      std::ranges::all_of(endings, [](const ChildEnding& e) { return e.code == 0; });
  if (well) return exec::parse_run(endings.front().output, "the record of rank 0");
  if (auto problem = killed(endings, request)) return core::Problems{*problem};
  for (const std::string& line : lines.held()) write_reason(line);
  const int code = std::min(failed_code(endings), kFailed);
  if (lines.explained()) throw Ended{code};
  return run_failed("a rank", "to run to its end",
                    fmt::format("ended with code {} and no reason; all others were ended too",
                                code),
                    how_to_go_on(request));
}

}  // namespace

std::string new_secret() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw exec::tcp::SocketError("random bytes", errno);
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

void load_kernels_first() { ::setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

bool joins_tcp_job() { return exec::has_place(exec::environment_variables()); }

core::Result<exec::RunRecord> launch_tcp(const planner::Plan& plan, const RunRequest& request) {
  const bool nccl = request.communicator == "nccl";
  // Whether a GPU is there is for the ranks to find: a driver may answer without its traces.
  if (nccl && !starts(kCudaBinary)) return missing_for(Needs::cuda);
  if (!nccl)
    if (core::Problems problems = missing_for(Needs::host); !problems.empty()) return problems;
  if (plan.gpus > kMostProcesses)
    return core::Problem{"plan gpus",
                         fmt::format("at most {} ranks on one machine", kMostProcesses),
                         std::to_string(plan.gpus),
                         "start them on several machines: torchrun, srun or Kubernetes"};
  const int ranks = static_cast<int>(plan.gpus);
  exec::tcp::Socket listener = exec::tcp::listen_at(exec::kLoopback, 0);
  const int port = exec::tcp::own_address(listener).port;
  const std::string secret = new_secret();
  if (nccl) load_kernels_first();
  std::vector<ChildStart> children;
  for (int rank = 0; rank < ranks; ++rank)
    children.push_back({rank_words(nccl ? kCudaBinary : kHostBinary, request),
                      variables(rank, ranks, port, listener.get(), secret),
                      rank == 0 ? listener.get() : -1});
  RankLines lines(true);
  const auto endings = follow_children(children, kMostRecord,
                                       [&](std::string_view text) { lines.add(text); });
  if (!endings.ok()) return endings.problems();
  return outcome(*endings, lines, request);
}

}  // namespace cli
