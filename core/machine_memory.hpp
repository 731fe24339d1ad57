#pragma once
// The memory that this process may have: the machine's, or less where a control group (a container,
// a job of Slurm or Kubernetes) bounds it. Reads /proc and /sys; thread-safe.

#include <optional>
#include <string>

#include "core/units.hpp"

namespace core {

struct MachineMemory {
  Bytes total;
  // Free, or taken by files that can be read again; empty: not known.
  std::optional<Bytes> available;
  std::string bound;                   // the file of the control group; empty: none bounds it
};

// MemTotal and MemAvailable of /proc/meminfo, or where that is not there the kernel's own word; and
// the least limit of this process's control groups and those above them, of version 1 or 2. Empty
// where nothing says. root: another folder than "/" to find these files in, for tests.
std::optional<MachineMemory> machine_memory(const std::string& root = "");

}  // namespace core
