#pragma once
// The job that a command line asks for: batch, precision, optimizer, adapters.

#include "cli/plan_options.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"

namespace cli {

// What contradicts itself or the model is a problem that names the option. model: empty where it
// could not be read.
planner::Job read_job(const PlanOptions& options, const models::ModelSpec& model,
                      core::Problems& problems);

}  // namespace cli
