"""Names in printed commands are quoted for the shell: users paste these commands.

A table may be called ``a$(touch x)``, and a consumer ``; rm``.  What an f-string puts behind
``londiste `` is read from the sources, with the assignments of its function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import londiste
from londiste.cli import cli

ROOT = Path(londiste.__file__).parents[1]

#: Functions that quote for the shell, or return no text of users.
QUOTING = {
    "argument",
    "create_hint.create",
    "create_hint.like",
    "db_option",
    "dict.fromkeys",
    "len",
    "quoted",
    "shlex.quote",
    "word",
}
#: What needs no quotes, by file, or '' for all files.  Fixed words, and numbers:
PLAIN = {
    "": {"event.id", "event_id", "error.event_id", "error.address", "change.address", "one.batch"},
    "applier/event_errors.py": {"address"},
    "cascade/switching/failover.py": {"kind_of"},
    "cli/nodes/create_node.py": {"kind.value"},
    "cli/options.py": {"name"},
    "cli/queue/shell.py": {"session.prompt.split('=')[0]"},
    "cli/setup/apply.py": {"option"},
    "cli/setup/completion.py": {"shell"},
    "daemon/pidfile.py": {"option"},
    "handlers/registry.py": {"kind.NAME"},
    "install/compat.py": {"name"},
    "install/plan.py": {"component.name"},
    "lake/frame.py": {"version.format"},
    "replication/commands/change_form.py": {"form", "trigger"},
    "replication/commands/change_policy.py": {"'|'.join(table_rules.RESOLUTIONS)"},
    "replication/commands/merged_tables.py": {"command"},
    "replication/ddl/agreement.py": {"option"},
    "replication/forwarding/combined_queue.py": {"number"},
    "replication/worker/connections.py": {"state.type.value"},
    "selftest/pair.py": {"_WORKER", "SCHEMA", "QUEUE"},
    "ticker/cron.py": {"of"},
}
#: Quoted by the function that makes it, or the caller:
MADE = {
    "cascade/own_consumers.py": {"to"},
    "cascade/switching/change_provider.py": {"undo"},
    "cascade/switching/cluster_state.py": {"way"},
    "cli/cascade/takeover.py": {"more"},
    "copy/catchup.py": {"self._sides.resync_name"},
    "monitor/captures/rules.py": {"one.argument"},
    "monitor/queues/rules.py": {"queue", "name", "facts.place"},
    "pgq/coop.py": {"lose"},
    "replication/commands/add_table_checks.py": {"name"},
    "replication/commands/triggers.py": {"name"},
    "replication/failover/readiness.py": {"self.mend", "restore", "', londiste '.join(own)"},
    "wording.py": {"table", "skip"},
}
#: Names of sessions and statements for a screen, which nobody pastes:
NO_COMMANDS = {
    "compare/row_diff.py": {"task.piece.table.name"},
    "consumer/producer.py": {"self.queue"},
    "consumer/runner.py": {"self.name"},
    "consumer/source.py": {"what", "self.name"},
    "copy/sessions.py": {"self.name"},
    "demo/run.py": {"node", "' '.join([command, *map(_shell, args)])", "command"},
    "engine/oversized_rows.py": {"spec.name"},
    "engine/tasks.py": {"digest[:24]", "spec.table", "spec.name"},
    "replication/parallel/sqlapi.py": {"digest[:24]"},
    "replication/worker/connections.py": {"settings.job_name", "name"},
    "selftest/report.py": {"_e(report.londiste)"},
    "selftest/stage.py": {"words[0]"},
    "shell/node_statements.py": {"name"},
}

#: A command; of some texts the name of the program is put in front later.
_COMMAND = re.compile(
    r"\blondiste (?=[-a-z\0])"
    rf"|\A({'|'.join(name for name in cli.table if '-' in name)}) "
)
#: Where a command ends, and a sentence about it goes on.
_END = re.compile(r"[;:\n(]| (?:ended|exports|makes) ")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Around = ast.AST | None


def assigned(function: ast.AST, name: str) -> list[ast.expr]:
    """What a function assigns to a name; of a loop, what it loops over."""
    found = []
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                targets = [target]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                targets = [target]
            case _:
                continue
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            else:
                pairs = [(target, value)]
            found += [
                to
                for part, to in pairs
                if any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(part))
            ]
    return found


def is_quoted(what: ast.expr, function: ast.AST | None, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is one or more words of a shell, whatever users call their objects."""

    def all_quoted(*parts: ast.expr) -> bool:
        return all(is_quoted(part, function, seen) for part in parts)

    match what:
        case ast.Constant():
            return True
        case ast.FormattedValue(value=value):
            return all_quoted(value)
        case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all_quoted(*parts)
        case ast.BinOp(left=left, right=right):
            return all_quoted(left, right)
        case ast.BoolOp(values=parts):
            return all_quoted(*parts)
        case ast.IfExp(body=body, orelse=orelse):
            return all_quoted(body, orelse)
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return all_quoted(value)
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return all_quoted(value)
        case ast.Call(func=called, args=args):
            name = ast.unparse(called)
            if name == "map":
                return ast.unparse(args[0]) in QUOTING
            if name in ("sorted", "dict.fromkeys") or re.fullmatch(r"'[^']*'\.join", name):
                return all_quoted(args[0])
            return name in QUOTING
        case ast.Name(id=name):
            values = assigned(function, name) if function and name not in seen else []
            return bool(values) and all(
                is_quoted(value, function, seen | {name}) for value in values
            )
    return False


def texts(tree: ast.AST, inside: Around = None) -> Iterator[tuple[ast.JoinedStr, Around]]:
    """All f-strings, with the outermost function that each is in."""
    for node in ast.iter_child_nodes(tree):
        around = inside or (node if isinstance(node, Function) else None)
        if isinstance(node, ast.JoinedStr):
            yield node, around
        yield from texts(node, around)


def unquoted(source: str, where: str = "") -> Iterator[str]:
    """What the commands in the f-strings of a module contain without quotes."""
    known = {
        one for of in (PLAIN, MADE, NO_COMMANDS) for at in ("", where) for one in of.get(at, ())
    }
    for node, function in texts(ast.parse(source)):
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            command = _COMMAND.search(_END.split(text)[-1] + "\0")
            shown = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            if command and shown not in known and not is_quoted(part, function):
                yield f"{where}:{node.lineno}: {shown} in: {text}"
            text += "\0"


def test_every_name_in_a_printed_command_is_quoted() -> None:
    root = ROOT / "londiste"
    found = [
        one
        for path in sorted(root.rglob("*.py"))
        for one in unquoted(path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    ]
    assert not found, "\n".join(found)


def test_names_without_quotes_are_found() -> None:
    before = "def f(table, names):\n    name = argument(table)\n    "
    assert [*unquoted(before + "return f'londiste compare {table}'")]
    assert [*unquoted(before + "return f'{x}; londiste compare {name} {\" \".join(names)}'")]
    assert not [*unquoted(before + "return f'londiste compare {name}; table {table}'")]
