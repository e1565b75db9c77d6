"""GDRCopy and UCX."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from volley.doctor.facts.base import Fact


class Gdrcopy(Fact, frozen=True, kw_only=True):
    """GDRCopy: the device node, the module, the library, and a mapping."""

    node: Annotated[str, Meta(description="/dev/gdrdrv, opened: `ok` or the error.")] = "absent"
    module: str | None = None
    library: Annotated[str | None, Meta(description="version of libgdrapi; null: it does not load.")] = None
    mapped: Annotated[bool | None, Meta(description="GPU memory was mapped, written and read back; null: untried.")] = (
        None
    )
    map_error: str | None = None


class UcxComponent(Fact, frozen=True, kw_only=True):
    """A UCX component (uct_query_components) and how many memory domains it can open here."""

    name: str
    resources: int


class Ucx(Fact, frozen=True, kw_only=True):
    """A UCX library that was loaded."""

    library: str
    source: Annotated[str, Meta(description="`wheel` (libucx-cu13), `mpi` (beside the engine's MPI) or `system`.")]
    version: str
    components: list[UcxComponent] = []


class Transfer(Fact, frozen=True, kw_only=True):
    """A real transfer by ucx_perftest between two processes."""

    memory: Annotated[str, Meta(description="`cuda` or `host`.")]
    status: int
    said: str = ""
