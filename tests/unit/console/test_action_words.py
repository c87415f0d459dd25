"""Actions of the console: the commands that they show, and the numbers that they accept."""

from __future__ import annotations

import shlex

import pytest

from londiste.console.access import Policy
from londiste.console.actions import ACTIONS, MOST_TASKS, Action, number_of
from londiste.console.forms import Forms
from londiste.console.render import Renderer
from londiste.errors import BadOption, LondisteError


@pytest.mark.parametrize("action", ACTIONS.values(), ids=lambda a: a.name)
def test_a_name_is_no_option_of_the_command_of_an_action(action: Action) -> None:
    def options(name: str) -> list[str]:
        values = dict.fromkeys((*action.words, *(one.name for one in action.inputs)), name)
        return [word for word in shlex.split(action.command(values)) if word.startswith("-")]

    for name in ("--help", "-x y;", "\\--help"):
        assert options(name) == options("plain")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "٣", str(2**31), "9" * 1_000])
def test_a_limit_is_in_the_range_of_the_database(text: str) -> None:
    with pytest.raises(BadOption, match=r"tasks: .*not a number from 1 to 2147483647") as no:
        number_of("tasks", text, 1, MOST_TASKS)
    assert len(no.value.message) < 100
    assert number_of("tasks", "2147483647", 1, MOST_TASKS) == MOST_TASKS
    assert number_of("tasks", "", 1, MOST_TASKS) is None


def test_what_code_of_a_table_says_is_not_shown() -> None:
    forms = Forms(
        Policy(), Renderer([], 1.0), list, actions=True, show_values=False, changed=lambda: None
    )
    error = LondisteError("pay of 7 is secret", detail="secret", hint="secret")
    error.sqlstate, error.by_code = "P0001", True
    assert forms._plain(error) == ("code of a table raised P0001", "", "")
