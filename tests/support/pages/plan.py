"""What stands before a page is pasted, and what stands for the reader's own things."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NONE: Mapping[str, str] = {}


@dataclass(frozen=True)
class Page:
    """How one page is pasted.

    Keys of mappings are fragments of the page: of a line of a script, or of another block.  Each
    has to be there, so that no plan outlives its page.
    """

    path: str
    #: Databases with these names, also services; with Londiste's SQL, or empty.
    installed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    #: Empty databases on a second server.
    elsewhere: tuple[str, ...] = ()
    #: Nodes of queue ``shop`` and their providers: ``NAME.toml``, service ``NAME``, running.
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    #: Commands that a reader has given before the page begins.
    given: str = ""
    #: What stands on the page for something of the reader, and what that is here.
    names: Mapping[str, str] = field(default_factory=dict)
    #: Commands before a line or a block: what happens meanwhile, or waiting for something.
    before: Mapping[str, str] = field(default_factory=dict)
    #: Commands that stay until Ctrl-C, by expressions that their lines match.
    stays: tuple[str, ...] = ()
    #: Commands with another exit code than 0.
    codes: Mapping[str, int] = field(default_factory=dict)
    #: Files of blocks that do not name theirs; ``>>`` completes one.
    files: Mapping[str, str] = field(default_factory=dict)
    #: The database of SQL blocks: by default the first one.
    sql: Mapping[str, str] = field(default_factory=dict)
    #: Output that differs from the page, with the reason.
    other_output: Mapping[str, str] = field(default_factory=dict)
    #: Blocks and lines that cannot run here, with the reason: the visible list.
    not_run: Mapping[str, str] = field(default_factory=dict)
    #: What of the page has not been seen to run yet: its test may fail.
    unfinished: str = ""
    #: Commands after the last block: the result.
    then: str = ""
    #: Seconds for a block.
    patience: float = 120.0

    @property
    def fragments(self) -> set[str]:
        """Everything that has to be on the page."""
        maps = (self.names, self.before, self.codes, self.files, self.sql)
        found = {key for one in (*maps, self.other_output, self.not_run) for key in one}
        return found | set(self.stays)

    @property
    def database(self) -> str:
        """The service of SQL blocks that name none."""
        return next(iter((*self.nodes, *self.installed, *self.empty)))
