"""The code blocks of a page, and what a reader pastes of them.

| language | what a reader does |
|---|---|
| none, ``sh``, ``console`` | pastes the commands; in ``console`` those behind ``$``, the rest is their output |
| ``sql`` | runs the statements in ``psql`` |
| ``python`` | runs the program |
| ``toml``, ``ini`` | writes or completes a settings file |
| ``text``, ``mermaid``, ``yaml`` | reads it |

A first line ``# name.py``, ``# name.toml`` or ``-- name.sql`` makes a block a file of that name.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]

SHELL = frozenset({"", "sh", "console"})
SETTINGS = frozenset({"toml", "ini"})
READ = frozenset({"text", "json", "mermaid", "yaml"})
LANGUAGES = SHELL | SETTINGS | READ | {"sql", "python"}


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the block is, by its first line."""
        found = re.match(r"(?:#|--) ([\w./-]+\.(?:py|toml|ini|sql))(?=[\s:]|$)", self.text)
        return found[1] if found and self.language not in SHELL else None

    @property
    def script(self) -> str:
        """What a reader pastes into the shell."""
        return "".join(line for line, pasted in _lines(self) if pasted)

    @property
    def shown(self) -> list[tuple[str, list[str]]]:
        """Commands of a console, each with the output below it."""
        found: list[tuple[str, list[str]]] = []
        for line, pasted in _lines(self):
            if pasted and (not found or found[-1][1] or not found[-1][0].endswith("\\\n")):
                found.append((line, []))
            elif pasted:
                found[-1] = (found[-1][0] + line, [])
            elif line.strip():
                found[-1][1].append(line.rstrip("\n"))
        return found

    @property
    def commands(self) -> list[str]:
        """The commands, statements and programs of the block, one text for each."""
        if self.language in SHELL:
            return shell_commands(self.script)
        if self.language == "sql" and not self.file:
            return statements(self.text)
        return [self.text] if self.language == "python" else []

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """The code blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found[2], textwrap.dedent(found[3]))
        for found in re.finditer(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$", text)
    ]


def _lines(block: Block) -> list[tuple[str, bool]]:
    """Lines of a shell block; True for those that are pasted."""
    if block.language != "console":
        return [(line, True) for line in block.text.splitlines(keepends=True)]
    found: list[tuple[str, bool]] = []
    for line in block.text.splitlines(keepends=True):
        more = bool(found) and found[-1][1] and found[-1][0].rstrip().endswith("\\")
        found.append((line.removeprefix("$ "), line.startswith("$ ") or more))
    return found


def shell_commands(script: str) -> list[str]:
    """The commands of a script: without comments, here-documents and broken lines."""
    plain = re.sub(r"(?ms)<<(\w+)\n.*?^\1$", "", script).replace("\\\n", " ")
    lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in plain.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def statements(text: str) -> list[str]:
    """The statements of an SQL text; a body in dollars belongs to its statement."""
    plain = re.sub(r"(?s)\$\$.*?\$\$", "''", re.sub(r"--[^\n]*", "", text))
    return [one.strip() for one in plain.split(";") if one.strip()]


def form(line: str) -> str:
    """A line of output without what differs from run to run: figures, widths of columns."""
    line = re.sub(r"\d+", "0", line)
    return re.sub(r"[-\s|+]+", " ", line).strip()


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines of a page that the command has not printed; ``…`` and ``...`` stand for any text."""
    lines = [form(line) for line in printed.splitlines()]
    wanted = {
        line: ".*".join(re.escape(form(part)) for part in re.split(r"…|\.\.\.", line))
        for line in shown
    }
    return [
        line
        for line, pattern in wanted.items()
        if pattern.replace(".*", "") and not any(re.fullmatch(pattern, one) for one in lines)
    ]
