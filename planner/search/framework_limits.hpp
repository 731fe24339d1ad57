#pragma once
// Internal to the search: what a framework can run of strategies, of this model and for this job.
// Pure; thread-safe.

#include "core/result.hpp"
#include "planner/search/search.hpp"

namespace planner {

// The request with these limits of its constraints. hw_profiles/README.md says how a framework's
// file states them. Errors: a limit that cannot be read.
core::Result<Request> within_framework(Request request);

}  // namespace planner
