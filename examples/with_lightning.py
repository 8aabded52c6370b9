"""Lightning under Carrel: a callback that saves when it is time, and ends after a warning.

    #SBATCH --signal=USR1@120
    #SBATCH --requeue

Give the callback and the plugin to your trainer. Without the plugin Lightning takes the signal for
Slurm's, and calls `scontrol`, which is not there.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import lightning as pl
from carrel_checkpoint import Saver, resume_from
from lightning.pytorch.plugins.environments import SLURMEnvironment


class CarrelCheckpoint(pl.Callback):
    """All ranks save together: rank 0 says when."""

    def __init__(self) -> None:
        self.saver = Saver(signals=(signal.SIGUSR1,))

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        stop, due = trainer.strategy.broadcast((self.saver.told_to_stop, self.saver.due()))
        if due:
            path = self.saver.directory / f"step-{trainer.global_step}.ckpt"
            trainer.save_checkpoint(path)
            self.saver.saved()
        if stop:
            self.saver.told_to_stop = stop
            trainer.should_stop = True


def fit(model: pl.LightningModule, data: pl.LightningDataModule) -> None:
    """Train from the beginning, or from where an earlier attempt was."""
    callback = CarrelCheckpoint()
    trainer = pl.Trainer(
        max_epochs=100,
        callbacks=[callback],
        plugins=[SLURMEnvironment(auto_requeue=False)],
        enable_checkpointing=False,
    )
    found = resume_from()
    trainer.fit(model, data, ckpt_path=str(found) if found else None)
    if callback.saver.told_to_stop:
        sys.exit(callback.saver.exit_code)
