"""What a run's minder is given by the launch, and its way back to the launcher."""

import os

from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .lease import Term


class Beginning:
    """A run that is to begin: what to run, in which environment, and a line back.

    `null` is /dev/null, open. On the line, one short message tells that the run has started;
    the end of all lines, that all has been said.
    """

    def __init__(
        self, run: Run, spec: "dict[str, Any]", inherited: "dict[bytes, bytes]", null: int
    ) -> None:
        self.run = run
        self.spec = spec
        self.inherited = inherited
        self.null = null
        self.term: "Term | None" = None
        """The lease's, where it is to be fenced; known before it is looked whether it may begin."""
        self._line = -1
        self._index = -1

    def answers_on(self, line: int, index: int) -> None:
        """Where to tell, and as which of the launches."""
        self._line = line
        self._index = index

    def tell(self, started_at: float) -> None:
        """Tell when it started."""
        try:
            os.write(self._line, ("%d %r\n" % (self._index, started_at)).encode("ascii"))
        except OSError:
            pass  # The launcher has gone; the state files tell the same.

    def hang_up(self) -> None:
        """Nothing more will be said."""
        os.close(self._line)
