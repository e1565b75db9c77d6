"""Fixture: a real Slurm on two pretend hosts (pretend_cluster.py)."""

from collections.abc import Iterator

import pytest
from pretend_cluster import Cluster, NoSlurmError, cluster
from pretend_hosts import NoHostsError, switched


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes under Slurm, until the module's last test ends."""
    folder = tmp_path_factory.mktemp("slurm")
    try:
        with switched(folder / "lab", 2) as hosts, cluster(hosts, folder) as made:
            yield made
    except (NoSlurmError, NoHostsError) as reason:
        pytest.skip(str(reason))
