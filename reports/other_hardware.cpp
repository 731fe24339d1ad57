#include "reports/other_hardware.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "hw_profiles/mixed.hpp"

namespace reports {
namespace {

// The word of a product's name that tells it from its family: the first with a digit.
std::string model_of(const std::string& name) {
  std::istringstream words(name);
  for (std::string word; words >> word;)
    if (std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; })) return word;
  return name;
}

std::string value_of(const exec::RunRecord& run, const char* key) {
  const auto it = run.environment.find(key);
  return it == run.environment.end() ? "" : it->second;
}

bool on_planned_gpu(const exec::RunRecord& run) {
  const hw_profiles::Gpu& gpu = run.profile.gpu;
  if (!gpu.compute_capability || !value_of(run, "ranks_per_gpu").empty()) return false;
  const std::string capability = value_of(run, "compute_capability");
  const std::string planned =
      fmt::format("{}.{}", *gpu.compute_capability / 10, *gpu.compute_capability % 10);
  if (!capability.empty() && capability != planned) return false;
  return run.device.find(model_of(gpu.name)) != std::string::npos;
}

}  // namespace

std::optional<OtherHardware> other_hardware(const exec::RunRecord& run) {
  const bool host = run.backend == "host";
  if (host ? !run.profile.gpu.compute_capability.has_value() : on_planned_gpu(run)) return {};
  const std::string sharing = value_of(run, "ranks_per_gpu");
  return OtherHardware{sharing.empty() ? run.device
                                       : fmt::format("{} ranks that share one {}", sharing,
                                                     run.device),
                       hw_profiles::gpus_text(run.profile, run.gpus, &hw_profiles::Gpu::name)};
}

std::string to_text(const OtherHardware& other) {
  return fmt::format("the run used {}, and the plan is for {}", other.run_on, other.planned_for);
}

}  // namespace reports
