"""Every block of README, quickstarts and how-to pages has a plan, and names what exists.

tests/scenarios/wheels/test_pages.py pastes them; here is what needs no server.
"""

from __future__ import annotations

import ast
import configparser
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.docs.test_hints import called, options
from tests.support.pages.all import PAGES
from tests.support.pages.reading import LANGUAGES, ROOT, SHELL, Block, blocks, form, missing

FIRST = ("README.md", "docs/first-hour.md", "docs/quickstart.md", "docs/quickstart-queue.md")
DOCUMENTS = [*FIRST, *(f"docs/howto/{p.name}" for p in (ROOT / "docs/howto").glob("*.md"))]
DOCUMENTS += [f"docs/consumers/{path.name}" for path in (ROOT / "docs/consumers").glob("*.md")]
PLANS = {page.path: page for page in PAGES}
BLOCKS = [block for page in sorted(DOCUMENTS) for block in blocks(page)]


def test_every_page_has_a_plan_whose_fragments_are_on_it() -> None:
    assert sorted(PLANS) == sorted(DOCUMENTS)
    wrong = [
        f"{path}: {fragment}"
        for path, page in PLANS.items()
        for fragment in page.fragments
        if not any(_is_in(fragment, block, fragment in page.stays) for block in blocks(path))
    ]
    assert not wrong, "\n".join(wrong)


def _is_in(fragment: str, block: Block, expression: bool) -> bool:
    if expression:
        return any(re.search(fragment, command) for command in block.commands)
    return fragment in block.text


def test_every_block_is_of_a_language_that_is_pasted_written_or_read() -> None:
    assert len(BLOCKS) > 200
    assert not [str(block) for block in BLOCKS if block.language not in LANGUAGES]


def _londiste(command: str) -> list[str] | None:
    """The words behind ``londiste`` of a command; None for other programs."""
    if "londiste" not in command:
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(itertools.takewhile(lambda word: not re.fullmatch("[|<>&;]+", word), lexer))
    while words and re.match(r"\w+=", words[0]):
        del words[0]
    return words[1:] if words[:1] == ["londiste"] else None


def _unknown(words: list[str]) -> str | None:
    """What a command of a page names and the program does not have."""
    words = words[1:] if re.search(r"\.(ini|toml)$", words[0]) else words
    try:
        command, rest = called([word for word in words if word != "-d"])
    except LookupError as error:
        return f"command {error}"
    known = options(command)
    given = [word.partition("=")[0] for word in rest if re.match("--[a-z]", word)]
    return next((f"option {one}" for one in given if one not in known), None)


@pytest.mark.parametrize("path", sorted(DOCUMENTS))
def test_commands_of_a_page_exist_with_their_options(path: str) -> None:
    old = {"provider", "subscriber", "replay"}  # of Skytools 2
    wrong = []
    for block in blocks(path):
        for command in block.commands if block.language in SHELL else ():
            words = _londiste(command)
            if words and not old & set(words):
                unknown = _unknown([word for word in words if word not in ("-v", "-q")])
                wrong += [f"{block}: no {unknown}: {command}"] if unknown else []
    assert not wrong, "\n".join(wrong)


def test_programs_and_settings_of_pages_can_be_read() -> None:
    for block in BLOCKS:
        try:
            _read(block)
        except (SyntaxError, tomllib.TOMLDecodeError, configparser.Error, yaml.YAMLError) as error:
            pytest.fail(f"{block}: {error}")


def _read(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    elif block.language == "ini":
        text = block.text if re.search(r"(?m)^\[", block.text) else f"[x]\n{block.text}"
        configparser.ConfigParser(interpolation=None).read_string(text)


def test_the_three_tasks_take_as_many_commands_and_files_as_their_table_says() -> None:
    text = (ROOT / "docs/first-hour.md").read_text(encoding="utf-8")
    told = [(int(n), int(f)) for n, f in re.findall(r"\) \| (\d+) \| (\d+)", text)]
    assert told == [(1, 0), (3, 0), (4, 1)]
    sections = text.split("\n## ")[1:]
    lines = [text.count("\n", 0, text.index(section)) for section in sections] + [10**6]
    for (commands, files), first, last in zip(told, lines, lines[1:], strict=False):
        here = [b for b in blocks("docs/first-hour.md") if first < b.line < last]
        assert sum(len(b.commands) for b in here if b.language in SHELL) == commands
        assert len([b for b in here if b.file]) == files


def test_output_of_a_page_is_compared_by_its_form() -> None:
    printed = "table    equal  rows on root\npublic.orders   yes  17\n"
    assert form("a  b   12") == form("a b 7")
    assert missing(["table  equal  rows on root", "public.orders yes 120400"], printed) == []
    assert missing(["public.…  yes …"], printed) == []
    assert missing(["public.items  yes 3"], printed) == ["public.items  yes 3"]


def test_blocks_are_split_into_commands_and_output() -> None:
    block = Block("x", 1, "console", "$ one \\\n  two\nshown\n$ three   # remark\n")
    assert block.script == "one \\\n  two\nthree   # remark\n"
    assert block.commands == ["one    two", "three"]
    assert block.shown == [("one \\\n  two\n", ["shown"]), ("three   # remark\n", [])]
    assert Block("x", 1, "sql", "select 1; -- a; b\nselect $$;$$;").commands == [
        "select 1",
        "select ''",
    ]
    assert Block("x", 1, "toml", "# a.toml\n[x]\n").file == "a.toml"
    assert Path(Block("x", 1, "python", "# a/b.py: why\n").file or "") == Path("a/b.py")
