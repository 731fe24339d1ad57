"""A training step of GPT-2 by PyTorch on the processor, for comparison with `planner exec`.

usage: pytorch_step.py [--layers 12 --hidden 768 --heads 12 --vocab 50257] --seq N --batch N
                       [--threads 1] [--steps 5] [--compile]

Prints the seconds of each step after the first two, one a line. The model is the one that `planner`
calls gpt2-124m: learned positions, tied embeddings, GELU (tanh), no dropout; fp32, AdamW with
PyTorch's fused kernel, random tokens. PyTorch is needed for this comparison alone."""

import argparse
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

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
        self.tokens, self.places = nn.Embedding(o.vocab, o.hidden), nn.Embedding(o.seq, o.hidden)
        self.blocks = nn.Sequential(*(Block(o.hidden, o.heads) for _ in range(o.layers)))
        self.norm = nn.LayerNorm(o.hidden)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257),
                          ("seq", 256), ("batch", 4), ("threads", 1), ("steps", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    model = Model(o)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model) if o.compile else model
    for step in range(2 + o.steps):
        tokens = torch.randint(0, o.vocab, (o.batch, o.seq + 1))
        began = time.perf_counter()
        loss_of(tokens[:, :-1], tokens[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if step >= 2:
            print(f"{time.perf_counter() - began:.4f}", flush=True)


if __name__ == "__main__":
    main()
