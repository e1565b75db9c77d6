"""From a request to a records file: the plan, the launchers, the engine process, the session."""
