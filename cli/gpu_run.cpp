#include "cli/gpu_run.hpp"

#include <fmt/format.h>

#include "cli/process.hpp"
#include "cli/requirements.hpp"
#include "core/file.hpp"
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

}  // namespace

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

TunedProducts::TunedProducts(const RunRequest& request, std::optional<int> rank) {
  if (!request.tuned_products) return;
  path_ = *request.tuned_products;
  if (rank.value_or(0) > 0) *path_ += fmt::format(".rank-{:04}", *rank);
}

core::Problems TunedProducts::read() {
  if (!path_) return {};
  if (const core::Status writable = core::check_writable(*path_); !writable.ok())
    return writable.problems();
  auto choices = exec::cuda::read_product_choices(*path_);
  if (!choices.ok()) return choices.problems();
  choices_ = *std::move(choices);
  return {};
}

void TunedProducts::write(exec::RunRecord& record) const {
  if (!path_ || choices_.added == 0) return;
  const core::Status written = exec::cuda::write_product_choices(*path_, choices_);
  if (written.ok()) return;
  record.environment["tuned_products"] += "; not written";
  write_reason("the times of matrix products are not kept: " + core::to_text(written.problems()));
}

exec::cuda::GpuChoices choices_of_gpu(const planner::Plan& plan, const RunRequest& request,
                                      TunedProducts& products) {
  // A candidate that the plan does not have is refused where it is run.
  const planner::Candidate* const candidate = candidate_of(plan, request.candidate.value_or(0));
  return {.attention = kernel_of(request.attention),
          .gelu_by_products = request.gelu == "product",
          .deterministic = request.deterministic == "on",
          .records = request.device_times == "cupti",
          .products = products.choices(),
          .workspace = candidate != nullptr ? candidate->memory.worst.workspace
                                            : planner::workspace_bytes(plan.profile)};
}

}  // namespace cli
