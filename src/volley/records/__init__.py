"""The seam between engine and front: one plan goes down, records come up.

These types are the single truth.  ``schema/*.json`` and ``docs/records.md`` are generated from
them, and the golden examples in ``schema/examples/`` are read by the tests of both sides.
Every quantity is in SI units and carries its unit in its name (``_s`` seconds, ``_bytes`` bytes).
A number that does not exist is ``null``, never NaN.
"""

from __future__ import annotations

from volley.document import PLAN_VERSION, RECORD_VERSION
from volley.machine.hardware import Gpu, Hardware, NvLink, PeerStatus
from volley.records.jacobi import JacobiParts, JacobiPoint, JacobiProgress, JacobiResidue
from volley.records.matrix import Cell, MatrixRow
from volley.records.node import NodeCell, NodeGpus, NodeRow
from volley.records.plan import Jacobi, Matrix, Node, Plan, Sampling, Stream
from volley.records.points import EndedBy, Mismatch, PingPong, Status, StreamPoint
from volley.records.run import Clock, Device, End, EngineFacts, MpiFacts, Rank, Run, Transport

Record = (
    Run
    | Transport
    | PingPong
    | StreamPoint
    | MatrixRow
    | NodeGpus
    | NodeRow
    | JacobiPoint
    | JacobiProgress
    | End
    | Hardware
)
Point = PingPong | StreamPoint

__all__ = [
    "PLAN_VERSION",
    "RECORD_VERSION",
    "Cell",
    "Clock",
    "Device",
    "End",
    "EndedBy",
    "EngineFacts",
    "Gpu",
    "Hardware",
    "Jacobi",
    "JacobiParts",
    "JacobiPoint",
    "JacobiProgress",
    "JacobiResidue",
    "Matrix",
    "MatrixRow",
    "Mismatch",
    "MpiFacts",
    "Node",
    "NodeCell",
    "NodeGpus",
    "NodeRow",
    "NvLink",
    "PeerStatus",
    "PingPong",
    "Plan",
    "Point",
    "Rank",
    "Record",
    "Run",
    "Sampling",
    "Status",
    "Stream",
    "StreamPoint",
    "Transport",
]
