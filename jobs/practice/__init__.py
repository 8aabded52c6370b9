"""The practice lab: three machines of four GPUs that are not there, over SSH that is.

The SSH, the processes, their output and their checkpoints are real; only the GPUs are simulated,
and each says so in its model's name. `python -m jobs.practice DIR` runs it, all in DIR.
"""
