#pragma once
// Ranks and links that are slow at random, as options state them: "random=1%,slowdown=1.2,steps=50"
// of `planner simulate`, "stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95" of a plan. Thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "planner/search/robust.hpp"

namespace cli {

// Whether the text of --straggler or --link-down is about ranks drawn at random.
inline bool is_random(std::string_view text) { return text.starts_with("random="); }

// "random=SHARE,slowdown=X[,steps=N]". Problems name the option --straggler.
std::optional<planner::RandomSlow> read_random_straggler(const std::string& text,
                                                         core::Problems& problems);
// "random=SHARE,share=X[,steps=N]", of --link-down.
std::optional<planner::RandomSlow> read_random_link(const std::string& text,
                                                    core::Problems& problems);

// The value of --robust.
std::optional<planner::RobustOptions> read_robust(const std::optional<std::string>& text,
                                                  core::Problems& problems);

}  // namespace cli
