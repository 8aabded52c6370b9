"""The way back from a minder to its launcher, while that waits."""

import os


class Line:
    """One short line tells that a run has started; the end of all lines, that all is said."""

    def __init__(self, fd: int, index: int) -> None:
        self.fd = fd
        self.index = index

    def tell(self, started_at: float) -> None:
        """Tell when it started."""
        try:
            os.write(self.fd, ("%d %r\n" % (self.index, started_at)).encode("ascii"))
        except OSError:
            pass  # The launcher has gone; the state files tell the same.

    def hang_up(self) -> None:
        """Nothing more will be said."""
        os.close(self.fd)
