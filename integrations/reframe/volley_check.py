"""ReFrame tests: `reframe --exec-policy=serial -c volley_check.py -r` runs both, one after the other."""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ


def verdicts(text):
    """Return the exit code of a check, and for each finding its verdict, layer and reason."""
    document = json.loads(text)
    return document["exit_code"], [f"{each['verdict']} {each['layer']}: {each['why']}" for each in document["findings"]]


def value(text, size_bytes, column):
    """Return a number of the row of a size, in SI units."""
    rows = [row for series in json.loads(text)["series"] for row in series["data"]]
    return next(row[column] for row in rows if row["size_bytes"] == size_bytes and row["status"] == "ok")


class Volley(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1  # volley starts its ranks itself
    executable = "volley"
    time_limit = "5m"

    @deferrable
    def printed(self):
        return Path(self.stagedir, str(self.stdout)).read_text(encoding="utf-8")


@rfm.simple_test
class VolleyCheck(Volley):
    accepted = variable(typ.List[int], value=[0])  # -S VolleyCheck.accepted=0,4 accepts what is undecided
    executable_opts = ["check", "--format", "json", "--quiet", "-o", "check.jsonl"]

    @sanity_function
    def passed(self):
        code, findings = verdicts(self.printed().evaluate())
        return sn.assert_in(code, self.accepted, "; ".join(findings))


@rfm.simple_test
class VolleyPingPong(Volley):
    executable_opts = ["pingpong", "-t", "host", "-s", "8,1M", "--format", "json", "--quiet", "-o", "pingpong.jsonl"]

    @sanity_function
    def all_right(self):
        return sn.assert_true(value(self.printed().evaluate(), 8, "verified"))

    @performance_function("s")
    def latency_8B(self):
        return value(self.printed().evaluate(), 8, "latency_s")

    @performance_function("B/s")
    def bandwidth_1MiB(self):
        return value(self.printed().evaluate(), 1 << 20, "bandwidth_Bps")
