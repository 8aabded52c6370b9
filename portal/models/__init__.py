"""The tables. The database is the truth; everything else is a hint."""

from portal.models.checkpoint import Checkpoint
from portal.models.event import Event
from portal.models.job import Allocation, Attempt, Job, Lease, Move, Script, move_all
from portal.models.node import Gpu, Node, Partition
from portal.models.people import Membership, Project, SignInLink, User
from portal.models.rows import update_each

__all__ = [
    "Allocation",
    "Attempt",
    "Checkpoint",
    "Event",
    "Gpu",
    "Job",
    "Lease",
    "Membership",
    "Move",
    "Node",
    "Partition",
    "Project",
    "Script",
    "SignInLink",
    "User",
    "move_all",
    "update_each",
]
