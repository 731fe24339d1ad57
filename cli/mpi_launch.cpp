#include "cli/mpi_launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "cli/process.hpp"
#include "cli/rank_launch.hpp"
#include "cli/requirements.hpp"
#include "exec/record/run_record.hpp"

namespace cli {
namespace {

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::vector<std::string> launcher_words(const std::string& mpirun, const planner::Plan& plan,
                                        const RunRequest& request) {
  // Bound to one core each, ranks of several one-slot hosts on one machine would share the first.
  std::vector<std::string> words{mpirun, "-n", std::to_string(plan.gpus), "--bind-to", "none"};
  if (request.hostfile)
    words.insert(words.end(), {"--hostfile", *request.hostfile});
  else
    words.push_back("--oversubscribe");
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  const std::vector<std::string> rank = rank_words(kMpiBinary, request);
  words.insert(words.end(), rank.begin(), rank.end());
  return words;
}

// OpenMPI asks hwloc what this machine has, and hwloc's GL component looks for ten X displays at
// "localhost": half a second or more for each where that name does not resolve. What the user set
// stays.
void skip_displays() { ::setenv("HWLOC_COMPONENTS", "-gl", 0); }

// The number behind `mark`, in the first line that has it.
std::optional<long> number_after(const std::deque<std::string>& lines, std::string_view mark) {
  for (const std::string& line : lines)
    if (const std::size_t at = line.find(mark); at != std::string::npos)
      return std::strtol(line.c_str() + at + mark.size(), nullptr, 10);
  return std::nullopt;
}

bool any_says(const std::deque<std::string>& lines, std::string_view part) {
  return std::ranges::any_of(lines, [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  });
}

// What the launcher's own words come to, when no rank was left to give a reason.
core::Problem reason(const std::deque<std::string>& said, int code, const planner::Plan& plan,
                     const RunRequest& request) {
  const auto failed = run_failed;
  const std::string go_on = how_to_go_on(request);
  const auto rank = number_after(said, "process rank ");
  if (const auto signal = number_after(said, "exited on signal "); rank && signal)
    return failed(fmt::format("rank {}", *rank), "to run to its end",
                  fmt::format("ended by signal {} ({}); all others were ended too", *signal,
                              ::strsignal(static_cast<int>(*signal))),
                  go_on);
  if (any_says(said, "not enough slots"))
    return failed("--hostfile " + request.hostfile.value_or(""),
                  fmt::format("slots for {} processes", plan.gpus), "fewer",
                  "write more hosts, or slots=N behind a host");
  if (const auto ended = number_after(said, "Exit code:"))
    return failed("a rank", "to run to its end",
                  fmt::format("ended with code {} and no reason; all others were ended too",
                              *ended), go_on);
  if (code > 128)
    return failed("mpirun", "to run to its end",
                  fmt::format("ended by signal {} ({}); its ranks were ended too", code - 128,
                              ::strsignal(code - 128)),
                  go_on);
  const auto word = std::ranges::find_if(said, [](const std::string& line) {
    return !line.empty() && !line.starts_with("---") && !line.starts_with("Primary job");
  });
  return failed("mpirun", "to end with code 0", fmt::format("code {}", code),
                word == said.end() ? "" : "it said: " + *word);
}

}  // namespace

bool joins_mpi_job() {
  return is_set("OMPI_COMM_WORLD_RANK") || is_set("PMIX_RANK") || is_set("PMI_RANK");
}

core::Result<exec::RunRecord> launch_mpi(const planner::Plan& plan, const RunRequest& request) {
  if (core::Problems problems = missing_for(Needs::mpi); !problems.empty()) return problems;
  if (::geteuid() == 0 && !request.quiet)
    write_reason("running as root: mpirun is told to allow it (--allow-run-as-root)");
  skip_displays();
  RankLines lines(false);
  const core::Result<ChildEnding> ending =
      follow_child(launcher_words(find_program("mpirun"), plan, request), kMostRecord,
                   [&](std::string_view text) { lines.add(text); });
  if (!ending.ok()) return ending.problems();
  if (ending->code == 0) return exec::parse_run(ending->output, "the record of rank 0");
  if (lines.explained()) throw Ended{ending->code < kFailed ? ending->code : kFailed};
  return reason(lines.others(), ending->code, plan, request);
}

}  // namespace cli
