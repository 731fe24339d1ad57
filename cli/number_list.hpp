#pragma once
// Lists in options, and lists of whole numbers as a sweep takes them: "8,16,32", "2k,4k" (k is
// 1024, as sequences and GPUs are counted), "8..64" (doubling: 8, 16, 32, 64), "8..64+8" (in steps
// of 8). Thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace cli {

inline constexpr std::size_t kMostNumbers = 1024;

// The parts of a list, as they are.
std::vector<std::string> split_list(std::string_view text, char separator = ',');

// "1.2", "5e-3": the whole text is one number. Empty: it is not.
std::optional<double> parse_decimal(std::string_view text);

// A share: "1%" or 0.01. Empty: none, or not from 0 to 1.
std::optional<double> parse_share(std::string_view text);

// One such number: "16", "2k", "1m". Empty: none, or below 1.
std::optional<std::int64_t> parse_number(std::string_view text);
// The number that an option has; 0 without it, or with a problem.
std::int64_t counted_number(const std::optional<std::string>& text, std::string_view option,
                            core::Problems& problems);

// Ascending as written, each once. Problems name the option, with what was expected.
core::Result<std::vector<std::int64_t>> parse_number_list(std::string_view text,
                                                          std::string_view option);

}  // namespace cli
