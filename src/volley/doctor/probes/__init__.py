"""The probes: each module tries one layer.  They report what happened, and judge nothing."""
