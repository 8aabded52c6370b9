"""A training loop in plain PyTorch that saves itself under Carrel and goes on where it was.

#SBATCH --gpus=1
#SBATCH --signal=USR1@120
#SBATCH --requeue
exec python plain_pytorch.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from carrel_checkpoint import Saver, resume_from
from torch import nn

STEPS = 100_000


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saver, first = Saver(), 0
    if found := resume_from():
        state = torch.load(found / "state.pt", map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1

    for step in range(first, STEPS):
        data = torch.randn(512, 32, device=device)
        loss = (model(data).squeeze(1) - data.sum(dim=1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if saver.due():
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
            }

            def write(directory: Path, state: dict[str, object] = state) -> None:
                torch.save(state, directory / "state.pt")

            saver.save(step, write)
            print(f"step {step}: saved, loss {loss.item():.4f}", flush=True)
        if saver.told_to_stop:
            sys.exit(saver.exit_code)


if __name__ == "__main__":
    main()
