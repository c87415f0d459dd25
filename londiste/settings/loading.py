"""Reads settings from file, environment and command line into one frozen object; reloads them.

A running process takes over most settings after SIGHUP; the others need a restart.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from londiste import configfile
from londiste.errors import BadOption
from londiste.settings import cascade_file, database_variable, pair
from londiste.settings.cascade_file import JOBS, OWN_KEYS, CascadeFile
from londiste.settings.earlier import INSTEAD, OTHER_NAMES, RENAMED, WITHOUT_EFFECT
from londiste.settings.fields import ENV_PREFIX, Settings, spark_texts
from londiste.settings.kinds import (
    ConsumerSettings,
    DatabaseSettings,
    NodeSettings,
    NotifySettings,
    RunSettings,
    TickerSettings,
    WebSettings,
    WorkerSettings,
)
from londiste.wording import did_you_mean

log = logging.getLogger(__name__)

#: Sections of single tables begin with it, where a kind has the setting ``tables``.
TABLE_SECTION = "table "

S = TypeVar("S", bound=Settings)


def load(
    kind: type[S],
    file: Path | None,
    given: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    node: str | None = None,
    anywhere: bool = True,
    others: Callable[[], Mapping[str, str]] = dict,
    variable: database_variable.Effect = "ignored",
) -> S:
    """Reads the settings of one kind.

    file -- TOML, or INI when the name ends in ``.ini``; None for environment and options only.
    node -- whose settings, if the file describes a whole cascade; ``anywhere``: without it those
        of the root.
    given -- from the command line; wins over everything.
    defaults -- from the program, in place of those of the kind.
    others -- names that are no settings, and the hint for each of them.
    variable -- what LONDISTE_DB does beside the file of a cascade.

    Raises BadOption, with file and line where there is one, for an unknown key, a missing
    required one, or a value that does not fit.
    """
    found = {key: _Value(value, "the program") for key, value in (defaults or {}).items()}
    given = dict(given or {})
    side = given.pop(pair.SIDE, None)
    whole = cascade_file.read(file) if file is not None else None
    if node is not None and whole is None:
        raise BadOption(
            f"--node {node}: " + (f"{file} has no section [nodes]" if file else "no cascade file"),
            hint="give a file with [nodes.NAME]: -c FILE, or londiste.toml in this directory",
        )
    fixed: Collection[str] = ()
    if whole is not None:
        of_file = dict(_of_cascade(kind, whole, node, anywhere))
        named = [str(of_file["db"].value)] if "db" in of_file else []
        named += of_file["databases"].value if "databases" in of_file else []
        if given.keys() & {"db", "databases"}:
            variable = "ignored"
        if not database_variable.overrules(kind, whole, named, variable, node or ""):
            fixed = OWN_KEYS & of_file.keys()
            if "queue_name" in fixed - given.keys() and variable != "ignored":
                database_variable.require_same_queue(whole)
        elif database_variable.is_elsewhere(whole):
            # Names of the file mean nothing in another database.
            of_file = {key: value for key, value in of_file.items() if key not in OWN_KEYS}
            file = None
        else:
            of_file.pop("databases", None)
        found |= of_file
    elif file is not None:
        found |= dict(_read(kind, file, side))
    for key in (*OTHER_NAMES, *kind.model_fields):
        if OTHER_NAMES.get(key, key) in fixed:
            continue
        word = ENV_PREFIX + key.upper()
        name = _present(key, word) if word in os.environ else key
        if name in kind.model_fields and name not in {"spark", "tables"} and word in os.environ:
            found[name] = _Value(os.environ[word], word)
    for key, value in given.items():
        key = _present(key, "--set")
        if key.startswith("spark.") and "spark" in kind.model_fields:
            _add_spark(found, key, str(value), "--set")
        elif key in kind.model_fields:
            found[key] = _Value(value, f"--set {key}")
        elif not _known_elsewhere(key):
            raise _not_set(key, kind, others())
        else:
            _note_always(kind, key, value, "--set")
    if "job_name" in kind.model_fields and "job_name" not in found and file is not None:
        found["job_name"] = _Value(file.stem, str(file))
    try:
        return kind(**{key: value.value for key, value in found.items()})
    except ValidationError as error:
        raise _bad_value(error, kind, found, file) from None


def databases_of(file: Path) -> list[str]:
    """The connection strings of the nodes in a settings file.  Raises BadOption."""
    whole = cascade_file.read(file)
    if whole is not None:
        return [dsn for node in whole.nodes.values() for dsn in (node.db, node.location)]
    own = configfile.read(file)[1].get("londiste", {})
    keys = ("db", "initial_provider_location", "public_node_location", *pair.DATABASES.values())
    return [str(own[key]) for key in keys if own.get(key)]


def _of_cascade(
    kind: type[Settings], whole: CascadeFile, node: str | None, anywhere: bool
) -> Iterator[tuple[str, _Value]]:
    """The settings of one node or job in the file of a cascade."""
    section = kind.sections[0]
    # A program that knows no queue works on a database, and those that know one on a node.
    anywhere = anywhere or section != "londiste" or "queue_name" not in kind.model_fields
    name = whole.chosen(node, section=section, anywhere=anywhere)
    jobs = whole.jobs.get(section, {})
    for key, value, where in whole.values(section, name, only=node is not None):
        key = _present(key, where)
        if key in kind.model_fields:
            yield key, _Value(value, where)
        elif name in jobs:
            raise _unknown(key, kind, where)
    if "spark" in kind.model_fields and section != "migrate":
        keys = {k if k.startswith("spark.") else f"spark.{k}": v for k, v in whole.spark().items()}
        if keys:
            yield "spark", _Value(spark_texts(keys), f"{whole.path}")


def annotated(kind: type[Settings]) -> str:
    """A TOML file with every setting of a kind: its description, and its default commented out."""
    lines = [f"[{kind.sections[0]}]"]
    for key, field in kind.model_fields.items():
        lines.append(f"# {field.description}")
        if key == "spark":
            lines += ['#"spark.master" = "local[*]"', ""]
            continue
        if key == "tables":
            # In sections of their own.
            lines.append("")
            continue
        if field.is_required():
            lines.append(f'{key} = ""')
        else:
            default = field.get_default(call_default_factory=True)
            lines.append(f"#{key} = {_toml(default)}")
        lines.append("")
    return "\n".join(lines)


class _Value:
    """A value and where it came from."""

    def __init__(self, value: Any, source: str) -> None:
        self.value = value
        self.source = source


def _read(
    kind: type[Settings], file: Path, side: str | None = None
) -> Iterator[tuple[str, _Value]]:
    text, sections = configfile.read(file)
    for key, value in pair.connections(sections).items():
        where = f"{file}:{configfile.line(text, 'londiste', key)}"
        configfile.refuse_readable_password(file, key, value, where)
    sections = pair.expanded(sections, file, side)
    known = {name for cls in (*_kinds(), kind) for name in cls.sections}
    known |= {"spark", "migrate", *JOBS}
    for section in sections:
        if section and section not in known and not _of_a_table(kind, section):
            raise BadOption(
                f"{file}:{configfile.line(text, section, None)}: unknown section [{section}]",
                hint=f"the sections are {', '.join(sorted(known))}",
            )
    spark: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    lenders = _lenders(kind, sections)
    yield from _of_the_node(kind, file, text, sections)
    for section, keys in sections.items():
        if section not in known and _of_a_table(kind, section):
            tables[section.removeprefix(TABLE_SECTION).strip()] = dict(keys)
            continue
        own = not section or section in kind.sections
        for key, value in keys.items():
            where = f"{file}:{configfile.line(text, section, key)}"
            key = _present(key, where)
            if section == "spark" or key.startswith("spark."):
                name = key if key.startswith("spark.") else f"spark.{key}"
                spark[name] = "true" if value is True else "false" if value is False else str(value)
                continue
            if key in kind.model_fields and (own or lenders.get(key) == section):
                configfile.refuse_readable_password(file, key, value, where)
                yield key, _Value(value, where)
            elif not own:
                continue
            elif key in WITHOUT_EFFECT:
                instead = f"; use {INSTEAD[key]}" if key in INSTEAD else ""
                log.warning("%s: setting %s has no effect in this version%s", where, key, instead)
            elif _known_elsewhere(key):
                _note_always(kind, key, value, where)
            else:
                raise _unknown(key, kind, where)
    if "base_connstr" in kind.model_fields and "pgqd" in sections:
        # A file of pgqd means all databases of the local server when it says nothing else.
        given = {key for key, value in sections["pgqd"].items() if value is not None}
        if not {"databases", "db", "base_connstr"} & given:
            yield "base_connstr", _Value("", str(file))
    if spark and "spark" in kind.model_fields:
        yield "spark", _Value(spark, str(file))
    if tables:
        yield "tables", _Value(tables, str(file))


def _lenders(kind: type[Settings], sections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Pure: of keys that no section of the program has, the section whose value it takes."""
    own = [name for name in sections if not name or name in kind.sections]
    others = [name for name in ("londiste", *sections) if name in sections and name not in own]
    return {
        key: name
        for key in ("lock_timeout", "db")
        if not any(key in sections[one] for one in own)
        for name in others[::-1]
        if key in sections[name]
    }


def _of_the_node(
    kind: type[Settings], file: Path, text: str, sections: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, _Value]]:
    """Settings that other programs inherit from [londiste], unless their own section has them.

    The log is the worker's own file.  The pid file is one beside the worker's: -s of one must not
    stop the other, and both may run.
    """
    if "londiste" in kind.sections:
        return
    section = kind.sections[0]
    for key in ("logfile", "pidfile"):
        value = sections.get("londiste", {}).get(key)
        if not value or key not in kind.model_fields:
            continue
        if key == "pidfile":
            path = Path(str(value))
            value = str(path.with_name(f"{path.stem}.{section}{path.suffix}"))
        yield key, _Value(value, f"{file}:{configfile.line(text, 'londiste', key)}")


def _present(key: str, where: str) -> str:
    """The present name of a setting; logs a notice for former names of Londiste 4."""
    if key in RENAMED:
        log.warning("%s: setting %s is now called %s", where, key, RENAMED[key])
    return OTHER_NAMES.get(key, key)


def _of_a_table(kind: type[Settings], section: str) -> bool:
    """Whether a section has the settings of one table."""
    return section.startswith(TABLE_SECTION) and "tables" in kind.model_fields


def _kinds() -> list[type[Settings]]:
    return [
        DatabaseSettings,
        NodeSettings,
        WorkerSettings,
        TickerSettings,
        ConsumerSettings,
        RunSettings,
        NotifySettings,
        WebSettings,
    ]


def _note_always(kind: type[Settings], key: str, value: Any, where: str) -> None:
    """Logs a warning about a value of another kind's setting that this kind does not follow."""
    always = kind.always.get(key)
    if always is not None and str(value) != always:
        log.warning(
            "%s: setting %s has no effect: %s always uses %s", where, key, kind.sections[0], always
        )


def _known_elsewhere(key: str) -> bool:
    return any(key in kind.model_fields for kind in _kinds()) or key.startswith("spark.")


def _unknown(key: str, kind: type[Settings], where: str) -> BadOption:
    rest = "londiste config lists the settings"
    return BadOption(
        f"{where}: unknown setting {key}", hint=did_you_mean(key, kind.model_fields, rest)
    )


def _not_set(key: str, kind: type[Settings], others: Mapping[str, str]) -> BadOption:
    """The error for ``--set``, which may name a setting of any program."""
    fields = [name for one in (kind, *_kinds()) for name in one.model_fields]
    close = difflib.get_close_matches(key, [*fields, *others], n=1)
    hint = did_you_mean(key, close, "londiste config lists the settings")
    if close and close[0] not in fields:
        hint = others[close[0]]
    return BadOption(f"--set: unknown setting {key}", hint=hint)


def _add_spark(found: dict[str, _Value], key: str, value: str, source: str) -> None:
    before = found["spark"].value if "spark" in found else {}
    found["spark"] = _Value({**before, key: value}, source)


#: Who has replicated by one command has no file yet, and has given neither name.
_BY_ONE_COMMAND = dict.fromkeys(
    ("db", "queue_name"),
    "; or, if londiste replicate has set it up: repeat it with --save FILE, which writes a file for"
    " -c FILE --node NAME",
)


def _bad_value(
    error: ValidationError, kind: type[Settings], found: Mapping[str, _Value], file: Path | None
) -> BadOption:
    problem = error.errors(include_url=False, include_input=False)[0]
    key = str(problem["loc"][0]) if problem["loc"] else "?"
    description = kind.model_fields[key].description if key in kind.model_fields else ""
    if problem["type"] == "missing":
        where = f"{file}: " if file else ""
        return BadOption(
            f"{where}required setting {key} is missing",
            detail=description or "",
            hint=f"set {key} in the file (-c FILE), as {ENV_PREFIX}{key.upper()},"
            f" or with --set {key}=…{'' if file else _BY_ONE_COMMAND.get(key, '')}",
        )
    source = found[key].source if key in found else "setting"
    text = str(problem["msg"])
    return BadOption(
        f"{source}: {key}: {text[0].lower()}{text[1:]}",
        detail=description or "",
        hint=f"correct the value of {key}",
    )


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


#: What every process reads once: it opens its log, pid file and metrics at the start.
OF_THE_PROCESS = (
    "logfile",
    "log_config",
    "log_format",
    "syslog",
    "syslog_ident",
    "syslog_facility",
    "syslog_address",
    "pidfile",
    "metrics",
    "metrics_hosts",
)

#: What names a worker, and what its session on the node was opened with: that has its lock.
OF_A_WORKER = ("db", "queue_name", "job_name", "consumer_name", "run_as_owner", "lock_timeout")


def changed(before: Settings, after: Settings, names: Collection[str]) -> list[str]:
    """Pure: the settings of these that differ, in their order."""
    return [n for n in names if getattr(before, n, None) != getattr(after, n, None)]


def taken_over(before: S, after: S, fixed: Collection[str]) -> S:
    """The new settings, with the old values of what needs a restart, which the log names.

    fixed -- what the program cannot change while it runs, apart from what no process can.
    """
    kept = changed(before, after, [*fixed, *OF_THE_PROCESS])
    if not kept:
        return after
    log.warning("changed settings that need a restart: %s", ", ".join(kept))
    return after.model_copy(update={name: getattr(before, name) for name in kept})
