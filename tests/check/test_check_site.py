"""What a site knows of its nodes: limits that were learned, and an inventory."""

import random
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from node_limits import THIS, good_checks
from volley.check import COMMAND, cluster, inventory, limits
from volley.check.findings import Again
from volley.check.inventory import Inventory, Seen, wrong
from volley.check.limits import Limits
from volley.errors import UserError

AGAIN = Again()


def test_limits_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    with pytest.raises(UserError, match="--learn makes one"):
        limits.read_limits(file)
    dice = random.Random(1)
    for number in range(1, limits.FEWEST + 1):
        said = limits.learn(file, f"cn{number}", THIS, {"pingpong: host, 8 B": [dice.gauss(1e-6, 1e-8)]})
    assert "5 checks of 5 nodes" in said
    assert "they find what is slower by" in said
    known = limits.read_limits(file)
    name = "pingpong: host, 8 B"
    limit = limits.limit_s(known.of(THIS).of_nodes(name, "")[0], 1)
    assert 1e-6 < limit[0] < 1.2e-6
    assert known.of(msgspec.structs.replace(THIS, gpus=("H100",))).of_nodes(name, "") == ([], False)


@pytest.mark.parametrize("bad", [1.3, 3.0, 100.0])
def test_one_bad_check_of_five_changes_a_limit_little(bad: float) -> None:
    good = [1.0, 1.01, 0.99, 1.005]
    with_bad, without = (limits.limit_s([[*good, last]], 1) for last in (bad, 1.0))
    assert with_bad[0] < 1.05 * without[0]


def test_a_limit_far_above_the_usual_judges_nothing() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": each}) for each in (1.0, 2.0, 5.0, 9.0, 300.0)]
    found = limits.Site(Limits(checks=checks), 1, AGAIN, "a").judge("all", {"x": [1.0]})
    assert found.status == "UNDECIDED"
    assert re.search(r"x \(\d{4,} times the usual\)$", found.said), found.said
    again = Again(COMMAND.parse(["--expect", "a/my limits.json", "--learn"]).typed)
    assert limits.Site(Limits(checks=checks), 1, again, "a").judge("all", {"x": [1.0]}).remedy == (
        "on nodes where nothing else runs, into a new file: volley check --expect 'a/my limits-new.json' --learn"
    )


def test_what_limits_find_and_how_many_times_they_do_not_judge() -> None:
    alike, apart = [1.0, 1.01, 0.99, 1.0, 1.01], [1.0, 2.0, 5.0, 9.0, 300.0]
    found, wide = r"they find what is slower by \d+ %", "because the checks differ too much"
    for known, said in (
        ({"x": alike, "y": alike}, found),
        ({"x": alike, "y": apart}, f"{found}, and do not judge 1 of 2 times, {wide}"),
        ({"y": apart}, rf"they judge none of 2 times, {wide} \(1 time\) and because they are fewer than 5 \(1 time\)"),
    ):
        assert re.fullmatch(said, limits._finds(good_checks(known), ["x", "y"] if "x" in known else ["y", "z"], "a"))


def always(_: str) -> bool:
    return True


def test_what_is_missing_fails() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": 1.0, "aware": 1.0})] * 5
    one_gpu = msgspec.structs.replace(THIS, gpus=("H100",))
    assert [each.said for each in limits.missing(one_gpu, ["x"], Limits(checks=checks), always, AGAIN)] == [
        "1 GPU of 2 that the good nodes with this processor have"
    ]
    (found,) = limits.missing(THIS, ["x"], Limits(checks=checks), always, AGAIN)
    assert (found.status, found.part) == ("FAIL", "aware")
    assert not list(limits.missing(THIS, ["x", "aware+delay"], Limits(checks=checks), always, AGAIN))
    assert not list(limits.missing(THIS, ["x"], Limits(checks=checks), "aware".__ne__, AGAIN)), "it was not asked for"
    (found,) = limits.missing(msgspec.structs.replace(THIS, cpu="Xeon"), ["x"], Limits(checks=checks), always, AGAIN)
    assert (found.status, "other machines" in found.said) == ("UNDECIDED", True)


def test_limits_of_another_number_of_ranks_judge_only_what_does_not_depend_on_it() -> None:
    seconds = {"pingpong: host, 8 B": 1.0, f"pingpong {cluster.TOGETHER} 16 ranks: host, 8 B": 1.0}
    known = Limits(checks=[limits.Checked(host="a", machine=THIS, seconds=seconds)] * limits.FEWEST)
    two = msgspec.structs.replace(THIS, ranks=2)
    assert not list(limits.missing(two, ["pingpong: host, 8 B"], known, always, AGAIN))
    assert [each.part for each in limits.missing(THIS, ["pingpong: host, 8 B"], known, always, AGAIN)] == [
        [*seconds][1]
    ]
    together = {f"pingpong {cluster.TOGETHER} 2 ranks: host, 8 B": [9.0]}
    found = limits.Site(known.of(two), 1, AGAIN, "a").judge("all ranks", together, ranks=2)
    assert (found.status, "16 ranks together, and this check has 2" in found.said) == ("NOT JUDGED", True)
    (first, *_) = seconds
    assert limits.Site(known.of(two), 1, AGAIN, "a").judge("host", {first: [9.0]}).status == "FAIL"


@pytest.mark.parametrize(("nodes", "checks"), [(7, 1), (7, 4), (1, 7)])
def test_how_often_a_good_check_is_above_a_limit(nodes: int, checks: int) -> None:
    """A check of another node where there are several, of the same where there is one."""
    dice, above = np.random.default_rng(1), []
    for _ in range(3000):
        usual = dice.normal(0, 0.03, nodes + 1)
        good = np.exp(usual[:nodes, np.newaxis] + dice.normal(0, 0.02, (nodes, checks)))
        now = float(np.exp(usual[nodes if nodes > 1 else 0] + dice.normal(0, 0.02)))
        above.append(now > (limits.limit_s(good.tolist(), 1) or (0.0,))[0])
    assert 0.2 * limits.FALSE_ALARM < np.mean(above) < 2 * limits.FALSE_ALARM


def test_checks_of_few_nodes_let_no_other_node_fail() -> None:
    alike = [1.0, 1.01, 0.99, 1.0, 1.01]
    said = {}
    for host in "ab":
        for seconds in (1.0, 1.5):
            found = limits.Site(good_checks({"x": alike}), 1, AGAIN, host).judge("all", {"x": [seconds]})
            said[host, seconds] = (found.status, re.split(r" \d+ %|;", found.said)[0])
    assert said == {
        ("a", 1.0): ("PASS", "within this site's limits (a good node fails them once in 100 checks)"),
        ("a", 1.5): ("FAIL", "x"),
        ("b", 1.0): ("PASS", "as fast as good checks of a"),
        ("b", 1.5): ("UNDECIDED", "the good checks are of a alone and do not show how good nodes differ: x"),
    }
    several = Limits(checks=[limits.Checked(host=each, machine=THIS, seconds={"x": 1.0}) for each in "cdefgcdefg"])
    assert limits.Site(several, 1, AGAIN, "b").judge("all", {"x": [1.5]}).status == "FAIL"


def test_an_inventory() -> None:
    asked = Inventory(
        nodes="cn[1-3]", cpu="EPYC", gpus=2, gpu="H100", nvlinks=18, nics=("mlx5_0",), memory_bytes=1 << 30
    )
    whole = Seen(node="cn1", cpu="EPYC", gpus=["H100"] * 2, nvlinks=[18, 18], nics=("mlx5_0",), memory_bytes=2 << 30)
    (found,) = inventory.by_inventory(
        msgspec.structs.replace(asked, nodes=""), [msgspec.structs.replace(whole, nics=[])], AGAIN
    )
    assert (found.status, found.said, found.nodes) == ("FAIL", "no NIC mlx5_0", ("cn1",))
    poor = Seen(node="cn2", cpu="Xeon", gpus=["A100"], nvlinks=[17], nics=("mlx5_0",), memory_bytes=1 << 29)
    assert [each.said for each in inventory.by_inventory(asked, [whole, poor], AGAIN)] == [
        "no rank ran there", "its processor is Xeon, not EPYC", "it has 1 GPU, the inventory says 2",
        "kind of GPU: A100, not H100", "GPU 0: 17 of 18 NVLinks active", "0 of 1 GiB of memory",
    ]  # fmt: skip
    assert "do not contain" in [*inventory.by_inventory(asked, [Seen(node="cn1", cpu="EPYC")], AGAIN)][-1].said
    (found,) = inventory.by_inventory(msgspec.structs.replace(asked, nodes="cn1"), [whole], AGAIN)
    assert (found.status, found.evidence) == ("PASS", "inventory")
    assert found.said == "all is as it must be: 1 node, processor, GPUs, kind of GPU, NVLinks, NICs and memory"
    for node, nodes, said in (
        ("cn1.site.org", "cn[1-3]", "all is as it must be: name"),
        ("login", "cn[1-3]", "it is none of cn[1-3]"),
    ):
        here = Seen(node=node, cpu="EPYC")
        (found,) = inventory.by_inventory(Inventory(nodes=nodes), [here], AGAIN, alone=True)
        assert (found.said, found.nodes if found.status == "FAIL" else ("login",)) == (said, ("login",))
    asked = Inventory(cpu="EPYC", gpu="H100", nvlinks=18)
    without, unknown = Seen(node="a", cpu="EPYC", gpus=[], nvlinks=[]), Seen(node="a", cpu="", gpus=[""])
    assert [
        (each.status, each.said) for one in (without, unknown) for each in inventory.by_inventory(asked, [one], AGAIN)
    ] == [
        ("FAIL", "no GPU, the inventory says H100"),
        ("FAIL", "no GPU with 18 NVLinks"),
        ("UNDECIDED", "the records of this check do not contain: processor, kind of GPU and NVLinks"),
    ]
    none = Inventory(gpus=0)
    assert not any(found for _, found in wrong(Inventory(nvlinks=0), without))
    seen = (whole, msgspec.structs.replace(whole, gpus=[]), msgspec.structs.replace(whole, gpus=None))
    assert [(each.status, each.said) for one in seen for each in inventory.by_inventory(none, [one], AGAIN)] == [
        ("FAIL", "it has 2 GPUs, the inventory says 0"),
        ("PASS", "all is as it must be: no GPU"),
        ("UNDECIDED", "the records of this check do not contain: GPUs"),
    ]
