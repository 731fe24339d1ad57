// Launches of `planner exec` itself: a batch script of Slurm, a Job of Kubernetes. One process for
// each rank, joined by TCP (exec/communicator/tcp). The plan's file stays apart: no text of it but
// the title, in a comment, is written here.
#include <algorithm>

#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

// {0} title, {1} nodes, {2} ranks, {3} ranks of a node
constexpr std::string_view kSlurm = R"bash(#!/bin/bash
# {0}
# usage: sbatch THIS_FILE PLAN [OPTION OF planner exec]...
#SBATCH --job-name=planner
#SBATCH --nodes={1}
#SBATCH --ntasks={2}
#SBATCH --ntasks-per-node={3}
set -euo pipefail
plan=${{1:?usage: sbatch $0 PLAN [OPTION OF planner exec]...}}
if [[ ! -r $plan ]]; then
  printf '%s: expected a plan that every node can read, found none\n' "$plan" >&2
  exit 2
fi
# Every rank proves that it knows it; srun hands it to all.
PLANNER_SECRET=$(head -c 16 /dev/urandom | base64)
export PLANNER_SECRET
srun --kill-on-bad-exit=1 planner exec "$plan" --communicator tcp "${{@:2}}"
)bash";

// {0} title, {1} ranks. The service gives the pods names: planner-0.planner is rank 0.
constexpr std::string_view kKubernetes = R"yaml(# {0}
# Before it, once: kubectl create configmap planner-plan --from-file=plan.json=PLAN
#   kubectl create secret generic planner-secret \
#     --from-literal=secret="$(head -c 16 /dev/urandom | base64)"
# The image is one of yours that has planner in PATH. Rank 0's log ends with the record of the run.
apiVersion: v1
kind: Service
metadata:
  name: planner
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: planner
---
apiVersion: batch/v1
kind: Job
metadata:
  name: planner
spec:
  completionMode: Indexed
  completions: {1}
  parallelism: {1}
  backoffLimit: 0
  template:
    spec:
      subdomain: planner
      restartPolicy: Never
      containers:
        - name: rank
          image: planner:latest
          command: [planner, exec, /plan/plan.json, --communicator, tcp]
          env:
            - name: RANK
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
            - name: WORLD_SIZE
              value: "{1}"
            - name: MASTER_ADDR
              value: planner-0.planner
            - name: MASTER_PORT
              value: "29500"
            - name: PLANNER_RENDEZVOUS_SECONDS
              value: "600"
            - name: PLANNER_SECRET
              valueFrom:
                secretKeyRef:
                  name: planner-secret
                  key: secret
          volumeMounts:
            - name: plan
              mountPath: /plan
      volumes:
        - name: plan
          configMap:
            name: planner-plan
)yaml";

void check_for_exec(Question& q) {
  q.require(q.job().mode != planner::Mode::inference, "mode=inference",
            "training: planner exec trains", "plan without --mode inference");
}

std::vector<std::string> notes_for_exec() {
  return {
      "ranks compute on the hosts: planner exec uses no GPU when ranks are processes",
      "a plan too large for the hosts is run small with --scale-down; what planner exec cannot run "
      "is refused by name when it starts"};
}

}  // namespace

core::Result<Launch> slurm(Question& q) {
  check_for_exec(q);
  if (!q.problems.empty()) return q.problems;
  return Launch{core::code(kSlurm, q.title(), q.plan.nodes, q.plan.gpus,
                           std::min(q.plan.gpus, q.plan.gpus_per_node)),
                notes_for_exec()};
}

core::Result<Launch> kubernetes(Question& q) {
  check_for_exec(q);
  if (!q.problems.empty()) return q.problems;
  std::vector<std::string> notes = notes_for_exec();
  notes.push_back("each rank is a pod; change `image` to one that has planner");
  return Launch{core::code(kKubernetes, q.title(), q.plan.gpus), std::move(notes)};
}

}  // namespace reports::emit
