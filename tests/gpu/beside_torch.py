#!/usr/bin/env python3
"""Tokens per second of one GPT-2 by this executor and by PyTorch (compiled, flash attention, bf16), in turns.

usage: beside_torch.py PLANNER GPU MODEL BATCH STEPS     one row of JSON on standard output

Both train the same shapes: 1024 tokens a sample, AdamW, tied embeddings, no dropout. Pairs are repeated
and interleaved; the ratio of each pair is kept, so that a drifting clock shows.
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
SEQ, VOCAB, PAIRS, WARM_UP = 1024, 50257, 3, 5


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


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        # Rows padded to a multiple of 128, as is the habit there: it is faster.
        self.wte, self.wpe = nn.Embedding((VOCAB + 127) // 128 * 128, hidden), nn.Embedding(SEQ, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


def torch_trainer(model, batch):
    """A function that trains one step; parameters in bf16 as the executor's mixed recipe stores them."""
    net = Gpt(*SIZES[model]).cuda().bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    compiled = torch.compile(net)
    tokens = torch.randint(VOCAB, (batch, SEQ), device="cuda")

    def step():
        compiled(tokens, tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def torch_seconds(step, steps):
    torch.cuda.synchronize()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def own_seconds(planner, plan, steps):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([planner, "exec", plan, "--backend", "cuda", "--steps", str(steps + WARM_UP), "--quiet",
                        "--out", out.name], check=True, stdout=subprocess.DEVNULL)
        record = json.load(open(out.name))
    return record["time"]["step_median"], record["environment"]


def main(planner, gpu, model, batch, steps):
    batch, steps = int(batch), int(steps)
    with tempfile.NamedTemporaryFile(suffix=".json") as plan:
        subprocess.run([planner, "--model", model, "--gpus", "1", "--seq", str(SEQ), "--global-batch", str(batch),
                        "--pin", f"micro_batch={batch}", "--recipe", "mixed", "--gpu", gpu, "--quiet",
                        "--out", plan.name], check=True, stdout=subprocess.DEVNULL)
        step = torch_trainer(model, batch)
        for _ in range(WARM_UP):
            step()
        pairs, environment = [], {}
        for _ in range(PAIRS):
            step()  # takes again what was given back below
            theirs = torch_seconds(step, steps)
            torch.cuda.empty_cache()  # what it keeps for later would be missing in the other process
            ours, environment = own_seconds(planner, plan.name, steps)
            pairs.append({"torch_seconds": theirs, "own_seconds": ours, "ratio": theirs / ours})
    tokens = batch * SEQ
    ours = statistics.median(p["own_seconds"] for p in pairs)
    theirs = statistics.median(p["torch_seconds"] for p in pairs)
    print(json.dumps({"name": model, "batch": batch, "torch": torch.__version__, "environment": environment,
                      "own_tokens_per_second": tokens / ours, "torch_tokens_per_second": tokens / theirs,
                      "ratio": statistics.median(p["ratio"] for p in pairs), "pairs": pairs}))


if __name__ == "__main__":
    main(*sys.argv[1:6])
