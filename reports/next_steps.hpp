#pragma once
// The block "Next" that ends a page: the commands that a reader would type now. Pure; thread-safe.

#include <string>
#include <vector>

#include "core/code.hpp"
#include "reports/text.hpp"

namespace reports {

struct NextStep {
  core::Code command;   // as a shell reads it; options alone go on the last one
  std::string does;     // "draws it"
};

// A heading, and each command with what it does beside it, or below it where a line is too short.
// A command too long for a line goes on after a backslash, so that it can still be copied. Nothing
// where there are no steps.
std::string next_steps_text(const std::vector<NextStep>& steps, TextStyle style);

}  // namespace reports
