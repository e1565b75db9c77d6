"""The probes: each tries something and returns what happened.  Nothing here judges."""
