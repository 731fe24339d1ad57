#include "exec/run/platform.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/machine_memory.hpp"
#include "core/parse_units.hpp"
#include "exec/host/work.hpp"
#include "sim/program/replay.hpp"

namespace exec {
namespace {

// The matrix library maps a buffer of this size for each thread that multiplies at once, and tries
// for ever where it may not (OpenBLAS, driver/others/memory.c, BUFFER_SIZE of x86-64, and pages).
constexpr core::Bytes kProductBuffer = core::mib(130);
// Stacks of a rank's threads, 8 MiB each, and what its samples and messages take.
constexpr core::Bytes kBesideBuffers = core::mib(128);

// Under a limit of addresses (ulimit -v): whether the process may still map that much.
bool may_map(core::Bytes bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  const auto size = static_cast<std::size_t>(bytes.value());
  void* const range = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return false;
  ::munmap(range, size);
  return true;
}

core::Problems memory_problems(const program::Program& p, std::span<const int> here) {
  core::Bytes need{0};
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    const std::vector<int> ranks = p.ranks_of(static_cast<int>(c));
    need += program::replay(p.classes[c]).reserved * std::ranges::count_if(here, [&](int rank) {
              return std::ranges::binary_search(ranks, rank);
            });
  }
  const std::optional<core::MachineMemory> memory = core::machine_memory();
  core::Problem problem;
  const auto threads = static_cast<std::int64_t>(here.size());
  const core::Bytes addresses = need + (kProductBuffer + kBesideBuffers) * threads;
  if (!may_map(addresses)) {
    problem.statement = fmt::format(
        "The plan's ranks need {} of address space, {} of it for matrix products and threads. This "
        "process may not have so much more: raise its limit (ulimit -v), or run fewer ranks.",
        core::to_text(addresses), core::to_text(addresses - need));
    return {problem};
  }
  if (!memory || !memory->available || need <= *memory->available) return {};
  std::string bound;
  if (!memory->bound.empty()) bound = fmt::format(" (its memory is bounded by {})", memory->bound);
  problem.statement = fmt::format(
      "The plan needs {} for all ranks; this machine has {} free{}. Add --scale-down to run a "
      "small job of the same strategy here, or plan for this machine: planner calibrate --backend "
      "host --out me.json, then --gpu me.json.",
      core::to_text(need), core::to_text(*memory->available), bound);
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
