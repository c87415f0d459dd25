"""Commits of a lake table: one position, other programs that write, conversion of older ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest

from londiste.db.names import TableName
from londiste.engine.spark.lake import file_writer
from londiste.engine.spark.lake.file_writer import Place, Written
from londiste.errors import BadOption, LondisteError, StateError, Superseded, TransientError
from londiste.lake.columns import LakeColumn
from londiste.lake.convert import convert, table_directory
from londiste.lake.directory_names import directory_name, table_of
from londiste.lake.settings import LakeSettings
from londiste.lake.store import Overtaken, Store
from londiste.lake.versions import File, Version, crowded
from tests.support.programs import forked

TABLE = TableName("public", "t")
COLUMNS = (LakeColumn("id", "integer", "int"), LakeColumn("v", "text", "string"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Place(str(tmp_path / "public.t")), TABLE)


def version(tick: int, **more: Any) -> Version:
    position = {"tick": tick, "time": "2026-01-31T00:00:00+00:00"}
    given = Version(-1, str(TABLE), "state", "rows", ("id",), 4, position, columns=COLUMNS)
    return replace(given, **more)


def files(store: Store, part: str, rows: Sequence[tuple[int, str]], tick: int = 1) -> list[Written]:
    """A file of rows."""
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array([id for id, _ in rows], pa.int32()),
            "v": [v for _, v in rows],
            "_commit_version": pa.array([tick] * len(rows), pa.int64()),
            "_commit_timestamp": pa.array([0] * len(rows), pa.timestamp("us", "UTC")),
            "_part": [part] * len(rows),
        }
    )
    return list(file_writer.write(store.place, "parquet", [batch]))


def started(store: Store) -> Version:
    """A table of two parts."""
    found = [*files(store, "bucket=0", [(1, "a")]), *files(store, "bucket=1", [(2, "b")])]
    return store.publish(version(5), found)


def after(store: Store, before: Version, tick: int) -> Version:
    """One more epoch, which replaces part 0."""
    now = replace(before, position={"tick": tick}, what="changes")
    return store.publish(now, files(store, "bucket=0", [(1, f"a{tick}")], tick), gone=["bucket=0"])


def delta(store: Store, **more: Any) -> Any:
    return deltalake.DeltaTable(store.place.uri, **more)


def rows(store: Store) -> list[tuple[int, str]]:
    """As deltalake and DuckDB read it."""
    newest = store.newest()
    assert newest is not None
    table = delta(store).to_pyarrow_table(columns=["id", "v"])
    found = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
    query = "select id, v from read_parquet(?) order by 1, 2"
    paths = store.paths(newest.files)
    if newest.format == "parquet":
        assert duckdb.connect().execute(query, [paths]).fetchall() == found
    return found


def foreign(store: Store, rows: Sequence[tuple[int, str]], part: str) -> None:
    """Rows of another program."""
    schema = pa.schema(delta(store).schema().to_arrow())
    given = {
        "id": [id for id, _ in rows],
        "v": [v for _, v in rows],
        "_commit_version": [0] * len(rows),
        "_commit_timestamp": [None] * len(rows),
        "_part": [part] * len(rows),
    }
    deltalake.write_deltalake(store.place.uri, pa.table(given, schema=schema), mode="append")


def test_a_version_has_its_position_files_and_statistics(store: Store) -> None:
    assert store.newest() is None
    first = started(store)
    assert (first.number, first.tick, first.rows) == (0, 5, 2)
    second = after(store, first, 7)
    assert store.newest() == second and (second.number, second.tick, second.what) == (
        1,
        7,
        "changes",
    )
    assert {file.part for file in second.files} == {"bucket=0", "bucket=1"}
    assert rows(store) == [(1, "a7"), (2, "b")]
    assert store.at(6) == first and store.at(7) == second
    assert [one.number for one in store.versions()] == [0, 1]
    assert delta(store).transaction_version("londiste public.t") == 7
    found = pa.table(delta(store).get_add_actions(flatten=True)).to_pydict()
    assert sorted(found["min.id"]) == [1, 2] and found["null_count.v"] == [0, 0]
    # A position is found without the commits that a checkpoint replaces.
    for tick in range(8, 20):
        second = after(store, second, tick)
    assert list(Path(store.place.uri, "_delta_log").glob("*.checkpoint*.parquet"))
    assert store.newest() == second and rows(store) == [(1, "a19"), (2, "b")]


def test_only_one_process_publishes_the_next_version(store: Store) -> None:
    first = started(store)
    with pytest.raises(Superseded, match="another process published"):
        started(store)
    after(store, first, 7)
    with pytest.raises(Superseded, match="another process published"):
        after(store, first, 6)
    assert rows(store) == [(1, "a7"), (2, "b")]


def test_vacuum_deletes_old_files_and_fences_suspended_processes(store: Store) -> None:
    first = started(store)
    second = after(store, first, 7)
    assert store.vacuum(second, 3600) == (0, 0)
    # A process that was suspended has written this file, and no commit names it.
    left = files(store, "bucket=1", [(9, "left")])
    assert store.vacuum(second, 0) == (1, 2)
    with pytest.raises(Superseded):
        store.publish(replace(second, position={"tick": 8}), left)
    with pytest.raises(StateError, match="no version at tick 6"):
        store.at(6)
    newest = store.newest()
    assert newest is not None and newest.tick == 7 and newest.files == second.files
    assert [one.tick for one in store.versions()] == [7]
    assert store.vacuum(newest, 0) == (0, 0)
    assert rows(store) == [(1, "a7"), (2, "b")]


def test_a_tick_that_the_lake_has_not_reached_is_none_of_its_versions(store: Store) -> None:
    after(store, started(store), 7)
    assert store.at(7).tick == 7
    with pytest.raises(StateError, match="the lake is at tick 7, before tick 8") as caught:
        store.at(8)
    assert caught.value.hint


def test_ticks_of_a_queue_that_was_created_again_may_be_smaller(store: Store) -> None:
    before = after(store, started(store), 7)
    now = replace(before, position={"tick": 3}, what="resync")
    again = store.publish(now, files(store, "bucket=0", [(9, "z")], 3), gone=None)
    assert store.newest() == again and rows(store) == [(9, "z")]
    assert delta(store).transaction_version("londiste public.t") == 3
    last = after(store, again, 9)
    assert store.at(9) == last and store.at(8) == again
    # Tick 5 of this queue is not the one of the first version.
    store.publish(replace(last, position={"tick": 6}, what="resync"), gone=None)
    with pytest.raises(StateError, match="no version at tick 5"):
        store.at(5)
    assert [one.tick for one in store.versions()] == [5, 7, 3, 9, 6]


def test_other_programs_may_write(store: Store) -> None:
    before = after(store, started(store), 7)
    foreign(store, [(8, "x"), (9, "y")], "bucket=2")
    # It was read before that, and replaces other files.
    now = after(store, before, 8)
    assert now.tick == 8 and rows(store) == [(1, "a8"), (2, "b"), (8, "x"), (9, "y")]
    foreign(store, [(10, "z")], "bucket=2")
    deltalake.DeltaTable(store.place.uri).optimize.compact()
    delta(store).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    newest = store.newest()
    assert newest is not None and newest.tick == 8 and newest.rows == 5
    now = after(store, newest, 9)
    assert now.rows == 5 and (1, "a9") in rows(store)
    # What an epoch has read is replaced by another program: the epoch runs again.
    foreign(store, [(11, "new")], "bucket=0")
    with pytest.raises(Overtaken):
        after(store, now, 10)
    newest = store.newest()
    assert newest is not None and newest.tick == 9
    after(store, newest, 10)
    assert rows(store)[0] == (1, "a10") and (11, "new") not in rows(store)


def test_what_has_no_position_is_refused(store: Store) -> None:
    first = started(store)
    after(store, first, 7)
    delta(store).restore(0)
    with pytest.raises(StateError, match="restored older rows"):
        store.newest()
    other = Store(Place(store.place.uri + "2"), TABLE)
    deltalake.write_deltalake(other.place.uri, pa.table({"id": [1]}))
    with pytest.raises(StateError, match="no position of Londiste"):
        other.newest()
    old = Store(Place(store.place.uri + "3"), TABLE)
    started(old)
    foreign(old, [(3, "c")], "bucket=0")
    delta(old).create_checkpoint()
    Path(old.place.uri, "_delta_log", f"{0:020d}.json").unlink()
    with pytest.raises(StateError, match="no position of Londiste") as refused:
        old.newest()
    assert "tick 5" in refused.value.detail


def test_the_last_cause_of_an_error_is_named(store: Store) -> None:
    found = files(store, "bucket=0", [(1, "a")])
    Path(store.place.uri, "_delta_log").write_text("not a directory")
    with pytest.raises(TransientError) as refused:
        store.publish(version(5), found)
    assert refused.value.message == "table public.t: Not a directory (os error 20)"
    assert "_delta_log/_last_checkpoint" in refused.value.detail
    assert "\x1b" not in refused.value.detail


def test_columns_are_added_and_replaced(store: Store) -> None:
    first = started(store)
    more = (*COLUMNS, LakeColumn("w", "bigint", "long"))
    second = after(store, replace(first, columns=more), 7)
    assert second.columns == more and "w" in delta(store).to_pyarrow_table().column_names
    # All rows are read again, with other types.
    other = (replace(COLUMNS[0], kind="string"), COLUMNS[1])
    store.publish(replace(second, columns=other, position={"tick": 8}), [], gone=None)
    table = delta(store).to_pyarrow_table()
    assert table.num_rows == 0 and table.schema.field("id").type == pa.string()
    assert "w" not in table.column_names


def test_parts_with_small_files_are_joined(store: Store) -> None:
    many = [File(f"data/a/{n}", "a", 1, 10) for n in range(4)]
    mixed = [*many, File("data/a/5", "a", 1, 500), File("data/b/1", "b", 1, 10)]
    assert crowded(mixed, 4, 100) == ["a"] and crowded(mixed, 5, 100) == []
    assert crowded(mixed, 0, 1000) == ["a"]
    first = started(store)
    now = store.publish(replace(first, position={"tick": 6}), files(store, "bucket=1", [(3, "c")]))
    store.compact(now, ["bucket=1"], 1 << 20)
    newest = store.newest()
    assert newest is not None and (newest.what, newest.tick, newest.rows) == ("optimize", 6, 3)
    assert len(newest.inside(["bucket=1"])) == 1
    assert rows(store) == [(1, "a"), (2, "b"), (3, "c")]
    assert store.damaged(newest.files) == []


def test_a_damaged_file_is_found(store: Store) -> None:
    newest = started(store)
    (path, _) = map(Path, store.paths(newest.files))
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        (text,) = store.damaged(newest.files)
        assert "content differs from what was written" in text
    path.unlink()
    (text,) = store.damaged(newest.files)
    assert "No such file" in text


# -- conversion -----------------------------------------------------------------------------------


@pytest.fixture
def earlier(store: Store) -> Path:
    """A directory as an earlier release has written it, with the log that it wrote beside."""
    import hashlib

    root = Path(store.place.uri)
    found = [*files(store, "bucket=0", [(1, "a")]), *files(store, "bucket=1", [(2, "b")])]
    (root / "_versions").mkdir()
    (root / "_attempts" / "x").mkdir(parents=True)
    for number, some in enumerate((found[:1], found)):
        given = {
            "format": 1,
            "number": number,
            "table": "public.t",
            "mode": "state",
            "what": "rows",
            "key": ["id"],
            "buckets": 4,
            "oid": 7,
            "complete": True,
            "columns": [vars(column) for column in COLUMNS],
            "position": {"tick": 5 + number, "seen": "7:9:8"},
            "files": [
                {
                    "path": file.path,
                    "part": file.part,
                    "rows": file.rows,
                    "bytes": file.bytes,
                    "digest": hashlib.sha256((root / file.path).read_bytes()).hexdigest(),
                }
                for file in some
            ],
            "made": "2026-01-31T00:00:00+00:00",
            "changes": 2,
            "names": [],
            "layout": "parquet",
        }
        (root / "_versions" / f"{number:020d}.json").write_text(json.dumps(given))
    (root / "_delta_log").mkdir()
    fields = '[{"name":"id","type":"integer","nullable":true,"metadata":{}}]'
    meta = {
        "id": "0",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": f'{{"type":"struct","fields":{fields}}}',
        "partitionColumns": [],
        "configuration": {},
    }
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": meta}]
    (root / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return root


def command(directory: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The command that converts it."""
    argv = [sys.executable, "-m", "londiste", "lake", "convert", "--json", str(directory)]
    return forked.run(argv, env={**os.environ, **env})


def test_a_directory_of_an_earlier_release_is_converted(earlier: Path, store: Store) -> None:
    with pytest.raises(StateError, match="of an earlier release") as refused:
        store.newest()
    assert refused.value.hint == f"stop its process, then: londiste lake convert {earlier}"
    for env in ({"LONDISTE_CRASH": "lake.converting"}, {"LONDISTE_CRASH": "lake.converted"}):
        assert command(earlier, env).returncode == -signal.SIGKILL
        with pytest.raises(StateError, match="of an earlier release"):
            store.newest()
    done = command(earlier, {})
    assert done.returncode == 0, done
    told = {"directory": str(earlier), "tick": 6, "files": 2}
    assert json.loads(done.stdout)["directories"] == [told]
    found = convert(table_directory(earlier))
    assert found is not None and found == store.newest()
    assert (found.tick, found.position["seen"], found.oid, found.rows) == (6, "7:9:8", 7, 2)
    assert found.columns == COLUMNS and rows(store) == [(1, "a"), (2, "b")]
    assert {path.name for path in earlier.iterdir()} == {"_delta_log", "data"}
    after(store, found, 8)
    assert rows(store) == [(1, "a8"), (2, "b")]


def test_an_older_process_takes_nothing_back(earlier: Path, store: Store) -> None:
    saved = (earlier / "_versions" / f"{1:020d}.json").read_text()
    found = convert(table_directory(earlier))
    assert found is not None
    now = after(store, found, 8)
    # A process of the earlier release writes the version that it was about to write.
    (earlier / "_versions").mkdir()
    (earlier / "_versions" / f"{1:020d}.json").write_text(saved)
    assert convert(table_directory(earlier)) == now == store.newest()


def test_a_directory_with_another_name_is_renamed(earlier: Path) -> None:
    name = TableName("public", 'a~"b')
    old = earlier.with_name("public.a~%22b")
    earlier.rename(old)
    settings = LakeSettings(
        db="dbname=x", queue_name="q", lake_path=str(old.parent), lake_tables=(str(name),)
    )
    with pytest.raises(StateError, match="of an earlier release") as refused:
        Store.of(settings, name)
    assert refused.value.hint.endswith(f"londiste lake convert '{old}'")
    for _ in range(2):
        found = convert(table_directory(old))
        assert found is not None and Store.of(settings, name).newest() == found
    assert not old.exists()


def test_damaged_files_are_not_converted(earlier: Path) -> None:
    (path, *_) = sorted(earlier.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LondisteError, match="content differs") as refused:
        convert(table_directory(earlier))
    assert "nothing was converted" in refused.value.detail and (earlier / "_versions").is_dir()


def test_a_directory_that_is_gone_is_named(store: Store, tmp_path: Path) -> None:
    before = started(store)
    Path(store.place.uri).rename(tmp_path / "elsewhere")
    for use in (
        lambda: store.publish(replace(before, position={"tick": 6})),
        lambda: store.compact(before, ["bucket=0"], 10),
        lambda: store.vacuum(before, 0),
    ):
        with pytest.raises(StateError, match="its directory in the lake is gone") as caught:
            use()
        assert caught.value.detail == store.place.uri


def test_a_directory_belongs_to_its_queue(store: Store) -> None:
    started(store)
    own = replace(store, origin="queue q of database d")
    before = own.newest()
    assert before is not None and before.origin == ""
    after(own, before, 6)
    with pytest.raises(StateError, match="belongs to queue q of database d") as caught:
        replace(store, origin="queue p of database d").newest()
    assert caught.value.hint == "use another lake_path"
    # A reader names no queue, and a database may get another name.
    for name in ("", "queue q of database renamed"):
        assert replace(store, origin=name).newest() == own.newest()


def test_missing_package_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(BadOption, match="the package deltalake is not installed") as refused:
        store.newest()
    assert refused.value.hint == "pip install 'londiste4[lake]'"


def test_a_name_that_no_file_system_takes_is_cut(tmp_path: Path) -> None:
    kept = TableName("ä" * 31, "ö" * 10)
    names = [TableName("ä" * 31, "ö" * 30 + end) for end in "ab"]
    made = []
    for name in [kept, *names]:
        settings = LakeSettings(
            db="dbname=x", queue_name="q", lake_path=str(tmp_path), lake_tables=(str(name),)
        )
        store = Store.of(settings, name)
        store.publish(version(1))
        assert convert(table_directory(Path(store.place.uri))) == store.newest()
        made.append(Path(store.place.uri).name)
    assert sorted(made) == sorted(path.name for path in tmp_path.iterdir())
    assert table_of(made[0]) == kept
    # What tells its table to a reader of the directory.
    shown = table_of(made[1])
    assert shown.schema == "ä" * 31 and shown.name.rstrip("\N{REPLACEMENT CHARACTER}…") == "öö"
    assert directory_name(names[0], local=False).endswith("~C3~B6a")
