// Manifests for Kubernetes: JobSet (jobset.x-k8s.io/v1alpha2), and of Kubeflow PyTorchJob
// (kubeflow.org/v1) and MPIJob (v2beta1).
#include "reports/emit/launcher.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

// A pod's containers and volumes, for a `spec:` at column 0. {0} name, {1} image, {2} script,
// {3} GPUs, {4} variables
constexpr std::string_view kPod = R"yaml(containers:
  - name: {0}
    image: {1}
    command: [bash, -c]
    args:
      - |
{2}{4}    resources:
      limits:
        nvidia.com/gpu: {3}
    volumeMounts:
      - name: shared-memory
        mountPath: /dev/shm
volumes:
  - name: shared-memory
    emptyDir:
      medium: Memory
)yaml";

// {0} head, {1} nodes, {2} a pod. The set gives the pods names: planner-node-0-0.planner is the
// first.
constexpr std::string_view kJobset = R"yaml({0}apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: planner
spec:
  replicatedJobs:
    - name: node
      replicas: 1
      template:
        spec:
          completionMode: Indexed
          completions: {1}
          parallelism: {1}
          backoffLimit: 0
          template:
            spec:
              restartPolicy: Never
{2})yaml";

// {0} head, {1} GPUs of a node, {2} a pod, {3} the other nodes
constexpr std::string_view kPytorchJob = R"yaml({0}apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: planner
spec:
  nprocPerNode: "{1}"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
{2}{3})yaml";

// {0} other nodes, {1} a pod
constexpr std::string_view kWorkers = R"yaml(    Worker:
      replicas: {0}
      restartPolicy: Never
      template:
        spec:
{1})yaml";

// {0} head, {1} GPUs of a node, {2} image, {3} the launcher's script, {4} nodes. The image has Open
// MPI and an SSH server, as the operator's own images.
constexpr std::string_view kMpiJob = R"yaml({0}apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: planner
spec:
  slotsPerWorker: {1}
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 0
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: launcher
              image: {2}
              command: [bash, -c]
              args:
                - |
{3}    Worker:
      replicas: {4}
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: worker
              image: {2}
              resources:
                limits:
                  nvidia.com/gpu: {1}
              volumeMounts:
                - name: shared-memory
                  mountPath: /dev/shm
          volumes:
            - name: shared-memory
              emptyDir:
                medium: Memory
)yaml";

// {0} processes, {1} port, {2} what each runs. The operator writes the hostfile, first node first.
constexpr std::string_view kMpirun = R"bash(set -euo pipefail
MASTER_ADDR=$(head -n 1 /etc/mpi/hostfile | cut -d' ' -f1)
export MASTER_ADDR MASTER_PORT={1}
read -r -d '' rank <<'END_OF_RANK' || true
export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK
{2}END_OF_RANK
mpirun --allow-run-as-root -np {0} -bind-to none -map-by slot \
  -x MASTER_ADDR -x MASTER_PORT -x PATH -x LD_LIBRARY_PATH bash -c "$rank" planner
)bash";

Code image_of(const Start& start) {
  return Code::yaml(start.place.image.value_or(std::string(kImage)));
}

Code pod(const Start& start, const Code& joining, const Code& variables) {
  const Code script = node_script(start, {true, joining, true});
  return code(kPod, Code("pytorch"), image_of(start), script.indented(8), start.gpus_per_node(),
              variables);
}

}  // namespace

Code jobset(const Start& start) {
  const Code variables = R"yaml(    env:
      - name: NODE_RANK
        valueFrom:
          fieldRef:
            fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
)yaml";
  const Code joining = code(
      "--node_rank \"$NODE_RANK\" --master_addr planner-node-0-0.planner "
      "--master_port {}",
      kPort);
  return code(kJobset, head_comment(start), start.nodes(),
              pod(start, joining, variables).indented(14));
}

Code pytorch_job(const Start& start) {
  // RANK is the pod's number: torchrun gives the processes theirs.
  const Code one = pod(start,
                       "--node_rank \"$RANK\" --master_addr \"$MASTER_ADDR\" --master_port "
                       "\"$MASTER_PORT\"",
                       "")
                       .indented(10);
  const Code others = start.nodes() > 1 ? code(kWorkers, start.nodes() - 1, one) : Code();
  return code(kPytorchJob, head_comment(start), start.gpus_per_node(), one, others);
}

Code mpi_job(const Start& start) {
  const Code rank = node_script(start, {false, "", true});
  const Code script = code(kMpirun, start.q.plan.gpus, kPort, rank);
  return code(kMpiJob, head_comment(start), start.gpus_per_node(), image_of(start),
              script.indented(18), start.nodes());
}

}  // namespace reports::emit
