#pragma once
// What the parts of the checker share: the walk over a class's calls, and the list of problems.
// Internal to sim/program. Not thread-safe.

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/result.hpp"
#include "sim/program/program.hpp"

namespace program::checker {

enum class Rule : std::uint8_t {
  wait, lifetime, order, matching, passes, accumulation, progress, launches, versions
};

// One run of a routine.
struct Run {
  const char* routine;
  const Routine* calls;
  std::int64_t micro_batch;
};

// The runs of a class whose schedule is cut to `micro_batches`.
std::vector<Run> runs_of(const RankClass& rank_class, std::int64_t micro_batches);

// Micro-batches that have to be walked (checker.hpp: bounded).
std::int64_t micro_batches_to_walk(const Program& program);

// A place in a Program.
struct Place {
  const char* routine = "";
  Call call;
  std::uint32_t action = 0;
};

class Problems {
 public:
  // `who`: "stage 0" or "rank 3 (stage 0)".
  void add(Rule rule, const std::string& who, const RankClass& k, const Place& at,
           std::string expected, std::string found, std::string fix);
  core::Problems take() { return std::move(problems_); }
  bool empty() const { return problems_.empty(); }

 private:
  std::set<std::tuple<Rule, std::string, std::uint32_t>> seen_;
  core::Problems problems_;
};

// "stage 0, forward, layer.forward, layer 3, micro-batch 1, action 12 (send)"
std::string describe(const std::string& who, const RankClass& k, const Place& at);
std::string text(const RankClass& k, const View& view, const Call& call);  // "h.qkv[3]"

// visit(const Place&, const Action&) for each issued action of the class.
template <class Visit>
void for_each_action(const RankClass& k, std::int64_t micro_batches, Visit&& visit) {
  for (const Run& run : runs_of(k, micro_batches)) {
    for (Call call : *run.calls) {
      call.micro_batch = static_cast<std::uint32_t>(run.micro_batch);
      for (std::uint32_t i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i) {
        const Action& a = k.actions[i];
        if (run.micro_batch == 0 && (a.flags & kSkipFirstMicroBatch) != 0) continue;
        visit(Place{run.routine, call, i}, a);
      }
    }
  }
}

// waits, lifetimes, order, accumulation: one class by itself. `part`: of its first rank.
void check_class(const RankClass& k, int part, std::int64_t micro_batches, Problems& problems);
// passes
void check_passes(const RankClass& k, Problems& problems);
// versions
void check_versions(const RankClass& k, Problems& problems);
// matching and progress, and launches where these hold
void check_ranks(const Program& program, std::int64_t micro_batches, bool launches,
                 Problems& problems);

}  // namespace program::checker
