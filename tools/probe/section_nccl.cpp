// Section nccl: starts the rank processes, waits for them under a time limit and gathers what they
// found. Several ranks share one GPU by each claiming to be a host of its own (NCCL_HOSTID): every
// edge is then a socket over the loopback device. The processes take turns on the GPU, so the times
// say nothing about bandwidth; results, bytes and memory do count.

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "tools/probe/child.hpp"
#include "tools/probe/cuda.hpp"
#include "tools/probe/files.hpp"
#include "tools/probe/nccl_rank.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "tools/probe/worker.hpp"

namespace probe {

using exec::cuda::Nvml;

namespace {

const volatile std::sig_atomic_t kNever = 0;  // the conductor kills this process when it must stop

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment rank_environment(const RankOptions& options) {
  Environment environment{{"NCCL_DEBUG", "INFO"},
                          {"NCCL_DEBUG_SUBSYS", "INIT,NET,GRAPH"},
                          {"NCCL_DEBUG_FILE", rank_file(options, ".log")}};
  if (options.ranks == 1) return environment;
  const Environment shared{{"NCCL_HOSTID", "node" + std::to_string(options.rank)},
                           {"NCCL_SOCKET_IFNAME", "lo"},
                           {"NCCL_NET", "Socket"},
                           {"NCCL_IB_DISABLE", "1"},
                           {"NCCL_MNNVL_ENABLE", "0"},
                           {"NCCL_NVLS_ENABLE", "0"},
                           {"NCCL_ALGO", "Ring"},
                           {"NCCL_PROTO", "Simple"},
                           {"NCCL_MAX_CTAS", "2"}};
  environment.insert(environment.end(), shared.begin(), shared.end());
  return environment;
}

// Lines of the log that tell which transport was taken or what went wrong, at most `most`. NCCL
// begins each with "host:pid:tid [device] NCCL"; only what follows is kept.
Json telling_lines(const RankOptions& options, std::size_t most) {
  std::istringstream log(read_or_empty(rank_file(options, ".log")));
  Json lines = Json::array();
  for (std::string line; std::getline(log, line) && lines.size() < most;) {
    const bool telling = line.find(" via ") != std::string::npos ||
                         line.find("WARN") != std::string::npos ||
                         line.find("Connected all") != std::string::npos ||
                         line.find("coll channels") != std::string::npos;
    const std::size_t at = line.find(" NCCL ");
    if (telling && at != std::string::npos) lines.push(line.substr(at + 6));
  }
  return lines;
}

Json gathered(const RankOptions& options, const Ending& ending) {
  const std::string data = read_or_empty(rank_file(options, ".json"));
  std::string error = read_or_empty(rank_file(options, ".error"));
  if (!ending.good() && error.empty()) error = "the rank's process " + to_text(ending);
  Json json = Json::object();
  json["error"] = error.empty() ? Json() : Json(error);
  json["data"] = data.empty() ? Json::object() : Json::raw(data.substr(0, data.size() - 1));
  json["log"] = telling_lines(options, 12);
  return json;
}

// Starts `ranks` processes and returns what each found; "error" is set when one did not end well.
Json run_ranks(const Worker& worker, int ranks, double seconds) {
  const std::string folder = worker.options().folder + "/nccl" + std::to_string(ranks);
  std::filesystem::create_directories(folder);
  std::vector<RankOptions> all;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankOptions& options = all.emplace_back(
        RankOptions{folder, rank, ranks, worker.options().device, worker.options().quick});
    children.push_back(spawn_self({to_arguments(options), rank_environment(options), "NCCL_"}));
  }
  const std::vector<Ending> endings = wait_all(children, seconds, kNever);
  Json json = Json::object();
  for (std::size_t i = 0; i < endings.size(); ++i) {
    json["ranks"].push(gathered(all[i], endings[i]));
    if (!endings[i].good() && !json.has("error")) {
      json["error"] = "rank " + std::to_string(i) + " " + to_text(endings[i]);
    }
  }
  return json;
}

}  // namespace

void run_nccl(Worker& worker) {
#ifndef PROBE_WITH_NCCL
  throw std::runtime_error("this binary was built without NCCL; install it and configure again");
#endif
  const Nvml nvml(pci_bus_id(worker.options().device));
  // Ends before this worker's own soft budget, so that what was found is gathered and saved.
  worker.part("one_rank", [&] { return run_ranks(worker, 1, 0.35 * worker.left()); });
  worker.part("ranks_on_one_gpu", [&] {
    const auto before = nvml.memory();
    Json json = run_ranks(worker, worker.options().nccl_ranks, std::max(2.0, worker.left() - 1.0));
    json["nvml_used_bytes_before"] = before ? Json(before->used) : Json();
    json["note"] = "processes take turns on one GPU: seconds are no bandwidth claim";
    return json;
  });
}

}  // namespace probe
