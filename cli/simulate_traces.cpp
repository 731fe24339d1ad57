#include "cli/simulate_traces.hpp"

#include <charconv>

#include <fmt/format.h>

#include "planner/plan/simulate_traces.hpp"
#include "reports/trace_simulation_text.hpp"
#include "sim/chakra/schema.hpp"

namespace cli {
namespace {

void append(core::Problems& all, const core::Problems& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// "0,8,16"; empty: malformed.
std::vector<int> rank_list(std::string_view text) {
  std::vector<int> ranks;
  while (true) {
    const std::string_view item = text.substr(0, text.find(','));
    int rank = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), rank);
    if (error != std::errc{} || end != item.data() + item.size() || rank < 0) return {};
    ranks.push_back(rank);
    if (item.size() == text.size()) return ranks;
    text.remove_prefix(item.size() + 1);
  }
}

}  // namespace

void add_chakra_options(OptionSet& set, ChakraWords& words) {
  set.group("Execution traces written");
  set.text("--chakra", words.folder, "FOLDER",
           "write a Chakra execution trace of each rank there, for other simulators");
  set.text("--chakra-ranks", words.ranks, "N,N,...", "of these ranks alone");
}

void add_trace_options(OptionSet& set, TraceWords& words) {
  set.group("Execution traces played (PLAN is their folder; without --gpu as recorded)");
  add_machine_options(set, words.machine);
  set.text("--groups", words.groups, "FILE", "ranks of process groups (comm_groups.json there)");
}

void refuse_beside_plan(const TraceWords& words, core::Problems& problems) {
  const PlanOptions& m = words.machine;
  const std::pair<const char*, const std::optional<std::string>*> given[] = {
      {"--gpu", &m.gpu},   {"--node", &m.node},
      {"--site", &m.site}, {"--gpus-per-node", &m.gpus_per_node},
      {"--internode-gbps", &m.internode_gbps}, {"--groups", &words.groups}};
  for (const auto& [name, text] : given)
    if (*text)
      problems.push_back({name, "execution traces: a plan brings its machine", "a plan",
                          "plan for that machine: planner --gpu ..."});
}

int simulate_traces(const std::string& path, const TraceWords& words, const OutputOptions& output,
                    core::Problems problems) {
  const auto machine = machine_of(words.machine);
  if (!machine.ok()) append(problems, machine.problems());
  ProgressLine progress(output.quiet);
  const core::Result<TraceFiles> files = read_trace_files(
      path, words.groups, [&](std::string_view file) { progress.show(file); });
  progress.clear();
  if (!files.ok()) append(problems, files.problems());
  if (!problems.empty()) return refuse(problems);
  auto simulation = planner::simulate_traces(files->traces, files->groups, *machine);
  if (!simulation.ok()) return refuse(simulation.problems());
  simulation->from = path;
  const core::Status delivered = deliver(output, planner::to_json_text(*simulation), [&] {
    std::vector<reports::NextStep> next;
    if (!words.machine.gpu) next.push_back({"--gpu a100-sxm-80g", "the same step on its links"});
    return reports::trace_simulation_text(*simulation, page_style()) + next_text(next);
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

void ChakraFolder::open(planner::SimulateOptions& options, core::Problems& problems) {
  if (!words_.folder) {
    if (words_.ranks)
      problems.push_back({"--chakra-ranks", "--chakra FOLDER beside it", "none", ""});
    return;
  }
  options.chakra.emplace();
  if (words_.ranks) {
    options.chakra->ranks = rank_list(*words_.ranks);
    if (options.chakra->ranks.empty())
      problems.push_back({"--chakra-ranks", "ranks, as 0,8,16", '"' + *words_.ranks + '"', ""});
  }
  if (options.flows)
    problems.push_back({"--chakra", "--collectives timed", "flows",
                        "leave --collectives and links out: traces have durations of their own"});
  // Made and gone: whether it can be.
  if (auto probe = new_trace_folder(*words_.folder); !probe.ok())
    append(problems, probe.problems());
  options.chakra_sink = [this](int rank, const std::string& bytes) -> core::Status {
    if (!folder_) {
      whole_.emplace();
      core::Result<core::NewFolder> made = new_trace_folder(*words_.folder);
      if (!made.ok()) return made.problems();
      folder_.emplace(std::move(made).value());
    }
    if (pending_signal() != 0)
      return core::Problem{*words_.folder, "to be written whole", "a signal", "",
                           core::ProblemKind::failed_running};
    progress_.show(fmt::format("execution trace of rank {}", rank));
    return folder_->write(trace_file_name(rank), bytes);
  };
}

core::Status ChakraFolder::commit(const engine::ChakraGroups& groups) {
  if (!folder_) return core::Done{};
  progress_.clear();
  const core::Status written = folder_->write(std::string(engine::chakra::kGroupsFile),
                                              engine::chakra_groups_json(groups));
  if (!written.ok()) return written;
  core::Status done = folder_->commit();
  folder_.reset();
  whole_.reset();
  return done;
}

}  // namespace cli
