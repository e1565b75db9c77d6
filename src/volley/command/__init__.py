"""From a dataclass of options to a command: its line, help, completion and values."""
