"""Commands in hints get the options of the call, except secrets and commands about other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from londiste.cli import cli, main, output
from londiste.cli.errors import _lookup, run, tell
from londiste.cli.hints import Given, completed, given
from londiste.cli.start import worker_command
from londiste.errors import LondisteError
from londiste.wording import at_node, repeated

SHOP = (
    '[queue]\nname = "shop"\n[nodes.main]\nrole = "root"\ndb = "dbname=main"\n'
    '[nodes.reports]\nrole = "leaf"\nprovider = "main"\ndb = "dbname=reports"\n'
)
COMMANDS = {"wait-sync": {"--json"}, "config": set(), "members": set()}
COMMANDS |= {"create-root": set(), "create-leaf": {"--provider"}}
COMMANDS |= {"queue": set(), "queue create": {"--db"}, "migrate run": {"--from", "--to"}}
COMMANDS |= {"queue dead list": {"--db"}}


def lookup(words: Sequence[str]) -> tuple[str, set[str]] | None:
    for name in (" ".join(words), " ".join(words[:2]), words[0]):
        if name in COMMANDS:
            return name, COMMANDS[name]
    return None


@pytest.mark.parametrize(
    ("argv", "hint", "wanted"),
    [
        ("-c leaf.toml tables", "londiste wait-sync", "londiste -c leaf.toml wait-sync"),
        (
            "--node n -c my~files/a.toml --set a=b x",
            "did you mean: londiste wait-sync",
            "did you mean: londiste --node n -c 'my~files/a.toml' wait-sync",
        ),
        (
            "-c r.ini --set side=provider --set a=b x",
            "londiste wait-sync",
            "londiste -c r.ini --set side=provider wait-sync",
        ),
        (
            "queue drop q --db dbname=shop",
            "londiste queue create q; londiste wait-sync",
            "londiste queue create --db dbname=shop q; londiste wait-sync",
        ),
        (
            "queue dead drop src x 99 --db dbname=shop",
            "londiste queue dead list src x",
            "londiste queue dead list --db dbname=shop src x",
        ),
        ("migrate status --from=a --to b", "londiste migrate run --to c", None),
        ("-c leaf.toml x", "on the root: londiste wait-sync", None),
        (
            "-c leaf.toml x",
            "copy all tables of this node again: londiste wait-sync",
            "copy all tables of this node again: londiste -c leaf.toml wait-sync",
        ),
        # The last place that a clause names.
        (
            "-c leaf.toml x",
            "delete the provider's rows on this node, then londiste wait-sync",
            "delete the provider's rows on this node, then londiste -c leaf.toml wait-sync",
        ),
        ("-c leaf.toml x", "make this node the root: londiste wait-sync", None),
        ("-c leaf.toml x", "londiste config lists the settings", None),
        ("-c leaf.toml x", "start the ticker: londiste nonsense", None),
        ("queue drop q --db postgresql://u:secret@h/d", "londiste queue create q", None),
        ("queue drop q --db password=secret", "londiste queue create q", None),
        ("queue drop q --db sslpassword=secret", "londiste queue create q", None),
        # libpq reads neither: what part of them is a password is unknown.
        ("queue drop q --db postgresql://u:secret@h/d?x=1", "londiste queue create q", None),
        ("queue drop q --db=postgresql://u:secret@[h/d", "londiste queue create q", None),
        ("queue drop q", "londiste queue create q", None),
        (
            "-c r.toml x",
            "londiste create-root NAME, or londiste create-leaf NAME --provider DSN, or londiste"
            " wait-sync",
            "londiste -c r.toml create-root NAME, or londiste -c r.toml create-leaf NAME"
            " --provider DSN, or londiste -c r.toml wait-sync",
        ),
    ],
)
def test_a_hint_repeats_the_options_of_the_call(argv: str, hint: str, wanted: str | None) -> None:
    if "--from" in argv:
        wanted = "londiste migrate run --from a --to c"
    assert completed(hint, given(argv.split()), lookup) == (wanted or hint)


@pytest.mark.parametrize(
    "hint",
    [
        "first, with the settings of queue all: londiste remove-table t",
        "on node main: londiste add-table t; or, if this node already has the rows: --expect-sync",
        "with the settings of queue all: londiste resync TABLE",
        "with the settings of queue all, then of the leaf of each part: londiste remove-table"
        " TABLE",
        "first, with the settings of queue all (queue_name = all): londiste create-root, or on a"
        " stand-by londiste create-branch",
        "first, on node main with the settings of queue part: londiste create-leaf --merge all",
        "with the settings of a: londiste wait-sync; or with the settings of b: londiste add-table"
        " t; or continue with --allow-resync, and remove the table",
        "--allow-resync continues and copies it again from b, on the nodes below, too; or filter"
        " them as before, on node b: londiste change-handler t",
        "copy the filtered ones again afterwards, with the settings of a: londiste resync TABLE",
        "with the settings of a subscriber: londiste columns",
        "otherwise, with the settings of queue all: londiste status shows which node is its root",
        "use --trigger logutriga; or, in the databases of these nodes: londiste install --adopt",
        "remove the cause, then on that node: londiste execute retry s, or londiste execute skip s,"
        " or, after doing its work by hand (below the root rows in a session with set"
        " session_replication_role = replica), londiste execute mark-done s and londiste compare"
        " TABLE",
        "when it answers, with the settings of old: londiste queue unregister q c",
        "rename it; or unregister the other one, with the settings of new: londiste queue"
        " unregister q c",
        "give every worker its own job_name; or, with the settings of main: londiste queue"
        " unregister q c",
        "choose a branch; or create one, with the settings of a new node: londiste create-branch N",
        "start the ticker of node main: londiste ticker",
        "once the restore is complete, in that database: londiste queue rebase, or select * from"
        " pgq.rebase_queues()",
        "stop one of the two; to make the copy a separate node, in the database of the copy only:"
        " select pgq_node.drop_node(E'q', E'leaf'), then, with settings of another name and"
        " job_name: londiste create-leaf",
        "with the settings of the provider: londiste triggers --restore t; the copy then restarts",
    ],
)
def test_a_command_for_another_node_or_queue_stays_as_it_is(hint: str) -> None:
    call = given(["-c", "leaf.toml", "x"])
    assert completed(hint, call, lambda words: _lookup(cli, words)) == hint


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("londiste events show", "with the settings of leaf: londiste events show"),
        (
            "copy all tables of this node: londiste resync",
            "copy all tables of node leaf: londiste resync",
        ),
        (
            "londiste change-provider --provider root registers it again",
            "with the settings of leaf: londiste change-provider --provider root registers it"
            " again",
        ),
        (
            "on the root: londiste change-form t --trigger capture; then on this node: londiste"
            " resync t",
            "on the root: londiste change-form t --trigger capture; then on node leaf: londiste"
            " resync t",
        ),
        ("alter table t add primary key (…)", "on node leaf: alter table t add primary key (…)"),
        ("inspect it on the provider: londiste queue events q", None),
        ("give the provider's table a primary key: alter table t", None),
        ("add them with the settings of node leaf: londiste columns t --add", None),
    ],
)
def test_a_hint_of_a_node_is_read_anywhere(hint: str, shown: str | None) -> None:
    assert at_node(hint, "leaf") == (shown or hint)


def test_options_of_the_program_precede_the_command() -> None:
    assert given(["-c", "f", "tick", "-c", "g", "--db=x"]) == Given(("-c", "f"), {"--db": "x"})
    assert given(["-c"]) == Given((), {})


def test_the_command_line_prints_completed_hints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["-c", "leaf.toml", "tabls"])
    assert "hint: did you mean: londiste -c leaf.toml tables" in capsys.readouterr().err


def test_commands_in_messages_and_warnings_repeat_them_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ["-c", "my leaf.toml", "--node", "n2", "version"]
    assert run(cli, call) == 0
    output.message("copies paused; resume: londiste copy resume")
    output.warning("durations of the copies: londiste copy status --done")
    output.next_step("londiste wait-sync")
    front = "londiste -c 'my leaf.toml' --node n2"
    assert capsys.readouterr().err.splitlines() == [
        f"copies paused; resume: {front} copy resume",
        f"warning: durations of the copies: {front} copy status --done",
        f"next: {front} wait-sync",
    ]


def test_commands_in_details_repeat_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["-c", "leaf.toml", "version"]) == 0
    tell(LondisteError("not current", detail="paused: londiste resume --node n2"))
    assert "detail: paused: londiste -c leaf.toml resume --node n2" in capsys.readouterr().err


def test_a_node_behind_the_command_is_repeated_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(SHOP)
    for node in (["--node", "main"], ["--node=main"]):
        assert run(cli, ["-c", str(file), "change-form", "t", *node]) == 2
        hint = capsys.readouterr().err.splitlines()[-1]
        assert hint.endswith(f": londiste -c {file} --node main change-form TABLE row")
    # The next call does not repeat it.
    assert run(cli, ["-c", str(file), "--node", "reports", "change-form", "t"]) == 2
    hint = capsys.readouterr().err.splitlines()[-1]
    assert hint.endswith(f": londiste -c {file} --node reports change-form TABLE row")
    # A command with a --node of its own means another one by it.
    assert run(cli, ["-c", str(file), "pause", "--node", "main", "--timeut", "1"]) == 2
    assert "--node main pause" not in capsys.readouterr().err


def test_the_command_that_starts_a_worker_has_the_file_of_the_call(tmp_path: Path) -> None:
    one, all_nodes = tmp_path / "leaf.toml", tmp_path / "shop.toml"
    one.write_text('[londiste]\ndb = "dbname=reports"\n')
    all_nodes.write_text(SHOP)
    unknown = "londiste -c FILE worker (settings of node reports)"
    assert worker_command(None, {})("reports", "reports") == unknown
    assert worker_command(one, {})("reports", "reports") == f"londiste -c {one} worker"
    assert worker_command(one, {})("reports", "main") == unknown
    assert worker_command(one, {"db": "dbname=other"})("reports", "reports") == unknown
    wanted = f"londiste -c {all_nodes} --node reports worker"
    assert worker_command(all_nodes, {})("reports", "main") == wanted
    assert "FILE" in worker_command(all_nodes, {})("moved", "moved")


def test_a_hint_says_once_that_the_command_is_to_be_repeated() -> None:
    assert repeated("") == "repeat the command"
    assert repeated("start it") == "start it; then repeat the command"
    for hint in ("repeat the command", "start it; then repeat the command with --force"):
        assert repeated(hint) == repeated(hint, "repeat the command here") == hint
