"""Runs what `planner emit --launcher` writes, with stand-ins for what it starts, and compares what they
were given with the plan. usage: launchers.py PLANNER, in an empty folder."""
import ast
import itertools
import json
import os
import pathlib
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None
    print("skipped: manifests are read by no YAML reader (install python3-yaml)")

planner = sys.argv[1]
here = pathlib.Path.cwd()
LAUNCHERS = ("torchrun", "slurm", "jobset", "pytorchjob", "mpijob", "skypilot")
SCRIPTS = ("torchrun", "slurm")
ON_KUBERNETES = ("jobset", "pytorchjob", "mpijob")

# What is started tells its arguments, what of the environment matters, and the file that it is to read.
TELL = """#!/usr/bin/env python3
import json, os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "NCCL_ALGO",
         "PYTORCH_CUDA_ALLOC_CONF", "CUDA_DEVICE_MAX_CONNECTIONS")
read = [open(word).read() for before, word in zip(sys.argv, sys.argv[1:])
        if before in ("--job.config_file", "--deepspeed_config", "--config-file", "axolotl.cli.train",
                      "llamafactory.launcher") or word.endswith("/planned.py")]
if "--module" in sys.argv:
    module = sys.argv[sys.argv.index("--module") + 1] + ".py"
    folders = [folder for folder in os.environ["PYTHONPATH"].split(":") if folder]
    read = [open(os.path.join(folder, module)).read() for folder in folders
            if os.path.exists(os.path.join(folder, module))]
with open(os.environ["TOLD"], "a") as told:
    told.write(json.dumps({"args": sys.argv[1:], "cwd": os.getcwd(), "read": read,
                           "env": {n: os.environ[n] for n in names if n in os.environ}}) + "\\n")
"""
SRUN = """#!/bin/bash
set -e
nodes=''
while [[ $1 == --* ]]; do
  case $1 in --ntasks=*) nodes=${1#*=} ;; esac
  shift
done
for ((i = 0; i < nodes; i++)); do SLURM_NODEID=$i "$@"; done
"""
SCONTROL = "#!/bin/bash\nprintf 'first\\nsecond\\n'\n"
MPIRUN = """#!/bin/bash
set -e
while [[ $1 == -* ]]; do
  case $1 in
    -np) count=$2; shift 2 ;;
    -x | -bind-to | -map-by) shift 2 ;;
    *) shift ;;
  esac
done
for ((i = 0; i < count; i++)); do
  OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=$count OMPI_COMM_WORLD_LOCAL_RANK=$((i % 8)) "$@"
done
"""
stubs = here / "stubs"
stubs.mkdir()
for name, text in (("torchrun", TELL), ("python", TELL), ("srun", SRUN), ("scontrol", SCONTROL),
                   ("mpirun", MPIRUN)):
    (stubs / name).write_text(text)
    (stubs / name).chmod(0o755)


def emit(*words, code=0):
    done = subprocess.run([planner, "emit", *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done


def run(script, code=0, words=(), **variables):
    """What was told when the script ran in bash."""
    told = here / "told"
    told.unlink(missing_ok=True)
    env = {"PATH": f"{stubs}:{os.environ['PATH']}", "TOLD": str(told), "HOME": str(here),
           "TMPDIR": str(here), "TRAIN_SCRIPT": "mine.py", **variables}
    done = subprocess.run(["bash", "-c", script, "launcher", *words], capture_output=True, text=True, env=env)
    assert done.returncode == code, (done.returncode, done.stderr, script)
    assert not list(here.glob("tmp.*")), "a launcher leaves its configuration behind"
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else done.stderr


def after(args, option):
    return args[args.index(option) + 1]


def script_of(container):
    assert container["command"] == ["bash", "-c"], container
    return container["args"][0]


def of_slurm(text, nodes, gpus):
    for line in (f"#SBATCH --nodes={nodes}", "#SBATCH --ntasks-per-node=1", f"#SBATCH --gpus-per-node={gpus}"):
        assert line in text.splitlines(), (line, text)
    return run(text, SLURM_JOB_NODELIST="n[1-2]", SLURM_JOB_ID="77"), "first"


def of_torchrun(text, nodes, gpus):
    if nodes == 1:
        return run(text), None
    assert "HOST:PORT of one of the 2 nodes" in run(text, code=127)
    return list(itertools.chain.from_iterable(
        run(text, RDZV_ENDPOINT="first:29500") for _ in range(nodes))), None


def of_jobset(text, nodes, gpus):
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet"), job
    one, = job["spec"]["replicatedJobs"]
    spec = one["template"]["spec"]
    assert one["replicas"] == 1 and spec["completions"] == spec["parallelism"] == nodes, spec
    assert spec["completionMode"] == "Indexed", spec
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == gpus, container
    assert [e["name"] for e in container["env"]] == ["NODE_RANK"], container
    told = [run(script_of(container), NODE_RANK=str(n))[0] for n in range(nodes)]
    name = job["metadata"]["name"]
    return told, f"{name}-{one['name']}-0-0.{name}"


def of_pytorchjob(text, nodes, gpus):
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob"), job
    assert job["spec"]["nprocPerNode"] == str(gpus), job
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert sum(r["replicas"] for r in replicas.values()) == nodes, replicas
    assert replicas["Master"]["replicas"] == 1 and ("Worker" in replicas) == (nodes > 1), replicas
    told = []
    for rank in range(nodes):
        container, = replicas["Worker" if rank else "Master"]["template"]["spec"]["containers"]
        assert container["name"] == "pytorch", container
        assert container["resources"]["limits"]["nvidia.com/gpu"] == gpus, container
        told += run(script_of(container), RANK=str(rank), MASTER_ADDR="head", MASTER_PORT="23456")
    return told, "head"


def of_mpijob(text, nodes, gpus):
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob"), job
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert job["spec"]["slotsPerWorker"] == gpus and replicas["Worker"]["replicas"] == nodes, job
    worker, = replicas["Worker"]["template"]["spec"]["containers"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == gpus, worker
    launcher, = replicas["Launcher"]["template"]["spec"]["containers"]
    assert "resources" not in launcher, launcher
    (here / "hostfile").write_text("head.svc slots=8\nother.svc slots=8\n")
    told = run(script_of(launcher).replace("/etc/mpi/hostfile", str(here / "hostfile")))
    assert [t["env"]["RANK"] for t in told] == [str(r) for r in range(nodes * gpus)], told
    assert all(t["env"]["WORLD_SIZE"] == str(nodes * gpus) for t in told), told
    assert all(t["env"]["MASTER_ADDR"] == "head.svc" and "LOCAL_RANK" in t["env"] for t in told), told
    return told, None


def of_skypilot(text, nodes, gpus):
    task = yaml.safe_load(text)
    assert task["num_nodes"] == nodes and task["resources"]["accelerators"] == f"H100:{gpus}", task
    assert task["workdir"] == str(here), task
    return list(itertools.chain.from_iterable(
        run(task["run"], SKYPILOT_NODE_RANK=str(n), SKYPILOT_NODE_IPS="first\nsecond")
        for n in range(nodes))), "first"


def check(framework, launcher, plan_file):
    plan = json.load(open(plan_file))["cluster"]
    nodes, gpus = plan["nodes"], plan["gpus"] // plan["nodes"]
    options = ["--launcher", launcher]
    if launcher in ON_KUBERNETES:
        options += ["--image", "registry.example:5000/a/b:1@sha256:0"]
    if launcher not in SCRIPTS:
        options += ["--workdir", str(here)]
    done = emit(plan_file, "--for", framework, *options)
    told, head = globals()["of_" + launcher](done.stdout, nodes, gpus)
    if launcher == "mpijob":
        assert len(told) == plan["gpus"], told
    else:
        assert len(told) == nodes, told
        for n, one in enumerate(told):
            assert after(one["args"], "--nnodes") == str(nodes), one
            assert after(one["args"], "--nproc_per_node") == str(gpus), one
            if head:
                assert after(one["args"], "--node_rank") == str(n), one
                assert after(one["args"], "--master_addr") == head, one
    # The command is the framework's own, with its own configuration.
    alone = emit(plan_file, "--for", framework).stdout
    for one in told:
        assert one["cwd"] == str(here), one
        assert "PYTORCH_CUDA_ALLOC_CONF" not in one["env"], one
        if framework == "megatron":
            own = run(alone)[0]["args"]
            assert one["args"][one["args"].index("pretrain_gpt.py"):] == \
                own[own.index("pretrain_gpt.py"):], one
            assert one["env"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "1", one
        else:
            assert one["read"] == [alone], (one["read"], alone)
            command = COMMANDS[framework]
            assert any(word == command or word.endswith("/" + command) for word in one["args"]), one
        if framework in IN_PYTHON:
            ast.parse(alone)
    left = {"deepspeed": ["TRAIN_SCRIPT"], "axolotl": ["MODEL", "DATASET", "FORMAT"],
            "llama_factory": ["MODEL", "DATASET", "FORMAT"]}.get(framework, [])
    for name in left:
        assert "REPLACE_WITH_" + name in done.stdout and "REPLACE_WITH_" + name in done.stderr, done
    assert done.stdout.count("REPLACE_WITH_") >= len(left) and bool(left) == ("REPLACE_WITH_" in done.stdout), done


def plan(file, *words):
    subprocess.run([planner, *words, "--gpu", "h100-sxm-80g", "--out", file, "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)


IN_PYTHON = ("torchtitan_0.3", "torchtitan_python")
COMMANDS = {"torchtitan": "torchtitan.train", "torchtitan_python": "torchtitan.train",
            "torchtitan_0.3": "torchtitan.train", "deepspeed": "mine.py", "axolotl": "axolotl.cli.train",
            "llama_factory": "llamafactory.launcher", "nanotron": "run_train.py",
            "megatron_bridge": "planned.py"}
PLANS = {"megatron": ("gpt2-774m", "megatron_core"), "megatron_bridge": ("gpt2-774m", "megatron_core"),
         "torchtitan": ("llama3-8b", "fsdp2"),
         "torchtitan_python": ("llama3-8b", "fsdp2"), "torchtitan_0.3": ("llama3-8b", "fsdp2"),
         "deepspeed": ("llama3-8b", "deepspeed"), "axolotl": ("llama3-8b", "trainer"),
         "llama_factory": ("llama3-8b", "trainer"), "nanotron": ("llama3-8b", "nanotron")}
for framework, (model, modelled) in PLANS.items():
    for gpus in ("4", "16"):
        file = f"{framework}{gpus}.json"
        plan(file, "--model", model, "--gpus", gpus, "--framework", modelled, "--pin", "tensor=1",
             *(["--lora-rank", "8"] if modelled == "trainer" else []),
             *(["--pin", "checkpoint=every_k(1)"] if framework in IN_PYTHON else []))
        for launcher in LAUNCHERS:
            if launcher in SCRIPTS or yaml:
                check(framework, launcher, file)

# ---- llm.c: mpirun starts its program on all GPUs ---------------------------------------------------
plan("llmc.json", "--model", "gpt2-124m", "--gpus", "16", "--framework", "llmc", "--pin", "sharding=zero1")
(stubs / "train_gpt2cu").write_text(TELL)
(stubs / "train_gpt2cu").chmod(0o755)
told = run(emit("llmc.json", "--for", "llmc").stdout.replace("./train_gpt2cu", "train_gpt2cu"))
strategy = json.load(open("llmc.json"))["chosen"]["strategy"]
assert len(told) == 16, told
for option, value in (("-e", "d12"), ("-b", strategy["micro_batch"]), ("-t", 1024), ("-d", 512 * 1024),
                      ("-z", 1), ("-w", 1), ("-pg", 8), ("-r", 0 if strategy["checkpoint"] == "none" else 2)):
    assert after(told[0]["args"], option) == str(value), (option, told[0])

# ---- fine-tuning: what their trainer reads ------------------------------------------------------------
if yaml:
    plan("qlora.json", "--model", "llama3-8b", "--gpus", "2", "--framework", "trainer", "--lora-rank", "16",
         "--quantization", "nf4", "--pin", "sharding=none", "--clip", "0.5", "--seq", "1k")
    strategy = json.load(open("qlora.json"))["chosen"]["strategy"]
    axolotl = yaml.safe_load(emit("qlora.json", "--for", "axolotl").stdout)
    factory = yaml.safe_load(emit("qlora.json", "--for", "llama_factory").stdout)
    for read, key in ((axolotl, "micro_batch_size"), (factory, "per_device_train_batch_size")):
        assert read[key] == strategy["micro_batch"], read
        assert read["gradient_accumulation_steps"] == strategy["grad_accum"], read
        assert read["learning_rate"] == 1e-4 and read["max_grad_norm"] == 0.5, read
        assert read["bf16"] is True and read["fp16"] is False and "deepspeed" not in read, read
    assert (axolotl["adapter"], axolotl["load_in_4bit"], axolotl["lora_r"]) == ("qlora", True, 16), axolotl
    assert (factory["finetuning_type"], factory["quantization_bit"], factory["lora_rank"]) == ("lora", 4, 16)
    assert axolotl["lora_target_modules"] == factory["lora_target"].split(","), factory
    assert axolotl["sequence_len"] == factory["cutoff_len"] == 1024, axolotl
    plan("full.json", "--model", "llama3-8b", "--gpus", "8", "--framework", "trainer_zero3", "--mode",
         "finetune", "--pin", "sharding=zero3", "--pin", "checkpoint=every_k(1)")
    for framework, recomputes in (("axolotl", "gradient_checkpointing"), ("llama_factory", None)):
        read = yaml.safe_load(emit("full.json", "--for", framework).stdout)
        assert read["deepspeed"]["zero_optimization"]["stage"] == 3, read
        assert read["deepspeed"]["gradient_clipping"] == read["max_grad_norm"], read
        assert not any(key.startswith("lora") for key in read), read
        assert read[recomputes] is True if recomputes else read["disable_gradient_checkpointing"] is False

# ---- the environment that a plan counts on, and no other ---------------------------------------------
plan("offload.json", "--model", "llama3-8b", "--gpus", "4", "--framework", "deepspeed", "--pin",
     "offload=optimizer", "--pin", "sharding=zero2", "--max-risk", "100%")
offload, = run(emit("offload.json", "--for", "deepspeed", "--launcher", "torchrun").stdout)
assert offload["env"]["OMP_NUM_THREADS"] == str(os.cpu_count() // 4), offload
plan("tree.json", "--model", "gpt2-124m", "--gpus", "16", "--framework", "megatron_core", "--pin",
     "sharding=none", "--pin", "data=16", "--pin", "grad_sync=tree")
tree = emit("tree.json", "--for", "megatron", "--launcher", "slurm")
told = run(tree.stdout, SLURM_JOB_NODELIST="n[1-2]", SLURM_JOB_ID="1")
entries = json.load(open("tree.json"))["chosen"]["communication"]
if all(e["algorithm"] == "tree" for e in entries if e["collective"] == "all_reduce"):
    assert all(t["env"]["NCCL_ALGO"] == "allreduce:tree" for t in told), told
else:
    assert "NCCL cannot be told so" in tree.stderr and "NCCL_ALGO" not in told[0]["env"], tree
told, = run(emit("megatron4.json", "--for", "megatron", "--launcher", "torchrun").stdout, words=("--lr", "2"))
assert set(told["env"]) == {"CUDA_DEVICE_MAX_CONNECTIONS"} and told["args"][-2:] == ["--lr", "2"], told

# ---- what only the user knows ------------------------------------------------------------------------
done = emit("deepspeed16.json", "--for", "deepspeed", "--launcher", "jobset")
for name in ("REPLACE_WITH_IMAGE", "REPLACE_WITH_WORKDIR", "REPLACE_WITH_TRAIN_SCRIPT"):
    assert name in done.stdout and f"note: fill in {name}: " in done.stderr, (name, done.stderr)
done = emit("deepspeed4.json", "--for", "deepspeed", "--launcher", "torchrun", "--script",
            "it's; touch PWNED")
told, = run(done.stdout)
assert "it's; touch PWNED" in told["args"] and not (here / "PWNED").exists(), told
said = json.loads(emit("megatron4.json", "--for", "megatron", "--launcher", "slurm", "--json").stdout)
assert (said["schema"], said["framework"], said["launcher"]) == ("launch/1", "megatron", "slurm"), said
assert json.loads(emit("megatron4.json", "--for", "megatron", "--json").stdout)["launcher"] is None

# ---- refused -----------------------------------------------------------------------------------------
for words, pattern in (
        (("--for", "slurm", "--launcher", "slurm"), "starts all nodes by itself"),
        (("--for", "llmc", "--launcher", "slurm"), "starts all nodes by itself"),
        (("--for", "megatron", "--launcher", "slurmm"), "did you mean slurm"),
        (("--for", "megatron", "--launcher", "slurm", "--image", "x"), "--image: expected --launcher jobset"),
        (("--for", "megatron", "--workdir", "/x"), "found no --launcher"),
        (("--for", "megatron", "--launcher", "jobset", "--script", "x.py"), "--for deepspeed"),
        (("--for", "megatron", "--launcher", "jobset", "--image", "a: b\nc"), "name of a container image"),
        (("--for", "megatron", "--launcher", "jobset", "--workdir", "/a\nb"), "control characters")):
    assert pattern in emit("megatron4.json", *words, code=2).stderr, (words, pattern)
plan("uneven.json", "--model", "gpt2-124m", "--gpus", "12", "--gpus-per-node", "8", "--framework",
     "megatron_core", "--global-batch", "48")
for words in ((), ("--launcher", "torchrun")):
    err = emit("uneven.json", "--for", "megatron", *words, code=2).stderr
    assert err.count("as many GPUs in each node") == 1 and "12 GPUs in nodes of 8" in err, err
print("launchers: as the plans say")
