#pragma once
// Starting the ranks of a plan as processes: what the ways of doing so (mpirun, TCP) share. The
// front door starts them, follows them, and delivers the record that rank 0 hands over.

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/child.hpp"
#include "cli/verbs.hpp"
#include "core/result.hpp"

namespace cli {

inline constexpr std::size_t kMostRecord = std::size_t{1} << 30;  // bytes

// The reason has been given; this exit code is left to return.
struct Ended { int code; };

// The command line of one rank: the same run, quietly, its record as JSON.
std::vector<std::string> rank_words(std::string_view binary, const RunRequest& request);

// What to do after a run that failed: where states are kept, the same command goes on.
std::string how_to_go_on(const RunRequest& request);

// A problem of kind failed_running.
core::Problem run_failed(std::string where, std::string expected, std::string found,
                         std::string fix);

// Lines that ranks and what starts them write on standard error. Those of ranks, "planner: ...",
// are passed on at once, but for reasons to end, "rank 3: ...", which may be held back until it is
// known how each process ended.
class RankLines {
 public:
  explicit RankLines(bool holds_reasons) : holds_reasons_(holds_reasons) {}
  void add(std::string_view line);

  bool explained() const { return explained_; }  // a reason was passed on, or is held
  const std::vector<std::string>& held() const { return held_; }
  const std::deque<std::string>& others() const { return others_; }  // the last ones

 private:
  bool holds_reasons_, explained_ = false;
  std::vector<std::string> held_;
  std::deque<std::string> others_;
};

}  // namespace cli
