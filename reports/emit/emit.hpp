#pragma once
// A plan in a framework's own words: what to start there to train as the plan says. What the
// framework cannot do is a problem, each with what to plan instead; what it does in its own way is
// a note. Pure; thread-safe.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/code.hpp"
#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace reports::emit {

struct Launch {
  core::Code text;  // a script or a configuration file, newline at the end
  std::vector<std::string> notes;
};

// megatron: a script around Megatron-LM's pretrain_gpt.py on random tokens; megatron_bridge: a
// module with the same as a recipe of Megatron-Bridge; torchtitan: the TOML
// file of its releases up to 0.2; torchtitan_0.3, torchtitan_python: a module with the
// configuration that release 0.3, or its main branch, reads; deepspeed: its JSON file; axolotl,
// llama_factory: their YAML files, for training of all parameters or of adapters; llmc: a script
// around its train_gpt2cu; nanotron: its YAML file; accelerate: the file of `accelerate launch`,
// for a script of the user's. slurm, kubernetes: a launch of `planner exec` itself.
std::span<const std::string_view> frameworks();

// What writes plans for the framework that the plan models (--framework), among frameworks(): of
// fsdp2, torchtitan for a model with Llama's layers and accelerate for any other. Empty: nothing is
// written for it.
std::string_view name_of(const planner::Plan& plan);
// The other way round, the framework (--framework) whose behaviour is predicted for what is written
// for one of frameworks(). Of an empty name: empty.
std::string_view modelled_as(std::string_view framework);

// REQUIRES: framework is one of frameworks().
core::Result<Launch> launch_of(const planner::Plan& plan, const planner::Candidate& candidate,
                               std::string_view framework);

// Whether torchrun starts it: not so llmc, which mpirun starts, and launches of planner exec.
bool has_launchers(std::string_view framework);
// torchrun, slurm: scripts; jobset, pytorchjob, mpijob: manifests for Kubernetes; skypilot: a task.
std::span<const std::string_view> launchers();
// Whether it takes what only the user knows: an image, the folder to start in.
bool takes_image(std::string_view launcher);
bool takes_workdir(std::string_view launcher);

// What only the user knows; what is empty becomes a placeholder, and a note names it.
struct Place {
  std::optional<std::string> image, workdir, script;
};

// The framework's training command on all nodes of the plan, in one file that holds its
// configuration too, with the environment that the plan counts on. REQUIRES: framework is one of
// frameworks() that has_launchers; launcher is one of launchers().
core::Result<Launch> launcher_of(const planner::Plan& plan, const planner::Candidate& candidate,
                                 std::string_view framework, std::string_view launcher,
                                 const Place& place);

}  // namespace reports::emit
