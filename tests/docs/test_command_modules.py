"""Every command has a module with its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.lazy import LazyGroup

PACKAGE = Path(__file__).parents[2] / "londiste" / "cli"

#: Modules that hold more than one command, or one with another name.
SHARED: dict[str, set[str]] = {
    "nodes.create_node": {"create-root", "create-branch", "create-leaf"},
    "nodes.pause": {"pause", "resume"},
    "nodes.wait": {"wait-root", "wait-provider"},
    "cascade.tag_dead": {"tag-dead", "tag-alive"},
    "tables.sequences": {"add-seq", "remove-seq", "seqs"},
    "copy.pause": {"pause", "resume"},
    "execute.decide": {"retry", "skip", "mark-done"},
    "lake.run": {"run", "once"},
    "migrate.switch": {"switch", "back"},
    "queue.create": {"create", "drop"},
    "queue.dead_letters": {"dead"},
    "queue.maint": {"maint", "schedule"},
    "queue.movers": {"mover", "splitter", "simple-consumer"},
    "queue.pause_consumer": {"pause-consumer", "resume-consumer"},
    "queue.register": {"register", "unregister"},
    "queue.tick": {"tick", "ticks"},
}

#: Modules without a command, besides ``__init__`` and ``common``.
FRAME = {
    "anywhere",
    "consumer_cli",
    "setup.cascade_plan",
    "copy.progress_display",
    "documents",
    "entry.movers",
    "entry.pgqadm",
    "entry.table_dispatcher",
    "errors",
    "hints",
    "layout",
    "lazy",
    "live_view",
    "options",
    "output",
    "plan_output",
    "setup.live_state",
    "setup.preflight",
    "start",
    "sync_view",
    "worker_once",
}


def commands(group: LazyGroup = cli) -> Iterator[tuple[str, str]]:
    """Module, below ``londiste.cli``, and name of every command in the tables."""
    for name, entry in group.table.items():
        module = f"{group.package}.{entry.module}".removeprefix("londiste.cli.")
        yield module, name
        if (PACKAGE / module.replace(".", "/")).is_dir():
            below = group.load(name, entry)
            assert isinstance(below, LazyGroup)
            yield from commands(below)


MODULES: dict[str, set[str]] = {}
for _module, _name in commands():
    MODULES.setdefault(_module, set()).add(_name)


@pytest.mark.parametrize("module", sorted(MODULES.keys() | SHARED.keys()))
def test_a_module_holds_the_command_of_its_name(module: str) -> None:
    names = MODULES.get(module, set())
    if module in SHARED:
        assert names == SHARED[module]
    else:
        assert {name.replace("-", "_") for name in names} == {module.rpartition(".")[2]}


def test_a_module_without_a_command_is_shared_by_those_that_have_one() -> None:
    found = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.stem not in ("__init__", "common")
    }
    assert found - MODULES.keys() == FRAME


def test_no_folder_has_more_modules_than_can_be_read() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    large = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in large.items() if count > 20} == {}
