"""Hugging Face's Trainer under Carrel: a callback that has it save when it is time, and end after a
warning.

    #SBATCH --signal=USR1@120
    #SBATCH --requeue
"""

from __future__ import annotations

import sys
from typing import Any

from carrel_checkpoint import Saver, checkpoint_dir, resume_from
from transformers import Trainer, TrainerCallback, TrainingArguments


class CarrelCallback(TrainerCallback):
    """Asks for a checkpoint after a step, where the trainer's own strategy would not."""

    def __init__(self) -> None:
        self.saver = Saver()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.saver.due():
            control.should_save = True
        if self.saver.told_to_stop:
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.saver.saved()


def train(model: Any, data: Any) -> None:
    """Train from the beginning, or from where an earlier attempt was."""
    callback = CarrelCallback()
    arguments = TrainingArguments(
        # Its checkpoints are directories in there: checkpoint-500.
        output_dir=str(checkpoint_dir() or "out"),
        save_strategy="no",
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback])
    found = resume_from()
    trainer.train(resume_from_checkpoint=str(found) if found else None)
    if callback.saver.told_to_stop:
        sys.exit(callback.saver.exit_code)
