"""Options that have got another name: the former one is hidden and still works."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from londiste.cli import cli, options
from londiste.cli.cascade.drop_node import drop_node
from londiste.cli.cascade.takeover import takeover
from londiste.cli.lazy import LazyGroup
from londiste.cli.tables.add_table import add_table
from londiste.cli.tables.remove_table import remove_table


def parsed(command: click.Command, *argv: str) -> dict[str, Any]:
    with command.make_context(str(command.name), list(argv)) as ctx:
        return ctx.params


def test_a_former_name_sets_the_option_and_prints_the_present_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = parsed(drop_node, "n", "--explain")
    assert given["explain"] and not given["drop_consumers"]
    assert capsys.readouterr().err == "option --explain is now called --dry-run\n"
    assert parsed(drop_node, "n", "--dry-run") == given
    assert capsys.readouterr().err == ""


def test_force_sets_all_options_that_have_replaced_it_and_says_so_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = parsed(drop_node, "n", "--force")
    assert given["ignore_unreachable"] and given["drop_consumers"]
    told = "option --force is now called --ignore-unreachable and --drop-consumers\n"
    assert capsys.readouterr().err == told
    assert not parsed(drop_node, "n")["ignore_unreachable"]


def test_names_of_londiste_3_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(takeover, "n", "--dead")["dead"]
    assert parsed(takeover, "n", "--dead-root")["dead_root"]
    assert parsed(remove_table, "t", "--force")["ignore_missing"]
    assert parsed(add_table, "t", "--force")["ignore_old_workers"]
    assert capsys.readouterr().err == ""


def test_force_of_a_takeover_accepts_no_leaf_that_is_ahead() -> None:
    given = parsed(takeover, "n", "--failover", "--force")
    assert given["force"] and not (given["allow_data_loss"] or given["accept_loss"])


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("error", "halt"),
        ("halt", "halt"),
        ("keep_local", "keep"),
        ("keep", "keep"),
        ("apply_remote", "overwrite"),
        ("overwrite", "overwrite"),
        ("skip_and_log", "log"),
        ("log", "log"),
    ],
)
def test_a_conflict_resolution_has_the_words_of_its_peers_and_the_stored_ones(
    word: str, policy: str
) -> None:
    assert parsed(add_table, "t", "--on-error", word)["on_error"] == policy


def test_other_words_are_no_conflict_resolution() -> None:
    with pytest.raises(click.BadParameter, match=r"error.*keep_local.*apply_remote.*skip_and_log"):
        parsed(add_table, "t", "--on-error", "ignore")


def test_a_table_is_added_with_the_resolution_error() -> None:
    assert parsed(add_table, "t")["on_error"] == "halt"


def test_help_shows_no_former_name_and_no_hidden_command() -> None:
    for argv in (["--help"], ["drop-node", "--help"], ["takeover", "--help"]):
        text = CliRunner().invoke(cli, argv).output
        assert "Usage" in text
        for word in ("--force", "--explain", "--dead", "--accept-loss", "\n  debug"):
            assert word not in text, (argv, word)


def test_aliases_of_commands_call_them() -> None:
    assert isinstance(cli, LazyGroup)
    for alias, name in (("change-capture", "change-form"), ("apply-errors", "events")):
        assert cli.get_command(click.Context(cli), alias) is cli.get_command(
            click.Context(cli), name
        )
        assert CliRunner().invoke(cli, [alias, "--help"]).exit_code == 0


def test_every_command_that_shows_its_steps_calls_it_dry_run() -> None:
    assert isinstance(cli, LazyGroup)
    for name, entry in cli.table.items():
        for parameter in cli.load(name, entry).params:
            if parameter.name == "explain":
                assert isinstance(parameter, options.Renamed)
                assert parameter.opts == ["--dry-run"]
