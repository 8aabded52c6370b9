#!/usr/bin/env python3
"""Trains a small network to tell three spirals apart: the practice lab's sample job.

It does what a training script should do under Carrel: it writes checkpoints whole or not at all
into $CARREL_CHECKPOINT_DIR, goes on from $CARREL_RESUME_FROM (a checkpoint, or a directory of
them), and on SIGTERM or SIGUSR1 writes one more before it ends with 128 + the signal's number.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

# The model is tiny: threads would only warm the machine that also runs the portal.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

CLASSES = 3
HIDDEN = 64
BATCH = 1024
STEPS_PER_EPOCH = 80
EPOCHS_PER_CHECKPOINT = 5
RATE = 0.001
NAME = re.compile(r"checkpoint-step-(\d+)\.npz\Z")

received: list[int] = []

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]
State = dict[str, NDArray[Any]]


def spirals(random: np.random.Generator, points: int = 1000) -> tuple[Floats, Labels]:
    """Points (n, 2) and their class 0..2 (n,), on three noisy arms."""
    radius = np.tile(np.linspace(0.05, 1, points), CLASSES)
    label = np.repeat(np.arange(CLASSES), points)
    angle = 9 * radius + label * 2 * np.pi / CLASSES + random.normal(0, 0.3, radius.size)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1), label


def fresh_state(random: np.random.Generator) -> State:
    """Weights with Adam's two moments, and how far the training is."""
    sizes = [2, HIDDEN, HIDDEN, CLASSES]
    state: State = {"step": np.array(0), "epoch": np.array(0)}
    for layer, (rows, columns) in enumerate(pairwise(sizes)):
        state[f"w{layer}"] = random.normal(0, np.sqrt(2 / rows), (rows, columns))
        state[f"b{layer}"] = np.zeros(columns)
    for name in [name for name in state if name[0] in "wb"]:
        state[f"m.{name}"] = np.zeros_like(state[name])
        state[f"v.{name}"] = np.zeros_like(state[name])
    return state


def forward(state: State, points: Floats) -> tuple[list[Floats], Floats]:
    """The activations of every layer, and the class probabilities."""
    layers = [points]
    for layer in range(2):
        layers.append(np.maximum(0, layers[-1] @ state[f"w{layer}"] + state[f"b{layer}"]))
    scores = layers[-1] @ state["w2"] + state["b2"]
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    return layers, likely / likely.sum(axis=1, keepdims=True)


def train_step(state: State, points: Floats, label: Labels) -> float:
    """One step of Adam; returns the loss before it."""
    layers, likely = forward(state, points)
    rows = np.arange(len(label))
    loss = -np.log(likely[rows, label] + 1e-12).mean()
    error = likely.copy()
    error[rows, label] -= 1
    error /= len(label)
    state["step"] = state["step"] + 1
    for layer in (2, 1, 0):
        slopes = {f"w{layer}": layers[layer].T @ error, f"b{layer}": error.sum(axis=0)}
        if layer:
            error = (error @ state[f"w{layer}"].T) * (layers[layer] > 0)
        for name, slope in slopes.items():
            adam(state, name, slope)
    return float(loss)


def adam(state: State, name: str, slope: Floats) -> None:
    state[f"m.{name}"] = 0.9 * state[f"m.{name}"] + 0.1 * slope
    state[f"v.{name}"] = 0.999 * state[f"v.{name}"] + 0.001 * slope**2
    step = int(state["step"])
    mean = state[f"m.{name}"] / (1 - 0.9**step)
    spread = np.sqrt(state[f"v.{name}"] / (1 - 0.999**step))
    state[name] = state[name] - RATE * mean / (spread + 1e-8)


def save(state: State, directory: Path | None) -> None:
    """Write under a temporary name, then rename: nobody ever sees half of a checkpoint, also where
    ranks on several nodes write the same one."""
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"checkpoint-step-{int(state['step']):06d}.npz"
    fresh = path.with_name(f".{path.name}.{os.environ.get('SLURM_PROCID', '0')}.tmp")
    with fresh.open("wb") as handle:
        arrays: Any = state
        np.savez(handle, **arrays)
        handle.flush()
        os.fsync(handle.fileno())
    fresh.replace(path)
    print(f"checkpoint {path.name}", flush=True)


def load(source: Path) -> State:
    """The state in a checkpoint, or in the furthest one of a directory."""
    if source.is_dir():
        named = [(NAME.search(path.name), path) for path in source.iterdir()]
        steps = [(int(match.group(1)), path) for match, path in named if match]
        if not steps:
            sys.exit(f"{source}: no checkpoint-step-NUMBER.npz in there to continue from")
        source = max(steps)[1]
    with np.load(source) as kept:
        print(f"continuing from {source} at step {int(kept['step'])}", flush=True)
        return dict(kept)


def run_epoch(state: State, random: np.random.Generator, data: tuple[Floats, Labels]) -> float:
    """Train for one epoch, or until a signal came; returns the mean loss."""
    points, label = data
    losses = []
    for _ in range(STEPS_PER_EPOCH):
        chosen = random.integers(0, len(label), BATCH)
        losses.append(train_step(state, points[chosen], label[chosen]))
        if received:
            break
    return float(np.mean(losses))


def rest_until(moment: float) -> None:
    """Idle away the rest of an epoch's share of time; a signal ends the rest."""
    while not received and (left := moment - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


def train(state: State, epochs: int, seconds: float, directory: Path | None) -> None:
    random = np.random.default_rng(7)
    data = spirals(random)
    todo = range(int(state["epoch"]), epochs)
    began = time.monotonic()
    for done, epoch in enumerate(todo, start=1):
        loss = run_epoch(state, random, data)
        right = (forward(state, data[0])[1].argmax(axis=1) == data[1]).mean()
        if received:
            break
        state["epoch"] = np.array(epoch + 1)
        print(
            f"epoch {epoch + 1:3d}/{epochs}  step {int(state['step']):5d}  "
            f"loss {loss:.4f}  accuracy {right:.3f}",
            flush=True,
        )
        if (epoch + 1) % EPOCHS_PER_CHECKPOINT == 0:
            save(state, directory)
        rest_until(began + seconds * done / epochs)
        if received:
            break


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network")
    parser.add_argument("--seconds", type=float, default=60, help="how long it takes in all")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: received.append(number))
    print("GPUs:", os.environ.get("CUDA_VISIBLE_DEVICES") or "none", flush=True)
    place, resume = os.environ.get("CARREL_CHECKPOINT_DIR"), os.environ.get("CARREL_RESUME_FROM")
    directory = Path(place) if place else None
    state = load(Path(resume)) if resume else fresh_state(np.random.default_rng(11))
    train(state, options.epochs, options.seconds, directory)
    if not received:
        print("finished", flush=True)
        return 0
    save(state, directory)
    print(f"stopped by {signal.Signals(received[0]).name} at step {int(state['step'])}", flush=True)
    return 128 + received[0]


if __name__ == "__main__":
    sys.exit(main())
