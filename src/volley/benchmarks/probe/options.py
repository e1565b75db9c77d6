"""The options of ``volley transports``."""

from __future__ import annotations

from dataclasses import dataclass

from volley.run.commandline import Options, group
from volley.run.options import JobOptions, OutputOptions, output_group


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(Options):
    """The options of ``volley transports``."""

    job: JobOptions = group(JobOptions, without=("launches",))
    output: OutputOptions = output_group()
