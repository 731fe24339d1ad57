#include "reports/imports/structured.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/untrusted.hpp"

namespace reports::imports {
namespace {

constexpr int kDeepest = 16;

void add_value(const core::Json& value, const std::string& key, const std::string& file, int depth,
               Settings& settings, core::Problems& problems) {
  const std::string where = fmt::format("{}:{}", file, value.line());
  if (value.is_null()) return;
  if (depth > kDeepest) {
    problems.push_back({where, fmt::format("at most {} keys within each other", kDeepest),
                        key, ""});
    return;
  }
  if (value.is_object()) {
    for (const core::Json::Member& member : value.members()) {
      if (const auto hidden = core::hidden_in(member.key)) {
        problems.push_back({where, "keys without control characters", *hidden, ""});
        return;
      }
      add_value(member.value, key + (depth > 0 ? "." : "") + member.key, file, depth + 1, settings,
                problems);
    }
    return;
  }
  Setting setting{key, {}, true, true, where};
  if (value.is_array())
    for (const core::Json& item : value.items()) setting.words.push_back(setting_word(item));
  else
    setting.words.push_back(setting_word(value));
  settings.add(std::move(setting));
}

}  // namespace

std::string setting_word(const core::Json& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value.is_double() && std::abs(value.as_double()) < kExact &&
      value.as_double() == std::trunc(value.as_double()))
    return fmt::format("{:.0f}", value.as_double());
  return value.is_string() ? value.as_string() : core::dump(value, 0);
}

void add_settings(const core::Json& root, std::string_view prefix, const std::string& file,
                  Settings& settings, core::Problems& problems) {
  add_value(root, std::string(prefix), file, 0, settings, problems);
}

}  // namespace reports::imports
