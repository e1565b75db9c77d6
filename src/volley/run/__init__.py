"""The session: one command that measures, from its jobs to the screen."""
