"""Where commands about a whole cascade start, when its root does not answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.consumer_cli import command
from londiste.cli.errors import run
from londiste.consumer import Consumer

#: No server listens there.
NODE = '[nodes.{0}]\ndb = "host=127.0.0.1 port=1 dbname={0}"\nrole = "{1}"\n{2}'
BELOW = 'provider = "main"\n'
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """``call(roles, "members")`` -> exit code and stderr; the file has the nodes of these roles."""

    def run_(roles: dict[str, str], *args: str) -> tuple[int, str]:
        file = tmp_path / "shop.toml"
        nodes = [
            NODE.format(name, role, "" if role == "root" else BELOW) for name, role in roles.items()
        ]
        file.write_text('[queue]\nname = "shop"\n' + "".join(nodes))
        capsys.readouterr()
        code = run(cli, ["-c", str(file), *args])
        return code, capsys.readouterr().err.replace(str(file), "shop.toml")

    return run_


LEAF_FIRST = {"main": "root", "reports": "leaf", "standby": "branch"}


@pytest.mark.parametrize(
    "command",
    [
        ("members",),
        ("switchover", "--to", "standby"),
        ("tag-dead", "main"),
        ("drop-node", "reports"),
        ("execute", "status"),
        ("export",),
    ],
)
def test_the_error_of_a_root_that_is_down_names_another_node(
    call: Call, command: tuple[str, ...]
) -> None:
    code, printed = call(LEAF_FIRST, *command)
    assert code == 6, printed
    assert "main@127.0.0.1:1: " in printed
    assert printed.rstrip().endswith("; or ask another node: --node standby")
    # The node that the operator has named has no other one beside it.
    assert "ask another node" not in call(LEAF_FIRST, "--node", "main", *command)[1]


def test_only_a_root_that_was_not_named_has_another_node(call: Call) -> None:
    assert call({"main": "root"}, "members")[1].count("ask another node") == 0
    assert "--node reports" in call({"main": "root", "reports": "leaf"}, "members")[1]
    # Here --node is the node that is switched.
    assert "ask another" not in call(LEAF_FIRST, "change-provider", "--provider", "standby")[1]
    # The next command in this process has no part in it.
    assert "ask another" not in call(LEAF_FIRST, "--node", "reports", "members")[1]


@pytest.mark.parametrize(
    ("roles", "args", "hint"),
    [
        (
            LEAF_FIRST,
            ("main", "--failover"),
            "give it: londiste -c shop.toml takeover main --node standby --failover",
        ),
        (
            {**LEAF_FIRST, "far": "branch"},
            ("main", "--dead"),
            "give it, one of standby, far: londiste -c shop.toml takeover main --node standby"
            " --failover",
        ),
        (
            {**LEAF_FIRST, "far": "branch"},
            ("standby",),
            "give it: londiste -c shop.toml takeover standby --node far",
        ),
        (
            {"main": "root", "reports": "leaf"},
            ("main", "--failover", "--rollback"),
            "give it: londiste -c shop.toml takeover main --node reports --failover --rollback",
        ),
    ],
)
def test_takeover_names_the_branches_that_can_take_over(
    call: Call, roles: dict[str, str], args: tuple[str, ...], hint: str
) -> None:
    code, printed = call(roles, "takeover", *args)
    assert code == 2
    assert printed.splitlines()[-2:] == [
        "error: shop.toml: the branch that takes over is not named",
        f"hint: {hint}",
    ]
    for node in (["--node", "standby"], ["--node", "reports"]):
        if node[1] in roles:
            assert "is not named" not in call(roles, "takeover", *args, *node)[1]
            assert "is not named" not in call(roles, *node, "takeover", *args)[1]


def test_status_reports_the_first_node_if_none_answers(
    call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = call(LEAF_FIRST, "status")
    assert code == 6 and "main@127.0.0.1:1: " in printed
    assert "ask another node" not in printed
    assert call(LEAF_FIRST, "status", "--check")[0] == 3


class Signups(Consumer):
    queue, name = "signups", "welcome"


def test_queue_commands_and_consumers_take_the_database_of_the_environment(
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call(LEAF_FIRST, "show-handlers")
    (tmp_path / "shop.toml").rename(tmp_path / "londiste.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LONDISTE_CONFIG", raising=False)
    monkeypatch.setenv("LONDISTE_DB", "host=127.0.0.1 port=1 dbname=queues")
    for argv in (("queue", "create", "new"), ("queue", "install"), ("tick", "new")):
        assert run(cli, argv) == 6
        assert "queues@127.0.0.1:1: " in capsys.readouterr().err
    assert run(command(Signups), ["--register"]) == 6
    assert "queues@127.0.0.1:1: " in capsys.readouterr().err
    # A node of the file has one database.
    for argv in (("status",), ("plan",), ("run",), ("--node", "main", "tables")):
        assert run(cli, argv) == 2
        printed = capsys.readouterr().err
        assert printed.startswith("error: LONDISTE_DB names one database, and ")
        assert printed.endswith("londiste.toml has another\nhint: unset LONDISTE_DB\n")
