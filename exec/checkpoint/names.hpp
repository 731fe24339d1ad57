#pragma once
// Names in a folder of checkpoints (README). Internal to checkpoint/.

#include <cstdint>
#include <string>
#include <vector>

namespace exec {

// What to do about a step that is damaged.
inline constexpr const char* kGoBack = "--skip-damaged goes on from the last step that is whole";

std::string lock_path(const std::string& folder);
std::string step_path(const std::string& folder, std::int64_t steps);
std::string partial_path(const std::string& folder, std::int64_t steps);
// "damaged-step-00000012", or with ".2" and so on behind it: no file is called so.
std::string unused_damaged_path(const std::string& folder, std::int64_t steps);
std::string manifest_path(const std::string& step_folder);
std::string rank_path(const std::string& step_folder, int rank);

// Of the steps that are complete by their names, ascending.
std::vector<std::int64_t> complete_steps(const std::string& folder);
// Removes what was never committed.
void remove_partials(const std::string& folder);

}  // namespace exec
