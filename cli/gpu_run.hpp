#pragma once
// What every run on a GPU needs, whether its ranks share the card or have one each: from the
// command line's request to the device, the platform's choices, and what the record says of the
// machine.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/cuda_runner.hpp"
#include "cli/verbs.hpp"
#include "exec/cuda/backend/platform.hpp"

namespace cli {

// Where no driver or no GPU answers, what `planner doctor` finds missing says it better, if it
// finds anything: problems. Else DeviceFailure. It is no condition: a driver may answer where its
// traces in /proc are hidden.
core::Result<std::unique_ptr<exec::cuda::Api>> open_device(const OpenDevice& open,
                                                           const DeviceChoice& choice);

// How the GPUs of this machine are joined, for the record. What is not as the plan's profile says
// is told when the run begins, if `tells`: times that were predicted for other links will not come
// true.
std::map<std::string, std::string> note_topology(exec::cuda::Api& api, const planner::Plan& plan,
                                                 bool tells);

// The file of --tuned-products: one of each rank where ranks are processes, which time at once and
// for themselves.
class TunedProducts {
 public:
  explicit TunedProducts(const RunRequest& request, std::optional<int> rank = std::nullopt);
  core::Problems read();
  // After the run, whose record says what came of it: times that cannot be written are no reason to
  // lose a run.
  void write(exec::RunRecord& record) const;
  exec::cuda::ProductChoices* choices() { return path_ ? &choices_ : nullptr; }

 private:
  std::optional<std::string> path_;
  exec::cuda::ProductChoices choices_;
};

exec::cuda::GpuChoices choices_of_gpu(const planner::Plan& plan, const RunRequest& request,
                                      TunedProducts& products);

}  // namespace cli
