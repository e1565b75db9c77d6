from ramble.appkit import *


class Volley(ExecutableApplication):
    """Checks a machine or cluster, or measures messages between two ranks, with volley on PATH."""

    name = "volley"

    tags("synthetic-benchmarks")

    # volley starts its ranks itself
    printed = {"use_mpi": False, "redirect": "{experiment_run_dir}/volley.json"}
    executable("check", "volley check --format json --quiet -o check.jsonl {options}", **printed)
    executable("pingpong", "volley pingpong -t host -s 8 --format json --quiet -o pingpong.jsonl {options}", **printed)

    workload("check", executable="check")
    workload("pingpong", executable="pingpong")
    workload_variable("options", default="", description="Options of volley", workloads=["check", "pingpong"])

    # the JSON has at most one of each a line
    output = "{experiment_run_dir}/volley.json"

    figure_of_merit("exit code", fom_regex=r'.*"exit_code": (?P<code>\d+)', group_name="code", log_file=output)
    figure_of_merit("latency", fom_regex=r'.*"latency_s": (?P<t>[-+.e\d]+)', group_name="t", units="s", log_file=output)

    success_criteria("nothing failed", mode="string", match=r'.*("exit_code": [04],|"verified": true)', file=output)
