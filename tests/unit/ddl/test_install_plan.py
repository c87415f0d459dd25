"""Install plan: which files run in which database, computed without a connection."""

from __future__ import annotations

import pytest

from londiste.errors import BadOption, InstallError
from londiste.install import source
from londiste.install.ledger import COMPONENT, Installed, LedgerEntry
from londiste.install.plan import Action, InstallPlan, plan
from londiste.install.source import Component, FileKind, SourceFile, version_key


def file(path: str, text: str = "select 1;") -> SourceFile:
    kinds = {"tables": FileKind.TABLE, "functions": FileKind.FUNCTION, "triggers": FileKind.TRIGGER}
    top = path.split("/")[0]
    if top == "upgrades":
        kind = FileKind.AFTER if path.split("/")[2].startswith("after-") else FileKind.UPGRADE
    else:
        kind = kinds.get(top) or FileKind(top.removesuffix(".sql"))
    return SourceFile(path, kind, text, source.checksum(text))


def component(version: str, *files: SourceFile) -> Component:
    return Component("pgq", version, (), f"toml of {version}", files)


def installed(by: Component, *, without: tuple[str, ...] = (), names: str = "") -> Installed:
    files = {f.path: LedgerEntry(f.sha256, by.version) for f in by.files if f.path not in without}
    return Installed(
        schema_exists=True,
        has_ledger=True,
        names=frozenset(names.split()),
        files={**files, COMPONENT: LedgerEntry(by.sha256, by.version)},
    )


def actions(made: InstallPlan) -> list[tuple[str, str]]:
    return [(step.action.value, step.path) for step in made.steps]


FIRST = component(
    "4.0.0",
    file("schema.sql"),
    file("tables/10_queue.sql"),
    file("functions/queues/create_queue.sql"),
    file("grants.sql"),
)
SECOND = component(
    "4.1.0",
    file("schema.sql"),
    file("tables/10_queue.sql", "create table with paused"),
    file("upgrades/4.1.0/01-paused.sql"),
    file("upgrades/4.1.0/after-01-drop-old.sql"),
    file("functions/queues/create_queue.sql"),
    file("functions/ticking/pause.sql"),
    file("grants.sql"),
)
THIRD = component("4.2.0", *SECOND.files, file("upgrades/4.2.0/01-more.sql"))


def test_a_new_database_gets_the_tables_and_notes_the_upgrades() -> None:
    assert actions(plan(SECOND, Installed())) == [
        ("run", "schema.sql"),
        ("run", "tables/10_queue.sql"),
        ("note", "upgrades/4.1.0/01-paused.sql"),
        ("run", "functions/queues/create_queue.sql"),
        ("run", "functions/ticking/pause.sql"),
        ("note", "upgrades/4.1.0/after-01-drop-old.sql"),
        ("run", "grants.sql"),
        ("note", COMPONENT),
    ]


def test_an_older_database_runs_the_upgrades_and_notes_the_tables() -> None:
    made = plan(SECOND, installed(FIRST))
    assert actions(made) == [
        ("note", "tables/10_queue.sql"),
        ("run", "upgrades/4.1.0/01-paused.sql"),
        ("run", "functions/ticking/pause.sql"),
        ("run", "grants.sql"),
        ("note", COMPONENT),
    ]
    assert made.waiting == ("upgrades/4.1.0/after-01-drop-old.sql",)


def test_incompatible_upgrade_runs_on_request_after_its_replacement() -> None:
    paths = [step.path for step in plan(SECOND, installed(FIRST), after=True).steps]
    assert paths.index("upgrades/4.1.0/after-01-drop-old.sql") > paths.index(
        "functions/ticking/pause.sql"
    )


def test_release_after_next_runs_the_cleanup_automatically() -> None:
    waiting = "upgrades/4.1.0/after-01-drop-old.sql"
    made = plan(THIRD, installed(SECOND, without=(waiting,)))
    assert ("run", waiting) in actions(made)
    assert made.waiting == ()


@pytest.mark.parametrize("version", [FIRST, SECOND, THIRD])
def test_a_database_that_has_everything_gets_nothing(version: Component) -> None:
    assert plan(version, installed(version)).steps == ()


def test_a_changed_function_runs_again_and_grants_follow() -> None:
    changed = component("4.0.0", *FIRST.files[:2], file(FIRST.files[2].path, "new"), FIRST.files[3])
    assert actions(plan(changed, installed(FIRST))) == [
        ("run", "functions/queues/create_queue.sql"),
        ("run", "grants.sql"),
    ]


def test_an_upgrade_that_changed_after_it_ran_is_refused() -> None:
    files = [
        file(f.path, "edited") if f.path == "upgrades/4.1.0/01-paused.sql" else f
        for f in SECOND.files
    ]
    with pytest.raises(
        InstallError, match=r"01-paused.sql was changed after its execution"
    ) as caught:
        plan(component("4.1.0", *files), installed(SECOND))
    assert "restore the file" in caught.value.hint


def test_a_table_that_changed_without_an_upgrade_is_refused() -> None:
    changed = component("4.0.0", FIRST.files[0], file("tables/10_queue.sql", "new"))
    with pytest.raises(InstallError, match="changed without an upgrade"):
        plan(changed, installed(FIRST))


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(InstallError, match=r"has version 4.1.0, newer than 4.0.0 of this program"):
        plan(FIRST, installed(SECOND))


def test_a_schema_of_an_extension_is_refused() -> None:
    with pytest.raises(InstallError, match="belongs to the extension pgq") as caught:
        plan(FIRST, Installed(schema_exists=True, extension="pgq"))
    assert "londiste install --adopt" in caught.value.hint


def test_foreign_schema_is_refused_unless_empty() -> None:
    with pytest.raises(InstallError, match="was not made by londiste install"):
        plan(FIRST, Installed(schema_exists=True, names=frozenset({"queue"})))
    assert plan(FIRST, Installed(schema_exists=True)).steps


def test_objects_of_a_removed_file_are_listed_until_dropped() -> None:
    fewer = component("4.1.0", *FIRST.files[:2])
    there = plan(fewer, installed(FIRST, names="queue create_queue"))
    assert there.leftovers == ("functions/queues/create_queue.sql",)
    dropped = plan(fewer, installed(FIRST, names="queue"))
    assert dropped.leftovers == ()
    assert ("forget", "functions/queues/create_queue.sql") in actions(dropped)


def test_moved_file_leaves_no_leftover() -> None:
    moved = component("4.0.0", *FIRST.files[:2], file("functions/all/create_queue.sql"))
    made = plan(moved, installed(FIRST, names="queue create_queue"))
    assert made.leftovers == ()
    assert ("run", "functions/all/create_queue.sql") in actions(made)
    assert ("forget", "functions/queues/create_queue.sql") in actions(made)


def test_notes_carry_no_text_and_runs_do() -> None:
    for step in plan(SECOND, Installed()).steps:
        assert bool(step.text) == (step.action is Action.RUN)


def test_versions_are_sorted_numerically() -> None:
    ordered = ["3.8", "4.0.0.dev1", "4.0.0a1", "4.0.0a2", "4.0.0rc1", "4.0.0", "4.0.1", "4.10.0"]
    backwards = ordered[::-1]
    assert sorted(backwards, key=version_key) == ordered
    with pytest.raises(InstallError, match="not a version"):
        version_key("latest")


def test_components_follow_their_requirements() -> None:
    known = source.load()
    names = list(known)
    for name, one in known.items():
        for required in one.requires:
            assert names.index(required) < names.index(name)
    assert [c.name for c in source.select(known, ["pgq_node"])] == ["pgq", "pgq_node"]
    with pytest.raises(BadOption, match="no component nothing"):
        source.select(known, ["nothing"])
