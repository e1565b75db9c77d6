"""From a plan to running ranks: allocations, launchers, the engine's process, and tests before it."""
