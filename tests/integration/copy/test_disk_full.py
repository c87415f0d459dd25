"""A copy whose disk is full waits, and continues when there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.copy import status
from londiste.embedded.account import server_account
from londiste.embedded.postgres import Cluster
from tests.fixtures.copies import A, B, Nodes, fill, same
from tests.support.waiting import wait_for


@pytest.fixture
def small(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tablespace of 12 MB in the leaf's server: the statement that gives half of it free."""
    if os.geteuid() != 0 or not isinstance(nodes.leaf.cluster, Cluster):
        pytest.skip("a file system of a given size needs root, and a server of this host")
    if shutil.which("mount") is None or shutil.which("umount") is None:
        pytest.skip("no mount and umount on PATH")
    place = Path("/tmp") / f"londiste-small-{os.getpid()}"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m,mode=0755", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        place.rmdir()
        pytest.skip("this host mounts no file systems")
    try:
        data = place / "data"
        data.mkdir()
        server_account().own(data, 0o700)
        leaf = nodes.leaf
        leaf.execute(f"create tablespace small location '{data}'")
        leaf.execute(
            "create table public.ballast tablespace small as"
            " select repeat('x', 1000) from generate_series(1, 7000)"
        )
        leaf.execute("alter table public.a set tablespace small")
        yield "drop table public.ballast"
        nodes.stop()
        leaf.execute("drop table public.a; drop table if exists public.ballast")
        leaf.execute("checkpoint")
        leaf.execute("drop tablespace small")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def test_a_copy_without_space_waits_and_goes_on_while_others_are_copied(
    nodes: Nodes,
    small: str,
) -> None:
    fill(nodes, A, 60_000)
    fill(nodes, B)
    nodes.add(A, B)
    nodes.start()
    with nodes.leaf.connect() as conn:

        def waits() -> str:
            return next(
                (t.waits for t in status.collect(conn, "q", "w2").tables if t.table == str(A)), ""
            )

        reason = wait_for(waits, timeout=120, what="the copy to wait for space")
        assert "No space left on device" in reason
        assert "continues automatically" in reason
        wait_for(lambda: "No space" in nodes.error(A), what="the reason to be in the status")
        attempt = nodes.leaf.value("select attempt from londiste.copy_attempt")
        done = nodes.leaf.value("select count(*) from londiste.copy_chunk")
        assert done > 1
        wait_for(lambda: nodes.state(B) == "ok", what="the other table")
        assert nodes.state(A) == "in-copy"
        nodes.leaf.execute(small)
        # What is there is not copied again.
        assert nodes.leaf.value("select attempt from londiste.copy_attempt") == attempt
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert same(nodes, A)


@pytest.mark.slow
def test_an_index_without_space_waits_and_the_rows_are_not_copied_again(
    nodes: Nodes,
    small: str,
) -> None:
    nodes.leaf.execute("create index wide on public.b (id, v) tablespace small")
    fill(nodes, B, 60_000)
    nodes.add(B)
    nodes.start()
    reason = wait_for(lambda: nodes.error(B), what="the index to fail")
    assert "No space left on device" in reason
    assert nodes.state(B) == "catching-up"
    # The key was built, and is not built again.
    key = "select oid from pg_class where relname = 'b_pkey'"
    built = wait_for(lambda: nodes.leaf.value(key), what="the other index")
    nodes.leaf.execute(small)
    nodes.wait_end()
    assert nodes.state(B) == "ok"
    assert same(nodes, B)
    assert nodes.leaf.value(key) == built
    assert nodes.leaf.value("select count(*) from pg_indexes where indexname = 'wide'") == 1
    nodes.leaf.execute("drop index public.wide")
