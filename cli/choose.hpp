#pragma once
// Options whose value must be one of some names. Absent ones leave what is there.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/result.hpp"

namespace cli {

using Names = std::vector<std::string_view>;

inline core::Problem not_one_of(const std::string& text, std::string_view option,
                                const Names& names) {
  const std::string_view near = core::nearest(text, names);
  return {std::string(option), fmt::format("one of {}", fmt::join(names, ", ")),
          fmt::format("\"{}\"", text),
          near.empty() ? std::string() : fmt::format("did you mean {}?", near)};
}

inline void choose(const std::optional<std::string>& text, std::string_view option,
                   const Names& names, std::string& out, core::Problems& problems) {
  if (!text) return;
  if (std::ranges::find(names, *text) == names.end())
    problems.push_back(not_one_of(*text, option, names));
  else
    out = *text;
}

template <class T>
void choose(const std::optional<std::string>& text, std::string_view option,
            std::optional<T> (*from_name)(std::string_view), const Names& names, T& out,
            core::Problems& problems) {
  if (!text) return;
  if (const std::optional<T> value = from_name(*text))
    out = *value;
  else problems.push_back(not_one_of(*text, option, names));
}

}  // namespace cli
