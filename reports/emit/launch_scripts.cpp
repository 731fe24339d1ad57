// Launchers that are scripts of bash: torchrun, Slurm's sbatch, and the task of SkyPilot.
#include <array>

#include "core/json.hpp"
#include "reports/emit/launcher.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

// {0} head, {1} where it is started, {2} how, {3} the node's script
constexpr std::string_view kTorchrunScript = R"bash(#!/usr/bin/env bash
{0}# Start in {1}{2}
{3})bash";

// {0} head, {1} where it is started, {2} nodes, {3} GPUs of a node, {4} the node's script,
// {5} the base of ports
constexpr std::string_view kBatchScript = R"bash(#!/bin/bash
{0}# usage: sbatch [--partition=... --account=... --time=...] THIS_FILE [FURTHER OPTION]...
# Submit in {1} that every node sees.
#SBATCH --job-name=planner
#SBATCH --nodes={2}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={3}
set -euo pipefail
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${{hosts%%$'\n'*}}
MASTER_PORT=$(({5} + SLURM_JOB_ID % 1000))
export MASTER_ADDR MASTER_PORT
read -r -d '' node <<'END_OF_NODE' || true
{4}END_OF_NODE
srun --kill-on-bad-exit=1 --ntasks={2} --ntasks-per-node=1 bash -c "$node" planner "$@"
)bash";

// {0} head, {1} nodes, {2} the folder that is brought along, {3} accelerators, {4} the script
constexpr std::string_view kSkypilot = R"yaml({0}# usage: sky launch THIS_FILE
# Where your image lacks packages, add `setup: pip install ...`.
name: planner
num_nodes: {1}
workdir: {2}
resources:
  accelerators: {3}
run: |
{4})yaml";

// [skypilot] `sky show-gpus`, common GPUs. Cards that clouds offer under one name in several forms
// (PCIe, SXM) are those whose links the name means there.
struct Accelerator {
  std::string_view gpu, name;
};
constexpr std::array<Accelerator, 11> kAccelerators{{{"a10", "A10"},
                                                     {"a10g", "A10G"},
                                                     {"a100-sxm-40g", "A100"},
                                                     {"a100-sxm-80g", "A100-80GB"},
                                                     {"h100-sxm-80g", "H100"},
                                                     {"h200-sxm-141g", "H200"},
                                                     {"l4", "L4"},
                                                     {"l40s", "L40S"},
                                                     {"t4", "T4"},
                                                     {"v100-sxm-16g", "V100"},
                                                     {"v100-sxm-32g", "V100-32GB"}}};

}  // namespace

std::string_view accelerator_of(std::string_view gpu) {
  for (const Accelerator& a : kAccelerators)
    if (a.gpu == gpu) return a.name;
  return {};
}

Code torchrun_script(const Start& start) {
  const bool alone = start.nodes() <= 1;
  const Code options =
      Code::own(alone ? "--standalone"
                      : "--rdzv_backend c10d --rdzv_id \"${RDZV_ID:-planner}\" --rdzv_endpoint "
                        "\"$RDZV_ENDPOINT\"");
  Code how = ".";
  if (!alone)
    how = code(
        ", once on each of {} nodes, with\n"
        "# RDZV_ENDPOINT=HOST:{} in the environment: HOST is one of them, the\n"
        "# same for all. Another RDZV_ID keeps two runs apart.\n"
        ": \"${{RDZV_ENDPOINT:?HOST:PORT of one of the {} nodes}}\"",
        start.nodes(), kPort, start.nodes());
  return code(kTorchrunScript, head_comment(start), start.written.place, how,
              node_script(start, {true, options}));
}

Code slurm_script(const Start& start) {
  return code(kBatchScript, head_comment(start), start.written.place, start.nodes(),
              start.gpus_per_node(),
              node_script(start, {true,
                                  "--node_rank \"$SLURM_NODEID\" --master_addr "
                                  "\"$MASTER_ADDR\" --master_port \"$MASTER_PORT\""}),
              kPort);
}

Code skypilot(const Start& start) {
  const std::string_view known = accelerator_of(start.q.plan.profile.gpu.id);
  const Code script = node_script(
      start, {true, code("--node_rank \"$SKYPILOT_NODE_RANK\" --master_addr \"$(head -n 1 "
                         "<<<\"$SKYPILOT_NODE_IPS\")\" --master_port {}",
                         kPort)});
  return code(kSkypilot, head_comment(start), start.nodes(),
              Code::json(core::Json(start.place.workdir.value_or(std::string(kWorkdir)))),
              code("{}:{}", Code::own(known.empty() ? kAccelerator : known), start.gpus_per_node()),
              script.indented(2));
}

}  // namespace reports::emit
