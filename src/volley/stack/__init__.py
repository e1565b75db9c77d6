"""The software that an engine runs on: the MPI it was linked to, that MPI's mpirun, the CUDA it carries."""

from __future__ import annotations

from volley.stack.assemble import Stack, assemble, has_driver
from volley.stack.facts import BuildFacts, read_facts

__all__ = ["BuildFacts", "Stack", "assemble", "has_driver", "read_facts"]
