"""The probes: each tries something and returns what happened.  The checks judge it."""
