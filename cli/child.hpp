#pragma once
// A child process, followed until it ends: what it writes on standard output is kept, what it
// writes on standard error is handed over line by line. A signal to this process asks the child to
// end, and ends it if it does not; it ends with this process whatever happens to that. One thread.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace cli {

struct ChildEnding {
  int code = 0;        // 128 + signal when a signal ended it
  std::string output;  // all of its standard output
};

// words: the program's path and its arguments. The child reads nothing. Problems (failed_running):
// a program that cannot be started, more output than most_output. An interrupt of this process is
// answered when the child is gone: the process then ends as interrupted.
core::Result<ChildEnding> follow_child(const std::vector<std::string>& words,
                                       std::size_t most_output,
                                       const std::function<void(std::string_view)>& error_line);

// The program's path where PATH has it; empty: nowhere.
std::string find_program(std::string_view name);

}  // namespace cli
