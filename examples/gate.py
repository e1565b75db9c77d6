"""A gate for a job of one's own: start only where two ranks exchange messages as fast as the job needs.

    python examples/gate.py 5 1      at most 5 µs for 8 B, at least 1 GB/s for 1 MiB, in each of six launches

Exit code 0: start; 1: too slow, or data was wrong or is missing; 3: nothing could be measured.
"""

import sys

import volley
from volley.errors import UserError

SHORT, LONG, LAUNCHES = 8, 1 << 20, 6


def main(most_us: float, least_gbps: float) -> int:
    """Measure, print each launch that is too slow, and return the exit code."""
    try:
        run = volley.measure("pingpong", transport="host", sizes=[SHORT, LONG], launches=LAUNCHES)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    points = run.points if isinstance(run.points, list) else run.points.to_dict("records")
    good = [point for point in points if point["status"] == "ok" and point["verified"]]
    slow = [point for point in good if point["size_bytes"] == SHORT and point["latency_s"] > most_us * 1e-6]
    slow += [point for point in good if point["size_bytes"] == LONG and point["bandwidth_Bps"] < least_gbps * 1e9]
    for point in slow:
        print("launch {launch}: {size_bytes} B in {latency_s:.2e} s".format(**point))
    missing = 2 * LAUNCHES - len(good)  # what is missing never passes
    print(f"{len(good)} points measured, {len(slow)} too slow, {missing} wrong or missing")
    return int(bool(slow or missing))


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:3])))
