"""What tests of faults and others share."""

DATA = ("flip", "early", "late", "lose", "swap", "echo")
"""Faults that change what arrives: every point fails. `wrap` needs a long pass of short messages: see
engine/tests/host_sampler.cpp."""
