"""A lake in an object store: a local server with the interface of S3."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import boto3
import deltalake
import pytest

import londiste.spark
from londiste.db.names import TableName
from londiste.lake.table import LakeTable
from tests.engine.test_lake import as_dict, table
from tests.fixtures.lake import Lake
from tests.support.suite.slow import first

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


#: In a process of its own: calls of the package deltalake keep this one from answering.
SERVER = """
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
server._thread.join()
"""


@pytest.fixture
def storage() -> Iterator[dict[str, str]]:
    """The options of a server with a bucket."""
    argv = [sys.executable, "-c", SERVER]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(argv, **pipes) as server:
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="lake")
        more = {"aws_region": "us-east-1", "aws_endpoint_url": address, "aws_allow_http": "true"}
        yield {**keys, **more}
        server.kill()


@pytest.mark.parametrize(
    ("mode", "compacted"), first([("state", False), ("state", True), ("history", True)])
)
def test_a_lake_in_an_object_store(
    lake: Lake, storage: dict[str, str], mode: str, compacted: bool
) -> None:
    lake.more |= {"lake_path": "s3://lake/here", "lake_storage": storage, "lake_mode": mode}
    lake.stream.table()
    lake.stream.write("insert into t select i, 'a' from generate_series(1, 50) i")
    first = lake.once()
    lake.stream.write("update t set v = 'b' where id % 2 = 0", "delete from t where id = 7")
    version = lake.once()
    assert lake.compare().equal
    address = "s3://lake/here/public.t"
    delta = deltalake.DeltaTable(address, storage_options=storage)
    assert delta.to_pyarrow_table().num_rows == version.rows
    rows = londiste.spark.lake(lake.stream.spark, address, storage=storage)
    if mode == "state":
        assert as_dict(rows) == table(lake)
        before = londiste.spark.lake(lake.stream.spark, address, tick=first.tick, storage=storage)
        assert set(as_dict(before).values()) == {"a"}
    assert all(path.startswith(address) for path in lake.store.paths(version.files))
    if not compacted:
        return
    lake.stream.write("update t set v = 'c' where id = 1")
    lake.once()
    settings = lake.settings(lake_retention=0)
    with closing(LakeTable(settings, TableName("public", "t"))) as kept:
        kept.compact()
        versions, files = kept.vacuum()
        assert versions and files
        assert kept.vacuum() == (0, 0)
    assert lake.compare().equal
