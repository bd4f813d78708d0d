"""Pretrains local/chat: processes of one thread each, which add up their gradients once a step.

Processes that wait for each other only once a step lose far less to whatever else runs on the machine than threads that
meet after every operation. A step has two parts, whether one process computes both or two compute one each
(`PROCESSES`, 2 by default). Matrices are trained with Muon, the rest with Adam.

The plan has cycles: in each the rate warms up, stays, and falls to zero over its last steps. A cycle begins with the weights
the one before it ended with, rounded to 16 bits as they are released, and with a fresh optimizer. A cycle's stages begin at
the steps they name, the last one where the rate begins to fall, each with its own text. A run continues from its last
checkpoint; a file `decay` in its directory (a number of steps) makes the current cycle finish early. The state before the rate
fell is kept as `stable.pt`: with more `stable_steps` in the plan than that state has, training goes on from there.

A stage can have two things more. `looks` of a stream names heads, and how much it counts that they look where the text's
`looks` say. `kept` is text whose loss is not what it says next but how far the model's distributions have moved from those it
had when the cycle began.

    python train.py DIRECTORY PLAN.json
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from model import Model, Shape

WORLD = int(os.environ.get("PROCESSES", "2"))
PARTS = 2  # of a step
GIVEN = 0.1  # weight of text that is not the model's own


def orthogonal(g: torch.Tensor) -> torch.Tensor:
    """Newton-Schulz iteration toward the nearest orthogonal matrix, for a stack of wide matrices."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return x


class Optimizer:
    """Muon for the matrices of the layers, each process orthogonalising its part of every stack; Adam for the rest."""

    def __init__(self, model: Model, rank: int, plan: dict):
        self.rank, self.plan = rank, plan
        stacks: dict[tuple, list] = {}
        self.rest = []
        for name, p in model.named_parameters():
            if p.ndim == 2 and "embed" not in name:
                stacks.setdefault(tuple(sorted(p.shape)), []).append(p)
            else:
                self.rest.append(p)
        self.stacks = list(stacks.values())
        self.momentum = [torch.zeros(len(s), *sorted(s[0].shape)) for s in self.stacks]
        self.m = [torch.zeros_like(p) for p in self.rest]
        self.v = [torch.zeros_like(p) for p in self.rest]
        self.steps = 0

    def state(self):
        return {"momentum": self.momentum, "m": self.m, "v": self.v, "steps": self.steps}

    def load(self, state):
        self.momentum, self.m, self.v, self.steps = state["momentum"], state["m"], state["v"], state["steps"]

    @torch.no_grad()
    def step(self, scale: float):
        self.steps += 1
        beta = 0.95
        rate = self.plan["matrix_rate"] * scale
        for stack, buffer in zip(self.stacks, self.momentum):
            wide = [p.shape[0] <= p.shape[1] for p in stack]
            grads = torch.stack([p.grad if w else p.grad.mT for p, w in zip(stack, wide)])
            buffer.lerp_(grads, 1 - beta)
            update = torch.empty_like(grads)
            share = len(stack) // WORLD
            own = slice(self.rank * share, (self.rank + 1) * share if self.rank < WORLD - 1 else len(stack))
            update[own] = orthogonal(grads[own].lerp(buffer[own], beta))
            for r in range(WORLD):
                part = update[r * share : (r + 1) * share if r < WORLD - 1 else len(stack)]
                dist.broadcast(part, r)
            for p, w, u in zip(stack, wide, update):
                u = u if w else u.mT
                p.mul_(1 - rate * self.plan["weight_decay"])
                p.add_(u, alpha=-rate * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)
        rate = self.plan["other_rate"] * scale
        b1, b2 = 0.9, 0.98
        for p, m, v in zip(self.rest, self.m, self.v):
            m.lerp_(p.grad, 1 - b1)
            v.lerp_(p.grad.square(), 1 - b2)
            p.addcdiv_(m / (1 - b1**self.steps), (v / (1 - b2**self.steps)).sqrt().add_(1e-8), value=-rate)


class Rows:
    """Rows of the prepared files, each file shuffled by the seed, one file after the other and then again."""

    def __init__(self, files: list[str], seed: int):
        self.files, self.seed, self.loaded = files, seed, {}

    def order(self, n: int):
        file = self.files[n % len(self.files)]
        if file not in self.loaded:
            self.loaded = {file: dict(np.load(file))}
        data = self.loaded[file]
        return data, np.random.default_rng([self.seed, n]).permutation(len(data["inputs"]))

    def at(self, start: int, count: int):
        """`count` rows from position `start` of the endless sequence."""
        n, left, parts = 0, start, []
        sizes = self.sizes()
        while left >= sizes[n % len(sizes)]:
            left -= sizes[n % len(sizes)]
            n += 1
        while count > 0:
            data, order = self.order(n)
            take = order[left : left + count]
            parts.append({k: data[k][take] for k in data if k != "skills"})
            count -= len(take)
            n, left = n + 1, 0
        return {k: torch.from_numpy(np.concatenate([p[k] for p in parts]).astype(np.int64)) for k in parts[0]}

    def sizes(self):
        if not hasattr(self, "_sizes"):
            self._sizes = [np.load(file, mmap_mode="r")["inputs"].shape[0] for file in self.files]
        return self._sizes


def weight_of(batch, given: float = GIVEN):
    return torch.where(batch["own"] == 1, 1.0, torch.where(batch["own"] == 0, given, 0.0)).flatten()


def loss_of(forward, batch, stream: dict):
    """What the text says next and, for a stream with `looks`, where its heads should look for it."""
    shown = stream.get("looks")
    documents = batch["document"] if stream.get("masked", True) else None
    logits, looks = forward(batch["inputs"], documents, shown["heads"]) if shown else (forward(batch["inputs"], documents), [])
    weight = weight_of(batch, stream.get("given", GIVEN))
    each = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), reduction="none")
    loss = (each * weight).sum() / weight.sum()
    for i, look in enumerate(looks):
        to = batch["looks"][:, i]
        there = look.gather(-1, to.clamp(min=0)[..., None])[..., 0]
        loss = loss - shown["weight"] * there[to >= 0].mean()
    return loss


def change_of(forward, before: Model, batch):
    """How far what the model says is from what it said before: the divergence of its distributions from those."""
    with torch.no_grad():
        said = before(batch["inputs"], batch["document"]).log_softmax(-1)
    says = forward(batch["inputs"], batch["document"]).log_softmax(-1)
    weight = weight_of(batch)
    each = F.kl_div(says, said, log_target=True, reduction="none").sum(-1).flatten()
    return (each * weight).sum() / weight.sum()


def turn(streams: list, step: int) -> dict:
    """The stream of a step: the first, or one of the others, which have rows of another length, in their share of the steps."""
    stream, *others = streams
    for other in others:
        if int((step + 1) * other["share"]) > int(step * other["share"]):
            stream = other
    return stream


@torch.no_grad()
def accuracy(model: Model, data: dict) -> dict[str, tuple[int, int]]:
    """Per skill: answers whose every token is the likeliest one, which is when greedy decoding gives them exactly."""
    model.eval()
    right = []
    for at in range(0, len(data["inputs"]), 16):
        rows = {k: torch.from_numpy(data[k][at : at + 16].astype(np.int64)) for k in ("inputs", "targets", "own", "document")}
        best = model(rows["inputs"], rows["document"]).argmax(-1)
        right.append(((best == rows["targets"]) | (rows["own"] != 1)).numpy())
    model.train()
    right = np.concatenate(right)
    result: dict[str, list[int]] = {}
    for entry in data["skills"]:
        r, d, skill = str(entry).split(" ")
        here = data["document"][int(r)] == int(d)
        count = result.setdefault(skill, [0, 0])
        count[0] += bool(right[int(r)][here].all())
        count[1] += 1
    return {skill: tuple(count) for skill, count in sorted(result.items())}


def run(rank: int, directory: Path, plan: dict):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=rank, world_size=WORLD)
    torch.manual_seed(plan["seed"])
    model = Model(Shape(**plan.get("shape", {})))
    optimizer = Optimizer(model, rank, plan)
    checkpoint, log = directory / "checkpoint.pt", directory / "log.jsonl"
    cycles = plan["cycles"]
    fresh = {"rows": {}, "decay_from": None, "decay": None}
    state = {"cycle": 0, "begin": 0, "step": 0, "tokens": 0, "seconds": 0.0, **fresh}
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        at, stable = saved["state"], directory / "stable.pt"
        if at["decay_from"] is not None and at["decay_from"] < cycles[at["cycle"]]["stable_steps"] and stable.exists():
            saved = torch.load(stable)
        model.load_state_dict(saved["model"])
        # The end of a cycle keeps no state of its optimizer.
        if saved["optimizer"] is not None:
            optimizer.load(saved["optimizer"])
        state = saved["state"]
        if rank == 0 and log.exists():
            # What was logged after the state that is continued from belongs to another run.
            kept = [line for line in log.read_text().splitlines() if json.loads(line)["step"] <= state["step"]]
            log.write_text("".join(f"{line}\n" for line in kept))
    elif rank == 0:
        log.unlink(missing_ok=True)
    forward = torch.compile(model, dynamic=False) if plan.get("compile", True) else model
    sources = {
        s["name"]: Rows([str(directory / f"{s['name']}-{i + 1}.npz") for i in range(s["files"])], plan["seed"])
        for cycle in cycles
        for stage in cycle["stages"]
        for s in stage["streams"] + stage.get("kept", {"streams": []})["streams"]
    }
    dev = dict(np.load(directory / "dev.npz"))
    parameters = list(model.parameters())
    last, losses = time.time(), []

    def save(target: Path = checkpoint, finished: bool = False):
        if rank == 0:
            kept = None if finished else optimizer.state()
            torch.save({"model": model.state_dict(), "optimizer": kept, "state": state}, directory / "new.pt")
            (directory / "new.pt").rename(target)

    # What the weights were when the cycle began, for the stages that keep what they could do.
    before = Model(Shape(**plan.get("shape", {}))).eval()
    begin = directory / "begin.pt"
    if state["step"] == state["begin"] or not begin.exists():
        if rank == 0:
            torch.save(model.state_dict(), begin)
        before.load_state_dict(model.state_dict())
    else:
        before.load_state_dict(torch.load(begin))

    def report(entry: dict):
        if rank == 0:
            print(json.dumps(entry), flush=True)
            with log.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    while True:
        step, cycle = state["step"], cycles[state["cycle"]]
        # Every process must read the same file in the same step.
        if step % 10 == 0 and state["decay_from"] is None:
            wish = torch.zeros(1)
            if rank == 0:
                asked = directory / "decay"
                if asked.exists():
                    wish[0] = int(asked.read_text())
                    asked.unlink()
                elif step >= cycle["stable_steps"]:
                    wish[0] = cycle["decay_steps"]
            dist.broadcast(wish, 0)
            if wish.item() > 0:
                save(directory / "stable.pt")
                state["decay_from"], state["decay"] = step, int(wish.item())
                save()
        scale = cycle.get("scale", 1.0) * min(1.0, (step - state["begin"] + 1) / cycle["warmup_steps"])
        if state["decay_from"] is not None:
            progress = (step - state["decay_from"]) / state["decay"]
            if progress >= 1:
                if state["cycle"] == len(cycles) - 1:
                    break
                with torch.no_grad():
                    for p in parameters:
                        p.copy_(p.to(torch.float16))
                optimizer = Optimizer(model, rank, plan)
                state |= {"cycle": state["cycle"] + 1, "begin": step, **fresh, "rows": {}}
                before.load_state_dict(model.state_dict())
                if rank == 0:
                    torch.save(model.state_dict(), begin)
                save(finished=True)
                continue
            scale *= 1 - progress
        begun = [
            stage
            for stage in cycle["stages"]
            if (state["decay_from"] is not None if stage["from"] == "decay" else stage["from"] <= step)
        ]
        # A stage that keeps what was there gives the second part of every step to that.
        stream, kept = turn(begun[-1]["streams"], step), begun[-1].get("kept")
        parts = [stream] * PARTS if kept is None else [stream, turn(kept["streams"], step)]
        starts = [state["rows"].get(s["name"], 0) + (p * s["batch"] if kept is None else 0) for p, s in enumerate(parts)]
        total = 0.0
        for part in range(rank, PARTS, WORLD):
            stream = parts[part]
            batch = sources[stream["name"]].at(starts[part], stream["batch"])
            using = forward if stream.get("compiled", True) else model
            if kept is None or part == 0:
                loss = loss_of(using, batch, stream)
            else:
                loss = kept["weight"] * change_of(using, before, batch)
            loss.backward()
            total += loss.detach()
        flat = torch.cat([p.grad.flatten() for p in parameters] + [total.view(1)])
        dist.all_reduce(flat)
        flat /= PARTS
        offset = 0
        norm = flat[:-1].norm()
        flat[:-1] *= min(1.0, 1.0 / (norm.item() + 1e-6))
        for p in parameters:
            p.grad = flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        optimizer.step(scale)
        for p in parameters:
            p.grad = None
        losses.append(flat[-1].item())
        now = time.time()
        state["step"] += 1
        for stream in parts:
            state["rows"][stream["name"]] = state["rows"].get(stream["name"], 0) + stream["batch"]
            state["tokens"] += stream["batch"] * stream["length"]
        state["seconds"] += now - last
        last = now
        if state["step"] % 25 == 0:
            entry = {"step": state["step"], "tokens": state["tokens"], "seconds": round(state["seconds"], 1)}
            report({**entry, "loss": round(float(np.mean(losses)), 4), "scale": round(scale, 3)})
            losses.clear()
        if state["step"] % plan["save_every"] == 0:
            save()
        if rank == 0 and state["step"] % plan["test_every"] == 0:
            counts = accuracy(model, dev)
            report({"step": state["step"], "accuracy": {k: round(a / b, 2) for k, (a, b) in counts.items()}})
    save()
    dist.barrier()


def main() -> None:
    directory, plan = Path(sys.argv[1]).resolve(), json.loads(Path(sys.argv[2]).read_text())
    (directory / "rendezvous").unlink(missing_ok=True)
    # Forked, so that the processes keep the command line they can be recognised by.
    mp.start_processes(run, (directory, plan), WORLD, start_method="fork")


if __name__ == "__main__":
    main()
