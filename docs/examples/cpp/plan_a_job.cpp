// Plans a job and prints the choice. usage: plan_a_job [MODEL [GPUS [GPU]]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/result.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"

namespace {

// Bad input is a list of problems: what was expected, what was found, how to mend it.
[[noreturn]] void refuse(const core::Problems& problems) {
  std::fputs(core::to_text(problems).c_str(), stderr);
  std::exit(core::exit_code(problems));
}

template <class T>
T value_or_refuse(core::Result<T> result) {
  if (!result.ok()) refuse(result.problems());
  return std::move(result).value();
}

void pin(planner::Request& request, const char* text) {
  const core::Status taken = request.constraints.pin(text);
  if (!taken.ok()) refuse(taken.problems());
}

void print_choice(const planner::Plan& plan) {
  if (!plan.chosen) {
    std::printf("nothing fits; the nearest miss: %s\n",
                plan.rejected.empty() ? "none" : plan.rejected.front().fix.c_str());
    std::exit(1);
  }
  const planner::Candidate& chosen = *plan.chosen;
  std::printf("%s\n", planner::to_text(chosen.strategy).c_str());
  std::printf("  step    %.3f s\n", chosen.time.step.value());
  std::printf("  memory  %.2f of %.2f GiB per GPU\n",
              static_cast<double>(chosen.memory.worst.device.value()) / (1 << 30),
              static_cast<double>(chosen.memory.usable.value()) / (1 << 30));
  for (const planner::CommunicationEntry& sent : chosen.communication)
    std::printf("  sends   %s by %s, %lld bytes per rank\n", sent.what.c_str(),
                sent.collective.c_str(), static_cast<long long>(sent.wire_per_rank.value()));
}

}  // namespace

int main(int count, char** words) {
  planner::Request request;
  // A name of the zoo, or the path of a config.json or of a model file.
  request.model = value_or_refuse(models::find_model(count > 1 ? words[1] : "gpt2-1.5b"));
  request.gpus = count > 2 ? std::atoll(words[2]) : 8;
  request.profile = value_or_refuse(hw_profiles::find_profile(count > 3 ? words[3] : "rtx3090"));
  request.job.recipe = "mixed";        // fields that stay empty or 0 get the model's defaults
  pin(request, "pipeline=1");          // as --pin does; Constraints::forbid is its counterpart
  print_choice(value_or_refuse(planner::make_plan(request)));
}
