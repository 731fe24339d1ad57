#!/usr/bin/env python3
"""Tokens per second of one GPT-2 by this executor and by PyTorch (compiled, flash attention), in turns.

usage: beside_torch.py PLANNER GPU MODEL BATCH STEPS ROUNDS [VARIANT...]   one row of JSON on standard output
       beside_torch.py warm MODEL BATCH [VARIANT...]    compiles, so that the next start finds it done

Both train the same shapes: 1024 tokens a sample, AdamW, tied embeddings, no dropout. Variants of PyTorch:
`amp` keeps f32 parameters and moments and casts as autocast does, which is what the executor's mixed recipe
keeps (a master in f32); `bf16` keeps all of them in bf16 and so moves half the bytes of an optimizer step.
PyTorch compiles a model of up to 12 layers as a whole, a deeper one block by block, as torchtitan does.
The executor does it three times: `deterministic`, as it is by default, `tuned`, with --tuned-products, whose
file a run before made, and `fastest`, with --deterministic off.
Rounds are repeated, and each does all of them, so that a drifting clock shows.
"""
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

SIZES = {"gpt2-124m": (12, 768, 12), "gpt2-355m": (24, 1024, 16), "gpt2-774m": (36, 1280, 20),
         "gpt2-1.5b": (48, 1600, 25)}
SEQ, VOCAB, WARM_UP = 1024, 50257, 5
OWN = {"deterministic": [], "tuned": [], "fastest": ["--deterministic", "off"]}
WHOLE = 12  # layers that are compiled as one


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.proj = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2)
                   for t in self.qkv(self.ln_1(x)).split(h, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class End(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, x, table, targets):
        logits = self.ln_f(x) @ table.t()
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        # Rows padded to a multiple of 128, as is the habit there: it is faster.
        self.wte, self.wpe = nn.Embedding((VOCAB + 127) // 128 * 128, hidden), nn.Embedding(SEQ, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ends = End(hidden)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return self.ends(x, self.wte.weight, targets)


def torch_trainer(model, batch, amp):
    """A function that trains one step."""
    net = Gpt(*SIZES[model]).cuda()
    if not amp:
        net.bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    compiled = torch.compile(net) if len(net.blocks) <= WHOLE else net
    if compiled is net:
        for part in (*net.blocks, net.ends):
            part.compile()
    tokens = torch.randint(VOCAB, (batch, SEQ), device="cuda")

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = compiled(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(WARM_UP):
        step()
    return step


def torch_seconds(step, steps):
    step()  # takes again what was given back below
    torch.cuda.synchronize()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    torch.cuda.empty_cache()  # what it keeps for later would be missing in the other process
    return statistics.median(times)


def own_seconds(planner, plan, steps, options):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([planner, "exec", plan, "--backend", "cuda", "--steps", str(steps + WARM_UP), "--quiet",
                               *options, "--out", out.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return float("nan"), {"failed": done.stderr.strip()}
        record = json.load(open(out.name))
    return record["time"]["step_median"], {**record["environment"], "memory": record["memory"]}


def warm(model, batch, *variants):
    for variant in variants or ("amp", "bf16"):
        torch_trainer(model, int(batch), variant == "amp")
        torch.cuda.empty_cache()
    print("compiled")


def main(planner, gpu, model, batch, steps, rounds, *variants):
    batch, steps = int(batch), int(steps)
    with tempfile.NamedTemporaryFile(suffix=".json") as plan:
        subprocess.run([planner, "--model", model, "--gpus", "1", "--seq", str(SEQ), "--global-batch", str(batch),
                        "--pin", f"micro_batch={batch}", "--recipe", "mixed", "--gpu", gpu, "--quiet",
                        "--out", plan.name], check=True, stdout=subprocess.DEVNULL)
        kept = plan.name + ".products"
        OWN["tuned"] = ["--tuned-products", kept]
        own_seconds(planner, plan.name, 1, OWN["tuned"])
        theirs = {name: torch_trainer(model, batch, name == "amp") for name in variants or ("amp", "bf16")}
        measured, environment = [], {}
        for _ in range(int(rounds)):
            seconds = {f"torch_{name}": torch_seconds(step, steps) for name, step in theirs.items()}
            for name, options in OWN.items():
                seconds[name], environment[name] = own_seconds(planner, plan.name, steps, options)
            measured.append(seconds)
            median = lambda figure: statistics.median(map(figure, measured))
            # After each round, so that what is cut off has its last row.
            print(json.dumps({"name": model, "batch": batch, "torch": torch.__version__, "environment": environment,
                              "compiled": "whole" if SIZES[model][0] <= WHOLE else "by block",
                              "tokens_per_second": {name: batch * SEQ / median(lambda r: r[name]) for name in measured[0]},
                              "to_torch": {f"{own} to {name}": median(lambda r: r[f"torch_{name}"] / r[own])
                                           for own in OWN for name in theirs}, "rounds": measured}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "warm":
        warm(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
