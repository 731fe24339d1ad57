#pragma once
// PLANNER_CHECK: what must hold if the program is right. On in every build; a failure is a bug of
// ours, never of the input, and ends the process with the expression, the place and the message.
// Thread-safe. Bad input is core/result.hpp's business; a device failure throws exec's error once.

#include <string_view>

namespace core {

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message);

}  // namespace core

#define PLANNER_CHECK_2(condition, message)                               \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::core::check_failed(__FILE__, __LINE__, #condition, message);      \
  } while (false)
#define PLANNER_CHECK_1(condition) PLANNER_CHECK_2(condition, "")
#define PLANNER_CHECK_SELECT(a, b, name, ...) name
// PLANNER_CHECK(condition) or PLANNER_CHECK(condition, message); the message is evaluated on
// failure alone. (Not named CHECK: Catch2 owns that word in tests.)
#define PLANNER_CHECK(...) \
  PLANNER_CHECK_SELECT(__VA_ARGS__, PLANNER_CHECK_2, PLANNER_CHECK_1, )(__VA_ARGS__)
