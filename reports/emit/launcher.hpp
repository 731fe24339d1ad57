#pragma once
// Internal to emit/: what launchers share. A launcher starts a framework's training command on
// every node of a plan: a script for torchrun or Slurm, a manifest for Kubernetes, a task for
// SkyPilot. What only the user knows is an option, or a placeholder that a note names.

#include <optional>
#include <string>
#include <string_view>

#include "reports/emit/parts.hpp"

namespace reports::emit {

// What a launcher is given.
struct Start {
  const Question& q;
  const Written& written;
  const Place& place;
  const std::vector<planner::CommunicationEntry>& communication;

  std::int64_t nodes() const { return q.plan.nodes; }
  std::int64_t gpus_per_node() const { return q.plan.gpus / q.plan.nodes; }
};

// What the user has to put in place of.
inline constexpr std::string_view kImage = "REPLACE_WITH_IMAGE";
inline constexpr std::string_view kWorkdir = "REPLACE_WITH_WORKDIR";
inline constexpr std::string_view kScript = "REPLACE_WITH_TRAIN_SCRIPT";
inline constexpr std::string_view kAccelerator = "REPLACE_WITH_ACCELERATOR";

inline constexpr int kPort = 29500;    // torchrun's own default

// How a process learns its place among all: by torchrun, one process of it on each node, with these
// options; or from variables that are there already, one process for each GPU.
struct Joining {
  bool torchrun = true;
  core::Code options;
  bool in_workdir = false;             // goes to the folder of Place first
};

// A script of bash for one node (or one process): what the plan counts on in the environment, the
// framework's file, its command. `$@` are further options. Ends with a newline.
core::Code node_script(const Start& start, const Joining& joining);

// "# ..." lines: what is launched, and what the plan counts on that nothing has to set.
core::Code head_comment(const Start& start);

// A launcher's file with its notes. REQUIRES: launcher is one of launchers().
Launch launched(const Start& start, std::string_view launcher);

core::Code torchrun_script(const Start& start);
core::Code slurm_script(const Start& start);
core::Code jobset(const Start& start);
core::Code pytorch_job(const Start& start);
core::Code mpi_job(const Start& start);
core::Code skypilot(const Start& start);

// SkyPilot's name of a GPU; empty: not known here.
std::string_view accelerator_of(std::string_view gpu);

}  // namespace reports::emit
