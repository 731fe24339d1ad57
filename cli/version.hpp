#pragma once
// What `planner --version` says. Immutable.

#include <string_view>

namespace cli {

// "0.1.0 (c02b829a41f3)": the project's version and the commit that the build was configured at,
// which depends on nothing but the checkout; without a repository, the version alone.
std::string_view version_text();

}  // namespace cli
