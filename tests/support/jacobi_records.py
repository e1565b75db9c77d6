"""What tests of jacobi page and others share."""

import msgspec

from example_records import plan, run
from volley.benchmarks.jacobi.records import JacobiParts, JacobiPlan, JacobiPoint, JacobiResidual
from volley.records.record_types import End
from volley.records.run_log import RunLog

PROBLEM = JacobiPlan(grid=[2, 2], domain=[4096, 4096])


def point(**changes: object) -> JacobiPoint:
    parts = JacobiParts(interior_s=2.0, edges_s=0.2, pack_s=0.1, exchange_s=0.1, reduction_s=0.1)
    facts = JacobiPoint(
        transport="host",
        grid=[2, 2],
        domain=[4096, 4096],
        precision="double",
        overlap=True,
        status="ok",
        threads=1,
        iterations=101,
        residuals=[JacobiResidual(iteration=0, residual=0.25), JacobiResidual(iteration=100, residual=0.0023972)],
        batch_iterations=[1, *[10] * 10],
        batch_s=[0.5, *[0.25] * 10],
        cold_exchange_s=1e-4,
        parts=[parts] * 4,
        copy_s=[0.1, 0.2, 0.1],
        copy_bytes=2 * 8 * 8192 * 8192,
        field_hash="0123456789abcdef",
        deviation=0.5,
        messages_timed=808,
        messages_verified=96,
    )
    return msgspec.structs.replace(facts, **changes)


def log(*points: JacobiPoint) -> RunLog:
    the_run = run(plan("jacobi", world_size=4, options=PROBLEM))
    return RunLog(run=the_run, records=list(points), end=End(status="complete", elapsed_s=1.0))
