"""SQL reference generator: docs/reference/sql/*.md from the files in sql/ (``make docs``).

Signatures, header comments, grants and error codes are read from the text of the files, so the
pages need no database and are reproducible.  tests/docs compares the committed pages with them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SQL = ROOT / "sql"
PAGES = ROOT / "docs" / "reference" / "sql"

#: Order of the groups; others follow by name.
_ORDER = (
    "queues producing delayed subconsumers consuming batches receiving events ticks failed"
    " streaming ticking maintenance positions rebase info triggers nodes locations subscribers"
    " consumers watermarks replicated_tables capture copy compare sequences execute fkeys"
    " partitions internal"
)
GROUPS = _ORDER.split()
TITLES = {
    "delayed": "Delayed events",
    "failed": "Dead letters",
    "streaming": "Between two ticks",
    "positions": "Positions kept elsewhere",
    "rebase": "Restored databases",
    "fkeys": "Foreign keys",
    "internal": "Helpers",
    "info": "Looking",
}

_SAME_TYPE = {
    "bigint": "int8",
    "integer": "int4",
    "int": "int4",
    "smallint": "int2",
    "bool": "boolean",
    "timestamp with time zone": "timestamptz",
    "double precision": "float8",
    "character varying": "varchar",
}
_MODES = {"in", "out", "inout", "variadic"}


@dataclass(frozen=True)
class Function:
    """One overload."""

    name: str
    group: str
    arguments: tuple[str, ...]
    returns: str
    options: str
    header: str
    body: str

    @property
    def internal(self) -> bool:
        return self.name.split(".")[1].startswith("_")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Types of the inputs, spelled as a grant may spell them."""
        return tuple(
            _type(argument)
            for argument in self.arguments
            if _words(argument)[0] not in {"out", "table"}
        )

    def signature(self) -> str:
        """As in the file, without what the program alone needs."""
        if not self.arguments:
            lines = f"{self.name}()"
        elif len(self.name) + sum(len(a) + 2 for a in self.arguments) < 90:
            lines = f"{self.name}({', '.join(self.arguments)})"
        else:
            lines = f"{self.name}(\n    " + ",\n    ".join(self.arguments) + "\n)"
        return f"{lines} returns {self.returns}"


@dataclass
class Table:
    """One table with what its comments say."""

    name: str
    columns: list[tuple[str, str]]
    comment: str = ""
    view: bool = False
    comments: dict[str, str] = field(default_factory=dict)


def main() -> int:
    """Writes the pages; removes those of schemas that are gone."""
    wanted = pages()
    PAGES.mkdir(parents=True, exist_ok=True)
    for old in PAGES.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """File name -> text, for every schema and the list of them."""
    schemas = sorted(path.parent for path in SQL.glob("*/component.toml"))
    everything = {schema.name: list(functions(schema)) for schema in schemas}
    codes = error_codes([one for found in everything.values() for one in found])
    written = {f"{s.name}.md": _page(s, everything[s.name], codes) for s in schemas}
    return {**written, "index.md": _index(schemas)}


# -- reading -------------------------------------------------------------------------------


def functions(schema: Path) -> Iterator[Function]:
    """All functions of a schema, file by file."""
    for path in sorted([*schema.glob("functions/**/*.sql"), *schema.glob("triggers/**/*.sql")]):
        group = "triggers" if path.parent.name == "triggers" else path.parent.name
        yield from in_text(path.read_text(encoding="utf-8"), group)


def in_text(text: str, group: str) -> Iterator[Function]:
    """The functions that a file makes."""
    for match in re.finditer(r"(?im)^create (?:or replace )?function\s+([\w.]+)\s*\(", text):
        end = _closing(text, match.end() - 1)
        quote = re.compile(r"\bas\s+(\$\w*\$)").search(text, end)
        assert quote, f"{match.group(1)}: no body in dollar quotes"
        stop = text.index(quote.group(1), quote.end())
        head, body = text[end + 1 : quote.start()], text[quote.end() : stop]
        comment = re.search(r"/\*+(.*?)\*/", body, re.DOTALL)
        returns = re.search(
            r"(?is)\breturns\s+(.*?)(?=\s*\b(?:language|security|set|stable|volatile|immutable"
            r"|strict|called|cost|rows|parallel|leakproof)\b|\Z)",
            head,
        )
        yield Function(
            name=match.group(1).lower(),
            group=group,
            arguments=tuple(_split(_without_comments(text[match.end() : end]))),
            returns=_one_line(returns.group(1)) if returns else "record",
            options=head.lower(),
            header=_unindented(comment.group(1)) if comment else "",
            body=_without_comments(body),
        )


def tables(schema: Path) -> Iterator[Table]:
    """All tables and views of a schema in the order in which they are made."""
    for path in sorted(schema.glob("tables/*.sql")):
        text = _without_comments(path.read_text(encoding="utf-8"))
        found: dict[str, Table] = {}
        for match in re.finditer(r"(?im)^create (?:unlogged )?table\s+([\w.]+)\s*\(", text):
            parts = _split(text[match.end() : _closing(text, match.end() - 1)])
            columns = [
                (part.split(None, 1)[0], part.split(None, 1)[1])
                for part in parts
                if part.split(None, 1)[0].lower()
                not in {"constraint", "primary", "unique", "check", "foreign", "exclude"}
            ]
            found[match.group(1)] = Table(match.group(1), columns)
        for name in re.findall(r"(?im)^create (?:or replace )?view\s+([\w.]+)", text):
            found[name] = Table(name, [], view=True)
        for kind, name, comment in re.findall(
            r"(?is)comment on (table|view|column)\s+([\w.]+)\s+is\s+'((?:[^']|'')*)'", text
        ):
            comment = _one_line(comment.replace("''", "'"))
            if kind.lower() in {"table", "view"} and name in found:
                found[name].comment = comment
            elif kind.lower() == "column" and name.rpartition(".")[0] in found:
                table, _, column = name.rpartition(".")
                found[table].comments[column] = comment
                if found[table].view:
                    # Its query says what the columns are; their comments are in their order.
                    found[table].columns.append((column, ""))
        yield from found.values()


@dataclass
class Grants:
    """EXECUTE privileges of a schema."""

    by_function: dict[tuple[str, tuple[str, ...]], set[str]]
    on_all: set[str]

    def of(self, function: Function) -> list[str]:
        """The roles, everybody first."""
        roles = self.on_all | self.by_function.get((function.name, function.inputs), set())
        return ["public"] if "public" in roles else sorted(roles)


def grants(schema: Path) -> Grants:
    """The grants of the files, grants.sql first; other functions are for the owner."""
    files = sorted([*schema.glob("functions/**/*.sql"), *schema.glob("triggers/**/*.sql")])
    text = ";".join(
        # A body may hold grants that it gives when it is called.
        _without_comments(re.sub(r"(?s)(\$\w*\$).*?\1", "", path.read_text(encoding="utf-8")))
        for path in [*files, *schema.glob("grants.sql")]
    )
    revoked = re.search(r"(?i)revoke all on all functions", text)
    result = Grants({}, set() if revoked else {"public"})
    for statement in text.split(";"):
        one = re.fullmatch(
            r"(?is)\s*grant execute on (all functions in schema \w+|functions?\s.*?)\s+to\s+(.*)",
            statement,
        )
        if one is None:
            continue
        roles = {role.strip() for role in one.group(2).split(",")}
        if one.group(1).lower().startswith("all"):
            result.on_all |= roles
            continue
        for item in _split(one.group(1).split(None, 1)[1]):
            name, _, rest = item.partition("(")
            inputs = tuple(_type(t) for t in _split(rest.rsplit(")", 1)[0]))
            result.by_function.setdefault((name.strip().lower(), inputs), set()).update(roles)
    return result


def error_codes(every: list[Function]) -> dict[str, list[str]]:
    """SQLSTATEs of class LD by function name, with those of its calls; LD000 leaves no function."""
    own: dict[str, set[str]] = {}
    calls: dict[str, set[str]] = {}
    for one in every:
        own.setdefault(one.name, set()).update(re.findall(r"'(LD(?!000)\d{3})'", one.body))
        # Function calls in hints are strings.
        code = re.sub(r"'(?:[^']|'')*'", "''", one.body)
        calls.setdefault(one.name, set()).update(
            name.lower() for name in re.findall(r"\b(\w+\.\w+)\s*\(", code)
        )
    result: dict[str, list[str]] = {}
    for name in own:
        seen, todo = {name}, [name]
        while todo:
            new = (calls[todo.pop()] & own.keys()) - seen
            seen |= new
            todo += new
        result[name] = sorted({code for each in seen for code in own[each]})
    return result


# -- writing -------------------------------------------------------------------------------

_NOTE = "<!-- Made from sql/{0} by docs/generate.py; change the files there and run: make docs -->"


def _page(schema: Path, found: list[Function], codes: dict[str, list[str]]) -> str:
    rights = grants(schema)
    lines = [f"# Schema `{schema.name}`", "", _NOTE.format(schema.name), ""]
    lines += [f"Version {_component(schema)['version']}: {_about(schema)}.", ""]
    public = [one for one in found if not one.internal]
    groups = sorted({one.group for one in public}, key=_rank)
    lines += [f"[{_title(g)}](#{_anchor(_title(g))}) ·" for g in groups]
    lines += ["[Tables](#tables) ·", "[Internal functions](#internal-functions)", ""]
    for group in groups:
        lines += [f"## {_title(group)}", ""]
        members = [one for one in public if one.group == group]
        for name in dict.fromkeys(one.name for one in members):
            overloads = [one for one in members if one.name == name]
            lines += _function(name, overloads, rights, codes[name])
    lines += ["## Tables", ""]
    lines += [line for table in tables(schema) for line in _table(table)]
    lines += ["## Internal functions", ""]
    lines += ["For Londiste only; they may change in any release.", ""]
    for name, one in sorted({one.name: one for one in found if one.internal}.items()):
        lines.append(f"* `{name}` – {_marked(_sentence(one.header))}")
    return "\n".join(lines).rstrip() + "\n"


def _function(
    name: str, overloads: list[Function], rights: Grants, codes: list[str]
) -> Iterator[str]:
    yield from (f"### {name}", "", "```sql", *(one.signature() for one in overloads), "```", "")
    for header in dict.fromkeys(one.header for one in overloads if one.header):
        yield from _prose(header)
    notes = []
    who: dict[str, None] = dict.fromkeys(
        ", ".join(f"`{role}`" for role in rights.of(one)) or "the owner only" for one in overloads
    )
    notes.append(f"Callable by {'; or '.join(who).replace('`public`', 'every role')}.")
    if any("security definer" in one.options for one in overloads):
        notes.append("Runs with the rights of the owner.")
    if all(re.search(r"\bstrict\b", one.options) for one in overloads):
        notes.append("Returns NULL if an argument is NULL.")
    if codes:
        notes.append("Raises " + ", ".join(f"[`{c}`](../errors.md)" for c in codes) + ".")
    yield from (" ".join(notes), "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"### {table.name}", "")
    if table.comment:
        yield from (f"{table.comment[0].upper()}{table.comment[1:]}.", "")
    if table.view:
        yield from ("| column of the view | meaning |", "|---|---|")
    else:
        yield from ("| column | type | meaning |", "|---|---|---|")
    for name, kind in table.columns:
        kind = _one_line(kind).replace("|", "\\|")
        cells = [f"`{name}`", *([] if table.view else [f"`{kind}`"])]
        cells.append(_marked(table.comments.get(name, ""), cell=True))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _index(schemas: list[Path]) -> str:
    lines = [
        *("# The SQL interface", "", _NOTE.format("*"), ""),
        "Schemas for programs: every function with its signature, purpose, callers and errors;",
        "every table with its columns.",
        "",
        "| schema | version | purpose |",
        "|---|---|---|",
    ]
    for schema in schemas:
        version = _component(schema)["version"]
        lines.append(f"| [`{schema.name}`]({schema.name}.md) | {version} | {_about(schema)} |")
    lines += [
        "",
        "Errors are raised with a [SQLSTATE of class LD](../errors.md), a detail and a hint."
        " Functions with `ret_code` and `ret_note` return instead: below 300 is success.",
    ]
    return "\n".join(lines) + "\n"


def _component(schema: Path) -> dict[str, str]:
    return tomllib.loads((schema / "component.toml").read_text(encoding="utf-8"))


def _about(schema: Path) -> str:
    text = (schema / "schema.sql").read_text(encoding="utf-8")
    comment = re.search(r"(?is)comment on schema\s+\w+\s+is\s+'((?:[^']|'')*)'", text)
    return _one_line(comment.group(1).replace("''", "'")) if comment else schema.name


def _rank(group: str) -> tuple[int, str]:
    return (GROUPS.index(group) if group in GROUPS else len(GROUPS) - 1, group)


def _title(group: str) -> str:
    return TITLES.get(group, group.replace("_", " ").capitalize())


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _prose(header: str) -> Iterator[str]:
    """Paragraphs; lines like ``i_name -- meaning`` become a list."""
    for paragraph in re.split(r"\n\s*\n", header.strip("\n")):
        listed = False
        for line in paragraph.split("\n"):
            item = re.match(r"([\w., ]+?) -- (.*)", line)
            if item:
                names = ", ".join(f"`{n.strip()}`" for n in item.group(1).split(","))
                yield f"* {names}: {_marked(item.group(2))}"
                listed = True
            elif listed:
                yield f"  {_marked(line.strip())}"
            else:
                yield _marked(line.strip())
        yield ""


def _marked(text: str, *, cell: bool = False) -> str:
    """The text for Markdown: names as code, nothing else with a meaning of its own."""
    parts = re.split(r"(`[^`]*`)", text)
    for number in range(0, len(parts), 2):
        part = parts[number].replace("*", "\\*").replace("<", "&lt;")
        part = re.sub(r"(?<![\w'\"{/-])([\w.]*_\w*(?:\.\w+)*(?:\(\))?|\w+\(\))", r"`\1`", part)
        parts[number] = part
    done = "".join(parts)
    return done.replace("|", "\\|") if cell else done


def _sentence(header: str) -> str:
    first = _one_line(re.split(r"\n\s*\n", header.strip())[0]) if header.strip() else ""
    return re.split(r"(?<=[.;])\s", first)[0].rstrip(";")


# -- text ----------------------------------------------------------------------------------


def _without_comments(text: str) -> str:
    pattern = r"('(?:[^']|'')*')|/\*.*?\*/|--[^\n]*"
    return re.sub(pattern, lambda m: m.group(1) or "", text, flags=re.DOTALL)


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` closes."""
    depth = 0
    for match in re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|[()]", re.DOTALL).finditer(
        text, start
    ):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return match.start()
    raise ValueError("a bracket is not closed")


def _split(text: str) -> list[str]:
    """The parts between commas that are in no bracket and no string."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(r"'(?:[^']|'')*'|[(),\[\]]", text):
        sign = match.group()
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
    parts.append(text[begin:])
    return [_one_line(part) for part in parts if part.strip()]


def _words(argument: str) -> list[str]:
    words = argument.lower().split()
    return words if words[0] in _MODES else ["in", *words]


def _type(argument: str) -> str:
    """The type in an argument, with or without mode and name; ``int8`` for ``bigint``."""
    text = re.split(r"(?i)\s+default\s|\s*:?=\s*", argument)[0].lower()
    words = text.split()
    if words[0] in _MODES:
        words = words[1:]
    for start in range(len(words)):
        rest = " ".join(words[start:])
        base = rest.removesuffix("[]")
        if base in _SAME_TYPE:
            return _SAME_TYPE[base] + rest[len(base) :]
    return words[-1].removeprefix("pg_catalog.")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _unindented(comment: str) -> str:
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.split("\n")]
    return "\n".join(lines).strip("\n")


if __name__ == "__main__":
    sys.exit(main())
