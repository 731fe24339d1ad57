#pragma once
// What this machine needs to run plans in one way or another, and what of it is missing: the one
// home of these sentences, for `exec`, which refuses, and `doctor`, which lists. Looks and starts
// nothing but a binary's --version; no driver is initialised.

#include <string_view>

#include "core/result.hpp"

namespace cli {

inline constexpr std::string_view kHostBinary = "planner-exec", kMpiBinary = "planner-exec-mpi",
                                  kCudaBinary = "planner-exec-cuda";

enum class Needs { host, mpi, cuda, nccl };  // host: ranks over TCP too

// Whether the binary beside this one is there and its libraries are.
bool starts(std::string_view binary);

// None: it can run. Of kind failed_running.
core::Problems missing_for(Needs needs);

}  // namespace cli
