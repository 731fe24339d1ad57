#pragma once
// A sandbox for verbs that read files of strangers and run no other program: from then on the
// process can read files and write beneath the folders of its answers, and that is all. It can
// start no program, open no socket, and touch no other process. So a fault in a reader, if there is
// one, reaches nothing else.
//
// By Landlock (Linux 5.13; landlock(7)) and a seccomp filter (seccomp(2)), which hold for all
// threads that start later and cannot be taken back. A verb that runs inside another program
// (kept_output.hpp) is not confined: that would confine its caller.

#include <optional>
#include <string>
#include <vector>

#include "cli/option_set.hpp"
#include "core/result.hpp"

namespace cli {

// --sandbox on|off. Absent: on where the kernel has it.
void add_sandbox_option(OptionSet& set, std::optional<std::string>& word);

// written: files of the answer, as given; their folders stay writable. Call before anything of a
// stranger is read and before threads start. Problems: another word, or asked for where the kernel
// has not both.
core::Status enter_sandbox(const std::optional<std::string>& word,
                           const std::vector<std::optional<std::string>>& written);

// What the kernel has: "Landlock 7 and seccomp"; empty: not both.
std::string sandbox_of_kernel();

}  // namespace cli
