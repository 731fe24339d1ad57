#pragma once
// Options of `planner exec` that say how the optimizer is fed: the learning rate and its schedule,
// and the optimizer's own numbers.

#include <optional>
#include <string>
#include <vector>

#include "cli/option_set.hpp"
#include "core/result.hpp"
#include "exec/training/schedule.hpp"

namespace cli {

struct TrainingWords {
  std::optional<std::string> lr, warmup, decay, lr_end, decay_steps, weight_decay, betas, eps;
  // Those given as a command line has them: "--lr", "6e-4", ...
  std::vector<std::string> words() const;
};

void add_training_options(OptionSet& set, TrainingWords& words);

// Problems: words that are no numbers. Whether the numbers fit the plan's optimizer and the run is
// exec::training_problems()'.
exec::TrainingWishes read_training(const TrainingWords& words, core::Problems& problems);

}  // namespace cli
