#include "core/thread.hpp"

#include <fmt/format.h>

namespace core {

ThreadRefused::ThreadRefused(std::string_view what, std::string_view reason)
    : std::runtime_error(fmt::format("no thread for {}: {}", what, reason)) {}

Problem thread_problem(const ThreadRefused& refused, std::string expected) {
  return {"threads", std::move(expected), refused.what(),
          "raise the limits of this user's processes (ulimit -u) and of memory (ulimit -v), or "
          "plan fewer --gpus",
          ProblemKind::failed_running};
}

}  // namespace core
