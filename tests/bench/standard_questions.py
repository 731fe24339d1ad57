#!/usr/bin/env python3
"""The answers to the standard questions of docs/decisions/0011, one line each.

usage: standard_questions.py BIN_FOLDER [PLAN_OPTION ...]
Prints question | step | mfu | memory of usable | risk | strategy, for people who judge the choice.
"""
import json
import subprocess
import sys

# name, options of `planner`
QUESTIONS = [
    ("gpt2-124m, 1 x 3090", "--model gpt2-124m --gpus 1 --gpu rtx3090"),
    ("gpt2-1.5b, 1 x 4090", "--model gpt2-1.5b --gpus 1 --gpu rtx4090"),
    ("gpt2-1.5b, 8 x 3090", "--model gpt2-1.5b --gpus 8 --gpu rtx3090"),
    ("gpt2-1.5b, 8 x H100", "--model gpt2-1.5b --gpus 8 --gpu h100-sxm-80g"),
    ("gpt2-1.5b, 16 x H100", "--model gpt2-1.5b --gpus 16 --gpu h100-sxm-80g"),
    ("llama3-8b fine-tuned whole, 1 x H100",
     "--model llama3-8b --gpus 1 --gpu h100-sxm-80g --mode finetune"),
    ("llama3-8b LoRA, 1 x 4090",
     "--model llama3-8b --gpus 1 --gpu rtx4090 --mode finetune --lora-rank 16"),
    ("llama3-8b QLoRA, 1 x 4090",
     "--model llama3-8b --gpus 1 --gpu rtx4090 --mode finetune --lora-rank 16 --quantization nf4"),
    ("llama3-8b fine-tuned whole, 8 x 4090",
     "--model llama3-8b --gpus 8 --gpu rtx4090 --mode finetune"),
    ("llama3-8b, 8 x A100 80G", "--model llama3-8b --gpus 8 --gpu a100-sxm-80g"),
    ("llama3-8b, 8 x H100", "--model llama3-8b --gpus 8 --gpu h100-sxm-80g"),
    ("llama3-8b, 64 x H100", "--model llama3-8b --gpus 64 --gpu h100-sxm-80g"),
    ("llama3.1-8b at 32 k, 8 x H100",
     "--model llama3.1-8b --gpus 8 --gpu h100-sxm-80g --seq 32768 --global-batch 128"),
    ("llama3.1-8b at 128 k, 64 x H100",
     "--model llama3.1-8b --gpus 64 --gpu h100-sxm-80g --seq 131072 --global-batch 32"),
    ("llama3.1-8b at 1 M, 256 x H100",
     "--model llama3.1-8b --gpus 256 --gpu h100-sxm-80g --seq 1048576 --global-batch 8"),
    ("qwen2.5-7b LoRA, 2 x 3090",
     "--model qwen2.5-7b --gpus 2 --gpu rtx3090 --mode finetune --lora-rank 16"),
    ("qwen3-32b QLoRA, 2 x 4090",
     "--model qwen3-32b --gpus 2 --gpu rtx4090 --mode finetune --lora-rank 16 --quantization nf4"),
    ("qwen2.5-32b fine-tuned whole, 8 x H100",
     "--model qwen2.5-32b --gpus 8 --gpu h100-sxm-80g --mode finetune"),
    ("llama2-13b, 8 x A100 40G", "--model llama2-13b --gpus 8 --gpu a100-sxm-40g"),
    ("llama2-70b QLoRA, 2 x 3090",
     "--model llama2-70b --gpus 2 --gpu rtx3090 --mode finetune --lora-rank 64 "
     "--quantization nf4 --seq 2048"),
    ("llama3-70b LoRA, 8 x H100",
     "--model llama3-70b --gpus 8 --gpu h100-sxm-80g --mode finetune --lora-rank 16"),
    ("llama3-70b QLoRA, 1 x H100",
     "--model llama3-70b --gpus 1 --gpu h100-sxm-80g --mode finetune --lora-rank 16 "
     "--quantization nf4"),
    ("llama3-70b, 64 x H100", "--model llama3-70b --gpus 64 --gpu h100-sxm-80g"),
    ("llama3-70b, 64 x H200", "--model llama3-70b --gpus 64 --gpu h200-sxm-141g"),
    ("llama3-70b, 64 x B200", "--model llama3-70b --gpus 64 --gpu b200-sxm-180g"),
    ("llama3-70b, 512 x H100", "--model llama3-70b --gpus 512 --gpu h100-sxm-80g"),
    ("mixtral-8x7b, 64 x H100", "--model mixtral-8x7b --gpus 64 --gpu h100-sxm-80g"),
    ("qwen3-30b-a3b LoRA, 8 x H100",
     "--model qwen3-30b-a3b --gpus 8 --gpu h100-sxm-80g --mode finetune --lora-rank 16"),
    ("gpt3-175b, 1024 x A100", "--model gpt3-175b --gpus 1024 --gpu a100-sxm-80g"),
    ("llama3.1-405b, 1024 x H100", "--model llama3.1-405b --gpus 1024 --gpu h100-sxm-80g"),
    ("llama3.1-405b, 16384 x H100",
     "--model llama3.1-405b --gpus 16384 --gpu h100-sxm-80g --seq 8192 --global-batch 2048"),
    ("llama3.1-405b at 128 k, 16384 x H100",
     "--model llama3.1-405b --gpus 16384 --gpu h100-sxm-80g --seq 131072 --global-batch 128"),
]


def strategy_text(s):
    """The keys that are not at their plainest value."""
    words = [f"{k}={s[k]}" for k in ("data", "tensor", "pipeline", "context", "expert") if s[k] > 1]
    if s["context"] > 1:
        words.append(s["context_method"])
    if s["sharding"] != "none":
        words.append(s["sharding"])
    if s["checkpoint"] == "every_k":
        words.append(f"every_k({s['checkpoint_every']})")
    elif s["checkpoint"] != "none":
        words.append(s["checkpoint"])
    if s["schedule"] != "none":
        words.append(s["schedule"])
    if s["virtual_stages"] > 1:
        words.append(f"virtual_stages={s['virtual_stages']}")
    if s["loss_chunks"] > 1:
        words.append(f"loss_chunks={s['loss_chunks']}")
    if s["offload"]:
        words.append("offload=" + ",".join(s["offload"]))
    words.append(f"micro_batch={s['micro_batch']}")
    return " ".join(words)


def main():
    planner, more = sys.argv[1] + "/planner", sys.argv[2:]
    for name, options in QUESTIONS:
        run = subprocess.run([planner, *options.split(), *(more or ["--framework", "native"]), "--json",
                              "--quiet"], capture_output=True, text=True, check=False)
        chosen = json.loads(run.stdout)["chosen"] if run.stdout else None
        if not chosen:
            print(f"{name} | - | - | - | - | {run.stderr.strip()[:100]}")
            continue
        memory, risk = chosen["memory"], chosen["uncertainty"]["out_of_memory"]
        print(f"{name} | {chosen['time']['step']:.3g} s | "
              f"{100 * chosen['throughput']['mfu']:.0f} % | "
              f"{memory['device'] / 2**30:.0f} of {memory['usable'] / 2**30:.0f} GiB | "
              f"{100 * risk:.1f} % | {strategy_text(chosen['strategy'])}", flush=True)


if __name__ == "__main__":
    main()
