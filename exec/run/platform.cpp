#include "exec/run/platform.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "exec/host/work.hpp"
#include "sim/program/replay.hpp"

namespace exec {
namespace {

core::Problems memory_problems(const program::Program& p, std::span<const int> here) {
  core::Bytes need{0};
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    const std::vector<int> ranks = p.ranks_of(static_cast<int>(c));
    need += program::replay(p.classes[c]).reserved * std::ranges::count_if(here, [&](int rank) {
              return std::ranges::binary_search(ranks, rank);
            });
  }
  const core::Bytes have = available_memory();
  if (need <= have) return {};
  core::Problem problem;
  problem.statement = fmt::format(
      "The plan needs {} for all ranks; this machine has {} free. Add --scale-down to run a small "
      "job of the same strategy here, or plan for this machine: planner calibrate --backend host "
      "--out me.json, then --gpu me.json.",
      core::to_text(need), core::to_text(have));
  return {problem};
}

class HostPlatform final : public Platform {
 public:
  std::string_view name() const override { return "host"; }
  core::Problems problems(const program::Program& program, const planner::Job&,
                          std::span<const int> here) override {
    core::Problems found = kernel_problems(program, name(), host::computes,
                                           "give windows of maxima a kernel of at most 16");
    return found.empty() ? memory_problems(program, here) : found;
  }
  std::unique_ptr<Backend> backend(const program::Program& program,
                                   const program::RankClass& rank_class, int) override {
    return host_backend(rank_class, program.samples);
  }
  void describe(RunRecord& record, RanksAre ranks) override {
    record.device = device_text(static_cast<int>(record.ranks), ranks);
    record.environment = environment();
  }
};

}  // namespace

Platform& host_platform() {
  static HostPlatform platform;
  return platform;
}

core::Problems kernel_problems(const program::Program& p, std::string_view backend,
                               bool (*computes)(const models::Operator&), std::string_view fix) {
  core::Problems problems;
  const std::string named = std::string(backend);
  for (const program::RankClass& k : p.classes)
    for (const models::Operator& op : k.operators) {
      const bool known = std::ranges::any_of(
          problems, [&](const core::Problem& other) { return other.found == op.name; });
      if (known || computes(op)) continue;
      problems.push_back({"--backend " + named,
                          "operators that the " + named + " backend computes", op.name,
                          std::string(fix)});
    }
  return problems;
}

}  // namespace exec
