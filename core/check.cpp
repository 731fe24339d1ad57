#include "core/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace core {

void check_failed(const char* file, int line, const char* expression, std::string_view message) {
  std::fprintf(stderr, "planner: internal error, please report it: %s:%d: %s%s%.*s\n", file, line,
               expression, message.empty() ? "" : ": ", static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace core
