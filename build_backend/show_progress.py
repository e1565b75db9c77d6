"""Run a build: on a terminal one line shows the step of Ninja that is under way; what the build says goes into a log.

``python show_progress.py LOG COMMAND…`` ends as the command does.  The log is shown if the command fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: How Ninja begins a line: ``[17/62] Building CXX object engine/…/sampler.cpp.o``.
STEP = re.compile(r"\[\d+/\d+\] .*")
EVERY_S = 0.1


def main(log: Path, command: list[str]) -> int:
    shown = sys.stderr.isatty()
    began, last = time.monotonic(), 0.0
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout
    try:
        with log.open("w", encoding="utf-8") as kept:
            for line in process.stdout:
                kept.write(line)
                step = STEP.match(line.strip())
                if shown and step and time.monotonic() > last + EVERY_S:
                    last = time.monotonic()
                    text = f"{last - began:3.0f} s {step[0]}"[: shutil.get_terminal_size().columns - 1]
                    sys.stderr.write(f"\r{text}\x1b[K")
                    sys.stderr.flush()
        code = process.wait()
    except KeyboardInterrupt:  # the build got it, too
        process.wait()
        return 130
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
    if code:
        sys.stderr.write(log.read_text(encoding="utf-8"))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
