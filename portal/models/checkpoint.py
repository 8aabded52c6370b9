"""What a job saved of itself."""

from __future__ import annotations

from django.db import models


class Checkpoint(models.Model):
    """A file or directory that appeared in a job's checkpoint directory."""

    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.ForeignKey("Attempt", on_delete=models.CASCADE, related_name="checkpoints")
    node = models.ForeignKey("Node", on_delete=models.CASCADE)
    name = models.CharField(max_length=255)
    path = models.TextField()
    step = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField()
    modified_at = models.DateTimeField()
    complete = models.BooleanField(default=False)
    """Closed, left alone, and nothing of it is missing."""
    problem = models.TextField(blank=True, default="")
    """Why it is not whole, as half a sentence, where its node found that out."""
    write_s = models.FloatField(null=True)
    """Seconds that writing it took; None where nobody saw it begin."""

    pinned = models.BooleanField(default=False)
    """Somebody wants it kept, whatever the job says."""

    class Meta:
        ordering = ["-modified_at", "-id"]
        indexes = [
            models.Index(
                fields=["job", "-modified_at"],
                condition=models.Q(complete=True),
                name="checkpoint_to_resume",
            )
        ]
        constraints = [
            models.UniqueConstraint(fields=["job", "node", "path"], name="one_row_per_checkpoint")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def called(self) -> str:
        """`step 500`, or its name where that has no number."""
        return self.name if self.step is None else f"step {self.step}"

    @property
    def cut_off(self) -> bool:
        """Its writer was gone before it was whole: it never becomes complete."""
        if self.complete:
            return False
        ended_at = self.attempt.ended_at
        return self.job.ended or (ended_at is not None and self.modified_at <= ended_at)
