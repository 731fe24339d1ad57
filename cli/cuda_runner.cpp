#include "cli/cuda_runner.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/requirements.hpp"
#include "cli/run_options.hpp"
#include "cli/runner.hpp"
#include "cli/tcp_rank.hpp"
#include "core/file.hpp"
#include "exec/communicator/tcp/place.hpp"
#include "exec/cuda/affinity.hpp"
#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/calibrate/calibrate.hpp"
#include "exec/cuda/nccl/plugin/use.hpp"
#include "exec/cuda/nccl/world.hpp"
#include "exec/run/team.hpp"
#include "planner/evaluate/communicators.hpp"

namespace cli {
namespace {

using exec::cuda::Api;
using exec::cuda::AttentionKernel;
using exec::cuda::FailureKind;

AttentionKernel kernel_of(const std::string& whose) {
  if (whose == "own") return AttentionKernel::own;
  return whose == "auto" ? AttentionKernel::automatic : AttentionKernel::library;
}

// Where no driver or no GPU answers, what `planner doctor` finds missing says it better, if it
// finds anything. It is no condition: a driver may answer where its traces in /proc are hidden.
core::Result<std::unique_ptr<Api>> open_device(const OpenDevice& open,
                                               const DeviceChoice& choice) {
  try {
    return open(choice);
  } catch (const exec::cuda::DeviceFailure& failure) {
    const FailureKind kind = failure.kind();
    core::Problems problems;
    if (kind == FailureKind::no_driver || kind == FailureKind::no_device)
      problems = missing_for(Needs::cuda);
    if (problems.empty()) throw;
    return problems;
  }
}

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

// How the GPUs of this machine are joined, for the record. What is not as the plan's profile says
// is told when the run begins: times that were predicted for other links will not come true.
std::map<std::string, std::string> note_topology(Api& api, const planner::Plan& plan, bool tells) {
  const exec::cuda::Topology topology = api.topology();
  const std::vector<std::string> found = exec::cuda::differences(topology, plan.profile);
  constexpr std::size_t kTold = 3;
  if (tells && !found.empty())
    write_reason("this machine is not as the plan's profile says: " +
                 exec::cuda::to_text(found, kTold));
  const std::string all = exec::cuda::to_text(found, found.size());
  return {{"topology", to_text(topology)},
          {"topology_differences", !topology.problem.empty() ? "unknown"
                                   : all.empty()             ? "none"
                                                             : all}};
}

// The file of --tuned-products: one of each rank where ranks are processes, which time at once and
// for themselves.
class TunedProducts {
 public:
  explicit TunedProducts(const RunRequest& request, std::optional<int> rank = std::nullopt) {
    if (!request.tuned_products) return;
    path_ = *request.tuned_products;
    if (rank.value_or(0) > 0) *path_ += fmt::format(".rank-{:04}", *rank);
  }
  core::Problems read() {
    if (!path_) return {};
    if (const core::Status writable = core::check_writable(*path_); !writable.ok())
      return writable.problems();
    auto choices = exec::cuda::read_product_choices(*path_);
    if (!choices.ok()) return choices.problems();
    choices_ = *std::move(choices);
    return {};
  }
  // After the run, whose record says what came of it: times that cannot be written are no reason to
  // lose a run.
  void write(exec::RunRecord& record) const {
    if (!path_ || choices_.added == 0) return;
    const core::Status written = exec::cuda::write_product_choices(*path_, choices_);
    if (written.ok()) return;
    record.environment["tuned_products"] += "; not written";
    write_reason("the times of matrix products are not kept: " + core::to_text(written.problems()));
  }
  exec::cuda::ProductChoices* choices() { return path_ ? &choices_ : nullptr; }

 private:
  std::optional<std::string> path_;
  exec::cuda::ProductChoices choices_;
};

exec::cuda::GpuChoices choices_of_gpu(const planner::Plan& plan, const RunRequest& request,
                                      TunedProducts& products) {
  return {.attention = kernel_of(request.attention),
          .gelu_by_products = request.gelu == "product",
          .deterministic = request.deterministic == "on",
          .records = request.device_times == "cupti",
          .products = products.choices(),
          .workspace = planner::workspace_bytes(plan.profile)};
}

// One rank of several, with a GPU of its own. What one of them lacks all of them say.
core::Result<exec::RunRecord> run_over_nccl(exec::Processes& control, const planner::Plan& plan,
                                            const RunRequest& request, const OpenDevice& open) {
  const exec::cuda::OpenedCollectives opened = exec::cuda::open_collectives(request.nccl);
  core::Problems problems;
  if (!opened.library)
    problems.push_back({request.nccl.empty() ? "--communicator nccl" : "--nccl", opened.expected,
                        opened.found, opened.fix, core::ProblemKind::failed_running});
  const auto api = open_device(open, {std::nullopt, local_rank_of(control)});
  if (!api.ok()) problems = api.problems();
  TunedProducts products(request, control.rank());
  if (problems.empty()) problems = products.read();
  problems = exec::agreed(&control, problems);
  if (!problems.empty()) return problems;
  const std::string affinity =
      exec::cuda::stay_near(exec::cuda::cpus_near((*api)->device().pci));
  auto topology = note_topology(**api, plan, control.rank() == 0);
  const auto choices = choices_of(plan, request);
  const exec::cuda::PluginUse plugin(sibling("libplanner-nccl.so"), choices);
  exec::cuda::NcclOptions options;
  options.channels = channels_of(choices);
  options.ran = [&plugin] { return plugin.take(); };
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
    record->environment["nccl_calls"] = plugin.told();
    record->environment.merge(topology);
  }
  return record;
}

}  // namespace

int run_planner_on_gpu(int count, char** arguments, const OpenDevice& open, bool small) {
  if (is_tcp_rank("nccl", count, arguments)) {
    RankOptions options;
    options.run = [&](exec::Processes& control, const planner::Plan& plan,
                      const RunRequest& request) {
      return run_over_nccl(control, plan, request, open);
    };
    be_tcp_rank(count, arguments, std::move(options));
  }
  const auto run = [&](const planner::Plan& plan,
                       const RunRequest& request) -> core::Result<exec::RunRecord> {
    const auto api = open_device(open, {request.device, 0});
    if (!api.ok()) return api.problems();
    TunedProducts products(request);
    if (core::Problems problems = products.read(); !problems.empty()) return problems;
    exec::cuda::CudaPlatform platform(**api, choices_of_gpu(plan, request, products));
    auto topology = note_topology(**api, plan, false);  // ranks share the card
    auto record = run_on(&platform, plan, request);
    if (!record.ok()) return record;
    products.write(*record);
    record->environment.merge(topology);
    return record;
  };
  const auto calibrate = [&](const CalibrateRequest& request) -> core::Result<HostCalibration> {
    const auto api = open_device(open, {});
    if (!api.ok()) return api.problems();
    return delivered(exec::cuda::calibrate_gpu(**api, book_options(request), small));
  };
  return run_planner(count, arguments, run, calibrate);
}

}  // namespace cli
