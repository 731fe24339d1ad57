"""Trains a GPT-2 by `planner exec` and by PyTorch from the same weights on the same samples, and
compares the losses step by step.

usage: same_as_pytorch.py PLANNER [--layers 3 --hidden 48 --heads 4 --vocab 256 --positions 32]
       [--seq 32 --batch 8 --steps 50 --clip 1 --tolerance 1e-4] [--pins "data=2 tensor=2"]
       [--corpus FILE] [--half 1024]

fp32, AdamW with weight decay of matrices alone, warm-up and cosine, gradients clipped to a norm.
With --half in fp16, with weights and moments in fp32 and a fixed loss scale; of a scale of 2^24 no
step may update anything.
The first weights are read from a checkpoint after a step at the learning rate 0; which windows of the
corpus a step takes follows from the seed (exec/interpret/data_source.cpp, core/random.hpp). Runs in
the working folder. Exit code 0: all losses agree; 1: they do not."""

import argparse
import copy
import json
import math
import pathlib
import struct
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional

SEED, WINDOW_STREAM = 1, 4
LOW = 0xFFFFFFFF
HEADER_BYTES = 8 + 8 + 8 + 16 + 8      # exec/checkpoint/rank_file.cpp, up to the number of losses


def philox(counter, key):
    """Philox4x32-10 [philox]: four words of the counter under the key."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & LOW, (a >> 32) ^ c[3] ^ k[1], a & LOW]
        k = [(k[0] + 0x9E3779B9) & LOW, (k[1] + 0xBB67AE85) & LOW]
    return c


def below(stream, index, count):
    """core::Random(SEED, stream).below(index, count)."""
    block = index // 2
    words = philox((block & LOW, block >> 32, stream & LOW, stream >> 32), (SEED & LOW, SEED >> 32))
    low, high = words[2 * (index % 2):2 * (index % 2) + 2]
    return ((high << 32 | low) * count) >> 64


class Block(nn.Module):
    """Attributes in the order in which planner's layer has its parameters."""

    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.norm_1 = nn.LayerNorm(o.hidden)
        self.qkv, self.out = nn.Linear(o.hidden, 3 * o.hidden), nn.Linear(o.hidden, o.hidden)
        self.norm_2 = nn.LayerNorm(o.hidden)
        self.up, self.down = nn.Linear(o.hidden, 4 * o.hidden), nn.Linear(4 * o.hidden, o.hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.places = nn.Embedding(o.vocab, o.hidden), nn.Embedding(o.positions, o.hidden)
        self.blocks = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.hidden)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def flat_order(self):
        """Parameters as planner's flat space has them (planner/stage/layout.hpp): those whose
        gradients are complete first come first; the tied table is the last."""
        order = list(self.norm.parameters())[::-1]
        for block in reversed(self.blocks):
            order += list(block.parameters())[::-1]
        return [*order, self.places.weight, self.tokens.weight]


def run(planner, *words):
    done = subprocess.run([planner, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def first_weights(o, model, plan):
    """Of a run whose step changes nothing: its checkpoint begins with the weights."""
    run(o.planner, "exec", plan, "--data", "corpus", "--steps", "1", "--lr", "0", "--quiet",
        "--checkpoint-dir", "first")
    state = pathlib.Path("first/step-00000001/rank-0000").read_bytes()
    losses = struct.unpack_from("<Q", state, HEADER_BYTES - 8)[0]
    at = HEADER_BYTES + 8 * losses
    with torch.no_grad():
        for parameter in model.flat_order():
            values = torch.frombuffer(bytearray(state[at:at + 4 * parameter.numel()]),
                                      dtype=torch.float32)
            parameter.copy_(values.view(parameter.shape))
            at += 4 * parameter.numel()


def samples(o, corpus, step):
    """The windows of a step's batch: inputs, and the tokens behind them."""
    starts = [below(WINDOW_STREAM, step * o.batch + i, len(corpus) - o.seq) for i in range(o.batch)]
    rows = torch.tensor([list(corpus[s:s + o.seq + 1]) for s in starts])
    return rows[:, :-1], rows[:, 1:]


def rate(o, step):
    if step < o.warmup:
        return o.lr * (step + 1) / o.warmup
    way = min(1.0, (step - o.warmup) / (o.steps - o.warmup))
    return o.lr_end + (o.lr - o.lr_end) * (1 + math.cos(math.pi * way)) / 2


def train(o, model, corpus):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": o.weight_decay},
         {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    scale = LossScale(o.half) if o.half else None
    for step in range(o.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(o, step)
        optimizer.zero_grad()
        if scale:
            loss = scale.backward(model, samples(o, corpus, step))
        else:
            loss = model(*samples(o, corpus, step))
            loss.backward()
        losses.append(loss.item())
        if scale and scale.skips(model):
            continue
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), o.clip).item())
        optimizer.step()
    return losses, norms, scale


class LossScale:
    """fp16 passes over weights in fp32."""

    def __init__(self, scale):
        self.scale, self.skipped = scale, 0

    def backward(self, model, batch):
        half = copy.deepcopy(model).half()
        loss = half(*batch)
        (loss * self.scale).backward()
        for whole, short in zip(model.parameters(), half.parameters()):
            whole.grad = short.grad.float() / self.scale
        return loss

    def skips(self, model):
        if all(torch.isfinite(p.grad).all() for p in model.parameters()):
            return False
        self.skipped += 1
        return True


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("planner")
    for name, default in (("layers", 3), ("hidden", 48), ("heads", 4), ("vocab", 256),
                          ("positions", 32), ("seq", 32), ("batch", 8), ("steps", 50),
                          ("warmup", 5), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    for name, default in (("lr", 3e-3), ("lr-end", 3e-4), ("weight-decay", 0.1), ("clip", 1.0),
                          ("tolerance", 1e-4)):
        parser.add_argument("--" + name, type=float, default=default)
    parser.add_argument("--pins", default="")
    parser.add_argument("--corpus")
    parser.add_argument("--half", type=float)
    return parser.parse_args()


def main():
    o = options()
    torch.set_num_threads(o.threads)
    corpus = pathlib.Path(o.corpus or __file__).read_bytes()
    pathlib.Path("corpus").write_bytes(corpus)
    pathlib.Path("config.json").write_text(json.dumps({
        "model_type": "gpt2", "n_layer": o.layers, "n_embd": o.hidden, "n_head": o.heads,
        "vocab_size": o.vocab, "n_positions": o.positions, "activation_function": "gelu_new"}))
    question = ["--model", "config.json", "--gpu", "h100-sxm-80g", "--seq", str(o.seq),
                "--global-batch", str(o.batch), "--clip", str(o.clip), "--quiet"]
    whole = ["--recipe", "fp32"]
    recipe = ["--recipe", "mixed", "--precision", "fp16", "--loss-scale", str(o.half)]
    recipe = recipe if o.half else whole
    pins = [word for pin in o.pins.split() for word in ("--pin", pin)]
    ranks = math.prod(int(pin.split("=")[1]) for pin in o.pins.split()
                      if pin.split("=")[0] in ("data", "tensor", "pipeline", "context"))
    run(o.planner, *question, *whole, "--gpus", "1", "--out", "one.json")
    run(o.planner, *question, *recipe, *pins, "--gpus", str(ranks), "--out", "plan.json")
    model = Model(o)
    first_weights(o, model, "one.json")
    run(o.planner, "exec", "plan.json", "--data", "corpus", "--steps", str(o.steps), "--quiet",
        "--lr", str(o.lr), "--warmup", str(o.warmup), "--decay", "cosine", "--lr-end",
        str(o.lr_end), "--weight-decay", str(o.weight_decay), "--betas", "0.9,0.95", "--out",
        "run.json")
    record = json.loads(pathlib.Path("run.json").read_text())
    rates = [rate(o, step) for step in range(o.steps)]
    assert all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(record["learning_rate"], rates))
    losses, norms, scale = train(o, model, corpus)
    worst = max((abs(a / b - 1), step) for step, (a, b) in enumerate(zip(record["loss"], losses)))
    clipped = sum(norm > o.clip for norm in norms)
    print(f"{o.pins or 'one rank'}: {o.steps} steps, {clipped} of them clipped, loss "
          f"{losses[0]:.4f} to {losses[-1]:.4f}; the greatest difference is {worst[0]:.2e}, in step "
          f"{worst[1] + 1}")
    if scale:
        found, expected = record["loss_scale"], {"last": scale.scale, "skipped_steps": scale.skipped}
        print(f"a loss scale of {scale.scale:.0f}, {scale.skipped} steps are left out")
        if found != expected:
            print(f"loss_scale: expected {expected}, found {found}")
            return 1
    return 0 if worst[0] <= o.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
