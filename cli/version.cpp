#include "cli/version.hpp"

namespace cli {

std::string_view version_text() { return PLANNER_VERSION; }

}  // namespace cli
