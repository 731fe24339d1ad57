#include "cli/nccl_run.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "cli/gpu_run.hpp"
#include "cli/process.hpp"
#include "cli/rank_threads.hpp"
#include "cli/run_options.hpp"
#include "cli/tcp_launch.hpp"
#include "exec/communicator/tcp/place.hpp"
#include "exec/cuda/affinity.hpp"
#include "exec/cuda/nccl/plugin/use.hpp"
#include "exec/cuda/nccl/world.hpp"
#include "exec/run/team.hpp"

namespace cli {
namespace {

std::string plugin_path() { return sibling("libplanner-nccl.so"); }

// As launchers say it, else by the ranks that are on this machine.
int local_rank_of(const exec::Processes& control) {
  const auto place = exec::place_from(exec::environment_variables());
  if (place.ok() && *place && (*place)->local_rank >= 0) return (*place)->local_rank;
  const std::vector<int>& here = control.neighbours();
  return static_cast<int>(std::ranges::find(here, control.rank()) - here.begin());
}

// Of the smallest and of the largest call: sizes between them are nearer to these than to others'.
// Channels are the most that NCCL takes: fewer carry a small call (src/enqueue.cc,
// scheduleCollTasksToPlan).
void add_choices(int function, int ranks, const program::LibraryCalls& calls,
                 std::vector<exec::cuda::nccl::Choice>& choices) {
  const auto algorithm = exec::cuda::nccl::algorithm_from_name(calls.algorithm);
  const auto protocol = exec::cuda::nccl::protocol_from_name(calls.protocol);
  if (!algorithm || !protocol) return;
  for (const core::Bytes bytes : {calls.smallest, calls.largest})
    choices.push_back({function, ranks, std::max<std::int64_t>(bytes.value(), 1), *algorithm,
                       *protocol,
                       calls.channels > 0 ? std::optional(calls.channels) : std::nullopt});
}

// Some versions take a tuner's number of channels also where a communicator has fewer: it is made
// with enough of them.
std::map<int, int> channels_of(const std::vector<exec::cuda::nccl::Choice>& choices) {
  std::map<int, int> most;
  for (const exec::cuda::nccl::Choice& c : choices)
    if (c.channels) most[c.ranks] = std::max(most[c.ranks], *c.channels);
  return most;
}

// What the library is to run where it is to follow the plan; empty: what it likes.
std::vector<exec::cuda::nccl::Choice> choices_of(const planner::Plan& plan,
                                                 const RunRequest& request) {
  std::vector<exec::cuda::nccl::Choice> choices;
  if (request.collectives != "plan") return choices;
  const planner::Candidate* const candidate =
      planner::candidate_of(plan, request.candidate.value_or(0));
  if (candidate == nullptr) return choices;  // refused where it is run
  for (const planner::CommunicationEntry& e : candidate->communication) {
    const auto function = exec::cuda::nccl::function_from_name(e.collective);
    const auto algorithm = exec::cuda::nccl::algorithm_from_name(e.algorithm);
    if (!function || !algorithm || e.count == 0) continue;
    for (const program::LibraryCalls& c : e.library)
      add_choices(*function, e.group_size, c, choices);
    if (e.library.empty())             // the plan assumes nothing more of it
      choices.push_back(
          {*function, e.group_size, e.payload.value() / e.count, *algorithm, {}, {}});
  }
  return choices;
}

// shared: the plugin of a process that has several ranks; it cannot say whose calls NCCL ran.
core::Result<exec::RunRecord> run_rank(exec::Processes& control, int local_rank,
                                       const planner::Plan& plan, const RunRequest& request,
                                       const OpenDevice& open,
                                       const exec::cuda::PluginUse* shared) {
  const exec::cuda::OpenedCollectives opened = exec::cuda::open_collectives(request.nccl);
  core::Problems problems;
  if (!opened.library)
    problems.push_back({request.nccl.empty() ? "--communicator nccl" : "--nccl", opened.expected,
                        opened.found, opened.fix, core::ProblemKind::failed_running});
  const auto api = open_device(open, {std::nullopt, local_rank});
  if (!api.ok()) problems = api.problems();
  TunedProducts products(request, control.rank());
  if (problems.empty()) problems = products.read();
  problems = exec::agreed(&control, problems);
  if (!problems.empty()) return problems;
  const std::string affinity =
      exec::cuda::stay_near(exec::cuda::cpus_near((*api)->device().pci));
  auto topology = note_topology(**api, plan, control.rank() == 0);
  const auto choices = choices_of(plan, request);
  std::optional<exec::cuda::PluginUse> own;
  if (shared == nullptr) own.emplace(plugin_path(), choices);
  exec::cuda::NcclOptions options;
  options.channels = channels_of(choices);
  if (own) options.ran = [&own] { return own->take(); };
  options.windows = request.nccl_windows;
  options.own_collectives = request.collectives == "own";
  options.deadline = request.deadline;
  if (control.rank() == 0) options.tell = [](const std::string& text) { write_reason(text); };
  exec::cuda::NcclWorld world(control, **api, *opened.library, options);
  exec::cuda::CudaPlatform platform(**api, choices_of_gpu(plan, request, products),
                                    exec::cuda::OwnRank{control.rank(), &world, &world});
  exec::RunOptions run = run_options(request);
  run.processes = &world;
  run.platform = &platform;
  auto record = exec::run(plan, run);
  if (record.ok()) {
    products.write(*record);
    record->environment["cpu_affinity"] = affinity;
    record->environment["nccl_calls"] =
        own ? own->told()
            : "unknown: ranks are threads of one process, which NCCL's profiler takes for one";
    record->environment["ranks"] = own ? "processes" : "threads of one process";
    record->environment.merge(topology);
  }
  return record;
}

}  // namespace

core::Result<exec::RunRecord> run_over_nccl(exec::Processes& control, const planner::Plan& plan,
                                            const RunRequest& request, const OpenDevice& open) {
  return run_rank(control, local_rank_of(control), plan, request, open, nullptr);
}

core::Result<exec::RunRecord> run_nccl_threads(const planner::Plan& plan, const RunRequest& request,
                                               const OpenDevice& open) {
  if (request.device_times == "cupti")
    return core::Problem{"--device-times cupti", "ranks that are processes", "--rank-threads",
                         "leave it out: CUPTI records for one GPU of a process"};
  load_kernels_first();
  const exec::cuda::PluginUse plugin(plugin_path(), choices_of(plan, request));
  return run_rank_threads(static_cast<int>(plan.gpus), [&](exec::Processes& control) {
    return run_rank(control, control.rank(), plan, request, open, &plugin);
  });
}

}  // namespace cli
