"""The fixture ``troupe_cluster``: a cluster on this machine for one test.

pytest finds it when the package is installed::

    def test_training(troupe_cluster):
        with troupe_cluster.session() as session:
            ...

The cluster is a `troupe.LocalCluster` of one ps and two workers. A marker declares other tasks; its arguments
are those of `troupe.LocalCluster`::

    @pytest.mark.troupe_cluster(ps=2, worker=1)
    def test_two_servers(troupe_cluster):
        ...

The report of a test that fails has the log of each task.
"""

from __future__ import annotations

from typing import Any, Generator, Iterator

import pytest

from troupe._cluster import LocalCluster


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers", "troupe_cluster(ps=1, worker=2): the tasks of the fixture troupe_cluster"
    )


@pytest.fixture
def troupe_cluster(request: Any) -> Iterator[LocalCluster]:
    """A `troupe.LocalCluster` for the test, of one ps and two workers or as the marker says."""
    marker = request.node.get_closest_marker("troupe_cluster")
    args, kwargs = (marker.args, marker.kwargs) if marker is not None else ((), {})
    cluster = LocalCluster(*args, **kwargs)
    try:
        yield cluster
    finally:
        cluster.stop(0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, None]:
    """Adds the tasks' logs to the report of a test that failed."""
    outcome = yield
    report = outcome.get_result()
    cluster = getattr(item, "funcargs", {}).get("troupe_cluster")
    if call.when == "call" and report.failed and isinstance(cluster, LocalCluster):
        for name, log in cluster.logs().items():
            report.sections.append((f"troupe log of {name}", log))
