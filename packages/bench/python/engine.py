"""The models of the embedded backend in PyTorch, on the CPU.

The measurements of a model and the batch come as JSON in the first argument, the number of threads in the second.
A line `train`, `sample` or `peak` in, a line with the milliseconds by the clock out; for `peak` it is GFLOP/s.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F

setup = json.loads(sys.argv[1])
torch.set_num_threads(int(sys.argv[2]))
torch.manual_seed(1)

WIDTH, LAYERS, HEADS, HIDDEN = setup["width"], setup["layers"], setup["heads"], setup["hidden"]
VOCABULARY, RANK, BATCH, LENGTH = setup["vocabulary"], setup["rank"], setup["batch"], setup["length"]
SAMPLES, SAMPLED = setup["samples"], setup["sampled"]
HEAD = WIDTH // HEADS
SCALE = setup["alpha"] / math.sqrt(RANK)


def frozen(inputs, outputs):
    return torch.randn(outputs, inputs) / math.sqrt(inputs)


class Linear:
    """A frozen matrix over one input and the factors of its parts; the factors A are one matrix."""

    def __init__(self, inputs, outputs, parts=1):
        self.weight = frozen(inputs, outputs * parts)
        self.parts = parts
        self.a = torch.nn.Parameter(frozen(inputs, RANK * parts))
        self.b = torch.nn.Parameter(torch.zeros(parts, RANK, outputs))

    def __call__(self, x, tuned=True):
        y = F.linear(x, self.weight)
        if not tuned:
            return y
        z = F.linear(x, self.a)
        if self.parts == 1:
            return torch.addmm(y, z, self.b[0], alpha=SCALE)
        low = z.view(-1, self.parts, RANK).transpose(0, 1)
        return y + SCALE * torch.bmm(low, self.b).transpose(0, 1).reshape(y.shape)


BLOCKS = [
    (Linear(WIDTH, WIDTH, 3), Linear(WIDTH, WIDTH), Linear(WIDTH, HIDDEN), Linear(HIDDEN, WIDTH))
    for _ in range(LAYERS)
]
UNEMBED = Linear(WIDTH, VOCABULARY)
EMBEDDING = torch.randn(VOCABULARY, WIDTH)
PRIOR = torch.randn(VOCABULARY, VOCABULARY)
PARAMETERS = [factor for linear in [one for block in BLOCKS for one in block] + [UNEMBED] for factor in (linear.a, linear.b)]

angles = torch.outer(torch.arange(1024.0), 10000 ** (-torch.arange(0, HEAD, 2) / HEAD))
COSINE, SINE = angles.cos(), angles.sin()


def normalized(x):
    return F.rms_norm(x, (WIDTH,), eps=1e-5)


def rotated(x, first):
    left, right = x.chunk(2, dim=-1)
    cosine, sine = COSINE[first : first + x.shape[-2]], SINE[first : first + x.shape[-2]]
    return torch.cat((left * cosine - right * sine, left * sine + right * cosine), dim=-1)


def heads(qkv, batch, length):
    return qkv.view(batch, length, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)


tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
optimizer = torch.optim.AdamW(PARAMETERS, lr=1e-4, betas=(0.9, 0.95), eps=1e-12, weight_decay=0, fused=True)


def train():
    inputs, targets = tokens[:, :-1].reshape(-1), tokens[:, 1:].reshape(-1)
    x = EMBEDDING[inputs]
    for qkv, out, up, down in BLOCKS:
        q, k, v = heads(qkv(normalized(x)), BATCH, LENGTH)
        attended = F.scaled_dot_product_attention(rotated(q, 0), rotated(k, 0), v, is_causal=True)
        x = x + out(attended.transpose(1, 2).reshape(-1, WIDTH))
        x = x + down(F.relu(up(normalized(x))).square())
    logits = UNEMBED(normalized(x)) + PRIOR[inputs]
    loss = F.cross_entropy(logits, targets, reduction="sum")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@torch.inference_mode()
def sample():
    caches = [torch.zeros(2, SAMPLES, HEADS, SAMPLED, HEAD) for _ in BLOCKS]
    last = torch.full((SAMPLES,), 97)
    for position in range(SAMPLED):
        x = EMBEDDING[last]
        for (qkv, out, up, down), cache in zip(BLOCKS, caches):
            q, k, v = heads(qkv(normalized(x), tuned=False), SAMPLES, 1)
            cache[0, :, :, position : position + 1] = rotated(k, position)
            cache[1, :, :, position : position + 1] = v
            keys, values = cache[:, :, :, : position + 1]
            attended = F.scaled_dot_product_attention(rotated(q, position), keys, values)
            x = x + out(attended.reshape(-1, WIDTH), tuned=False)
            x = x + down(F.relu(up(normalized(x), tuned=False)).square(), tuned=False)
        logprobs = F.log_softmax(UNEMBED(normalized(x), tuned=False) + PRIOR[last], dim=-1)
        last = torch.multinomial(logprobs.exp(), 1)[:, 0]
    return last


def peak():
    """The fastest of a few large products, which is as close to the processor's limit as a program comes."""
    size = 1024
    left, right = torch.randn(size, size), torch.randn(size, size)
    best = math.inf
    for _ in range(10):
        begin = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best / 1e9


for line in sys.stdin:
    command = line.strip()
    if command == "peak":
        print(peak(), flush=True)
        continue
    begin = time.perf_counter()
    {"train": train, "sample": sample}[command]()
    print((time.perf_counter() - begin) * 1000, flush=True)
