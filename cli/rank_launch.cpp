#include "cli/rank_launch.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "cli/process.hpp"

namespace cli {
namespace {

constexpr std::size_t kKeptLines = 200;
constexpr std::string_view kOwn = "planner: ";

// "rank 3: ..."
bool is_reason(std::string_view line) {
  constexpr std::string_view kRank = "rank ";
  if (!line.starts_with(kRank)) return false;
  const std::size_t end = line.find_first_not_of("0123456789", kRank.size());
  return end != std::string_view::npos && end > kRank.size() && line[end] == ':';
}

}  // namespace

std::vector<std::string> rank_words(std::string_view binary, const RunRequest& request) {
  std::vector<std::string> words{sibling(binary), "exec", request.plan_file};
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  add("--communicator", request.communicator);
  if (request.communicator == "mpi" || request.communicator == "nccl")
    add("--collectives", request.collectives);
  add("--backend", request.backend);
  if (request.communicator == "nccl") {
    add("--deadline", std::to_string(std::llround(request.deadline.value())));
    if (!request.nccl.empty()) add("--nccl", request.nccl);
    if (request.nccl_windows) words.push_back("--nccl-windows");
    add("--graphs", request.graphs);
    add("--attention-kernel", request.attention);
    add("--gelu", request.gelu);
    add("--deterministic", request.deterministic);
    if (request.tuned_products) add("--tuned-products", *request.tuned_products);
    add("--device-times", request.device_times);
  }
  add("--data", request.data);
  add("--steps", std::to_string(request.steps));
  add("--seed", std::to_string(request.seed));
  if (request.candidate) add("--candidate", std::to_string(*request.candidate));
  if (request.checkpoint_dir) {
    add("--checkpoint-dir", *request.checkpoint_dir);
    add("--checkpoint-every", std::to_string(request.checkpoint_every));
    if (request.skip_damaged) words.push_back("--skip-damaged");
  }
  words.insert(words.end(), request.training_words.begin(), request.training_words.end());
  if (request.scale_down) words.push_back("--scale-down");
  words.insert(words.end(), request.trace_words.begin(), request.trace_words.end());
  words.push_back(request.progress ? "--progress" : "--quiet");
  words.push_back("--json");
  return words;
}

std::string how_to_go_on(const RunRequest& request) {
  return request.checkpoint_dir ? "the same command goes on from the last complete step" : "";
}

core::Problem run_failed(std::string where, std::string expected, std::string found,
                         std::string fix) {
  return {std::move(where), std::move(expected), std::move(found), std::move(fix),
          core::ProblemKind::failed_running};
}

void RankLines::add(std::string_view line) {
  if (!line.starts_with(kOwn)) {
    others_.emplace_back(line);
    if (others_.size() > kKeptLines) others_.pop_front();
    return;
  }
  line.remove_prefix(kOwn.size());
  const bool progress = line.starts_with(kProgressStart);
  explained_ = explained_ || !progress;
  if (!holds_reasons_ || !is_reason(line)) return write_reason(line);
  const bool known = std::ranges::find(held_, line) != held_.end();
  if (!known && held_.size() < kKeptLines) held_.emplace_back(line);
}

}  // namespace cli
