#pragma once
// Child processes, followed until they end: what each writes on standard output is kept, what it
// writes on standard error is handed over line by line. A signal to this process asks them to end,
// and ends those that do not; they end with this process whatever happens to that. One thread.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace cli {

struct ChildStart {
  std::vector<std::string> words;                  // the program's path and its arguments
  std::map<std::string, std::string> environment;  // set in addition to this process's
  int keeps = -1;                                  // a descriptor that stays open in it
};

struct ChildEnding {
  int code = 0;         // 128 + signal when a signal ended it
  int signal = 0;       // that ended it
  std::string output;   // all of its standard output
  int order = 0;        // among the children: 0 ended first
  bool ended_here = false;  // did not end in time, and was killed by this process
};

// The children read nothing. Where several are followed and one fails, the others have 3.5 s to end
// by themselves. Problems (failed_running): a program that cannot be started, more output than
// most_output. An interrupt of this process is answered when all are gone: the process then ends as
// interrupted.
core::Result<std::vector<ChildEnding>> follow_children(
    const std::vector<ChildStart>& starts, std::size_t most_output,
    const std::function<void(std::string_view line)>& error_line);
core::Result<ChildEnding> follow_child(const std::vector<std::string>& words,
                                       std::size_t most_output,
                                       const std::function<void(std::string_view)>& error_line);

// The program's path where PATH has it; empty: nowhere.
std::string find_program(std::string_view name);

}  // namespace cli
