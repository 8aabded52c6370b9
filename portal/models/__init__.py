"""The tables. The database is the truth; everything else is a hint."""

from portal.models.allocation import Allocation, Attempt, Lease
from portal.models.checkpoint import Checkpoint
from portal.models.event import Event
from portal.models.finding import Checkup, Finding
from portal.models.job import Job, Move, Script, move_all
from portal.models.ledger import Accounting, Charge, DailyUsage, GpuModel, UsageBalance
from portal.models.node import Gpu, Node, Partition
from portal.models.people import Membership, Project, SignInLink, User
from portal.models.policy import SchedulingPolicy
from portal.models.prepared import Prepared, PreparedFor
from portal.models.quota import Quota
from portal.models.reservation import Reservation
from portal.models.rows import insert_all, update_each
from portal.models.what_if import WhatIf

__all__ = [
    "Accounting",
    "Allocation",
    "Attempt",
    "Charge",
    "Checkpoint",
    "Checkup",
    "DailyUsage",
    "Event",
    "Finding",
    "Gpu",
    "GpuModel",
    "Job",
    "Lease",
    "Membership",
    "Move",
    "Node",
    "Partition",
    "Prepared",
    "PreparedFor",
    "Project",
    "Quota",
    "Reservation",
    "SchedulingPolicy",
    "Script",
    "SignInLink",
    "UsageBalance",
    "User",
    "WhatIf",
    "insert_all",
    "move_all",
    "update_each",
]
