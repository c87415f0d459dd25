"""Settings: one frozen class per kind of process, the only reader of keys.

A value comes from the defaults here, then the file, then the environment
(``LONDISTE_<KEY>``), then ``--set`` and the command's own options; later wins.  Files are
TOML, or the INI files that people have from earlier versions, with the same keys.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import psycopg
from psycopg import conninfo
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from londiste import configfile
from londiste.errors import BadOption

log = logging.getLogger(__name__)

_ENV_PREFIX = "LONDISTE_"

#: Sections of single tables begin with it, where a kind has the setting ``tables``.
TABLE_SECTION = "table "

#: Keys of earlier versions whose purpose another setting serves.
_INSTEAD = {
    "use_skylog": "log_config",
    "skylog_locations": "log_config",
    "logfmt_console": "log_config",
    "logfmt_console_verbose": "log_config",
    "logfmt_file": "log_config",
    "logfmt_file_verbose": "log_config",
    "logdatefmt_console": "log_config",
    "logdatefmt_file": "log_config",
    "log_size": "log_config",
    "log_count": "log_config",
    "obfuscator_map": "londiste change-handler TABLE --handler obfuscate --handler-arg 'rules={…}'",
    "shard_info_sql": "londiste change-handler TABLE --handler shard --handler-arg nr=… count=…",
    "shard_hash_func": "londiste change-handler TABLE --handler shard --handler-arg hash_func=…",
}

#: Keys of earlier versions that are read without complaint and have no effect here (yet).
WITHOUT_EFFECT = frozenset(
    {
        "compare_fmt",
        "compare_sql",
        "config_format",
        "connection_check_period",
        "connection_lifetime",
        "exception_grace",
        "exception_quiet",
        "exception_reset",
        "keepalive_stats",
        "local_only",
        "local_only_drop_execute",
        "log_count",
        "log_size",
        "logdatefmt_console",
        "logdatefmt_file",
        "logfmt_console",
        "logfmt_console_verbose",
        "logfmt_file",
        "logfmt_file_verbose",
        "config_dir",
        "config_file",
        "host_name",
        "obfuscator_map",
        "pgq_autocommit",
        "service_name",
        "shard_hash_func",
        "shard_info_sql",
        "skylog_locations",
        "sql_retry",
        "sql_retry_formula_a",
        "sql_retry_formula_b",
        "sql_retry_formula_cap",
        "sql_retry_max_count",
        "sql_retry_max_time",
        "table_filter",
        "threaded_copy_pool_size",
        "threaded_copy_tables",
        "use_skylog",
    }
)

_OTHER_NAMES = {
    "pgq_queue_name": "queue_name",
    "pgq_consumer_id": "consumer_name",
    "src_db": "db",
    "dst_db": "target_db",
}


class Settings(BaseSettings):
    """What every kind shares."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=_ENV_PREFIX, validate_default=False
    )
    sections: ClassVar[tuple[str, ...]] = ("londiste",)

    logfile: Path | None = Field(None, description="Log to this file as well.")
    log_config: Path | None = Field(
        None, description="Log as this file says: TOML, JSON or INI for Python's logging."
    )
    syslog: bool = Field(False, description="Log to syslog as well.")
    syslog_ident: str = Field("", description="Name of the program in syslog; job_name if empty.")
    syslog_facility: str = Field("daemon", description="Facility in syslog.")
    syslog_address: str = Field("/dev/log", description="Socket of syslog, or HOST:PORT for UDP.")
    pidfile: Path | None = Field(None, description="Where a daemon keeps its process id.")
    lock_timeout: float = Field(
        10.0, ge=0, description="Seconds to wait for a lock on the source or the target."
    )
    execute_lock_timeout: float = Field(
        2.0,
        gt=0,
        description="Seconds that a statement of a script waits for its locks before it lets"
        " others through and is tried again.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # load() has merged everything in its order already.
        return (init_settings,)


def _as_itself(dsn: str) -> str:
    """The connection string of sessions that write every table as themselves."""
    setting = "-c londiste.run_as_owner=off"
    try:
        options = str(conninfo.conninfo_to_dict(dsn).get("options") or "")
    except psycopg.Error:
        # Whoever connects says what is wrong with it.
        return dsn
    if setting in options:
        return dsn
    return conninfo.make_conninfo(dsn, options=f"{options} {setting}".strip())


def spark_texts(value: Any) -> Any:
    """Settings of Spark as texts, as Spark wants them."""
    if isinstance(value, dict):
        return {
            k: ("true" if v is True else "false" if v is False else str(v))
            for k, v in value.items()
        }
    return value


class DatabaseSettings(Settings):
    """For commands that need one database and no node."""

    db: str = Field(description="Connection string of this database (required).")


class NodeSettings(DatabaseSettings):
    """For commands about one node: a queue in a database."""

    queue_name: str = Field(description="The cascaded queue (required).")
    job_name: str = Field("", description="Name of this job; the file's name when empty.")
    consumer_name: str = Field("", description="Name of the worker's consumer; job_name if empty.")
    node_name: str = Field("", description="Name of this node, for create-*.")
    public_node_location: str = Field(
        "", description="Connection string by which other nodes reach this one, for create-*."
    )
    initial_provider_location: str = Field(
        "", description="Connection string of the provider, for create-*."
    )
    remote_extra_connstr: str = Field(
        "", description="Added to the location of every other node: user=, sslmode=, …"
    )
    answer_timeout: float = Field(
        20.0,
        gt=0,
        description="Seconds over lock_timeout after which a server that is silent in the middle of"
        " a command about nodes is taken for unreachable, and so is the provider of a worker.",
    )
    run_as_owner: bool = Field(
        True,
        description="Write each table as its owner, as far as the role of db may become that role;"
        " false: triggers and functions of tables run with the rights of the worker.",
    )
    handler_modules: tuple[str, ...] = Field(
        (), description="Python modules with handlers of your own."
    )
    obfuscator_key: str = Field(
        "", repr=False, description="Key of the hashes of handler obfuscate; the same on all nodes."
    )

    register_only_tables: tuple[str, ...] = Field(
        (), description="Patterns of the only tables of the queue that this node knows."
    )
    register_skip_tables: tuple[str, ...] = Field(
        (), description="Patterns of tables of the queue that this node does not know."
    )
    register_only_seqs: tuple[str, ...] = Field(
        (), description="Patterns of the only sequences of the queue that this node knows."
    )
    register_skip_seqs: tuple[str, ...] = Field(
        (), description="Patterns of sequences of the queue that this node does not know."
    )

    follow_tables: tuple[str, ...] = Field(
        (), description="Patterns of tables that this node keeps as soon as it knows of them."
    )
    follow_skip_tables: tuple[str, ...] = Field(
        (), description="Patterns of tables that it does not, although follow_tables names them."
    )
    follow_create: Literal["no", "columns", "full"] = Field(
        "no", description="Make followed tables that are missing: as add-table --create(-full)."
    )

    @model_validator(mode="after")
    def _role(self) -> Self:
        # Every session on the node has to know it, also those of tasks in other processes.
        if not self.run_as_owner:
            self.__dict__["db"] = _as_itself(self.db)
        return self

    @field_validator(
        "follow_tables",
        "follow_skip_tables",
        "register_only_tables",
        "register_skip_tables",
        "register_only_seqs",
        "register_skip_seqs",
        mode="before",
    )
    @classmethod
    def _patterns(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return () if value is None else value

    @field_validator("handler_modules", mode="before")
    @classmethod
    def _modules(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(name for name in re.split(r"[\s,]+", value) if name)
        return () if value is None else value

    @field_validator("queue_name", "job_name", "consumer_name", "node_name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if re.search(r"[\x00-\x1f\x7f]", value):
            raise ValueError("control characters in a name")
        return value

    @field_validator("job_name", "consumer_name")
    @classmethod
    def _job_name(cls, value: str) -> str:
        # What copies its tables is named after it, with .copy. and the table's name.
        if ".copy." in value:
            raise ValueError(".copy. in a name: consumers that copy tables have it in theirs")
        return value

    @field_validator("queue_name")
    @classmethod
    def _some_name(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the queue needs a name")
        return value

    @property
    def consumer(self) -> str:
        """The consumer of the worker on its provider's queue."""
        return self.consumer_name or self.job_name


class WorkerSettings(NodeSettings):
    """The worker, its copies, and compare."""

    engine: Literal["spark", "local"] = Field(
        "spark",
        description="What carries copies, compare and large batches: spark, or this host.",
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of Spark: spark.master (local[*] if not set) and any spark.* key.",
    )
    spark_from_bytes: int = Field(
        64 * 1024 * 1024,
        ge=0,
        description="Tables smaller than this many bytes are copied and compared without Spark.",
    )
    spark_from_events: int = Field(
        1_000_000,
        ge=0,
        description="Batches of this many events are applied by a job of the engine; 0: none.",
    )
    parallel_apply: int = Field(2, ge=1, description="Tasks of such a job at a time.")
    parallel_copies: int = Field(2, ge=1, description="Tables, and chunks of a table, at a time.")
    copy_chunk_bytes: int = Field(
        128 * 1024 * 1024, ge=8192, description="Size of one chunk of a copied table, in bytes."
    )
    copy_index_jobs: int = Field(
        2, ge=1, description="Indexes of copied tables that are built at a time."
    )
    copy_index_memory: int = Field(
        512 * 1024 * 1024,
        ge=1024 * 1024,
        # More the server does not take for maintenance_work_mem.
        le=(2**31 - 1) * 1024,
        description="Memory in bytes that these builds together may take for sorting.",
    )
    copy_max_source_sessions: int = Field(
        0, ge=0, description="Copies go slower while more sessions work on the provider; 0: never."
    )
    copy_max_replica_lag: float = Field(
        0.0, ge=0, description="Copies go slower while a standby is more seconds behind; 0: never."
    )
    copy_resumable_from_bytes: int = Field(
        10 * 1024 * 1024 * 1024,
        ge=0,
        description="Tables from this many bytes on are copied so that another process can go on.",
    )
    loop_delay: float = Field(
        1.0, gt=0, description="Seconds between looks when nobody wakes the worker."
    )
    exception_sleep: float = Field(
        20.0, gt=0, description="Longest pause in seconds after an error; it starts at 0.1."
    )
    pgq_lazy_fetch: int = Field(
        5000, ge=0, description="Without effect: the worker's reads are bounded by bytes."
    )
    read_ahead_bytes: int = Field(
        48 * 1024 * 1024,
        ge=0,
        description="Memory for the next batch, read while this one is written; 0: not read ahead.",
    )
    conflict_log_rows: int = Field(
        10_000, ge=0, description="Rows of each table that policy log keeps, the newest."
    )
    pgq_batch_collect_events: int | None = Field(
        None, ge=1, description="Join ticks until a batch has this many events."
    )
    pgq_batch_collect_interval: str | None = Field(
        None, description="Join ticks until a batch spans this interval."
    )
    pgq_keep_lag: str | None = Field(
        None, description="Stay this interval behind; PostgreSQL's notation."
    )
    global_wm_publish_period: float = Field(
        300.0, gt=0, description="Seconds between global watermarks, on the root."
    )
    local_wm_publish_period: float = Field(
        300.0, gt=0, description="Seconds between reports of the watermark to the provider."
    )
    stats_period: float = Field(30.0, gt=0, description="Seconds between lines of statistics.")

    @field_validator("spark", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return spark_texts(value)


class ConsumerSettings(DatabaseSettings):
    """A consumer of one queue; subclass it for settings of your own."""

    sections: ClassVar[tuple[str, ...]] = ("consumer",)

    queue_name: str = Field(description="The queue (required).")
    job_name: str = Field("", description="Name of this job; the file's name when empty.")
    consumer_name: str = Field("", description="Name of the consumer; job_name if empty.")
    subconsumer_name: str = Field(
        "", description="Share the consumer with other processes; this one's own name among them."
    )
    subconsumer_timeout: str | None = Field(
        None, description="Take over the batch of a sharing process silent for this interval."
    )
    target_db: str | None = Field(
        None, description="Connection string of the database of the effects; db if empty."
    )
    local_tracking_file: Path | None = Field(
        None, description="File of the position, for delivery by local file."
    )
    table_filter: tuple[str, ...] = Field(
        (), description="Only events of these tables, which triggers write into ev_extra1."
    )
    event_types: tuple[str, ...] = Field((), description="Only events of these types.")
    consumer_filter: str = Field(
        "", description="Only events for which this SQL condition over ev_type, ev_data, … holds."
    )
    max_attempts: int | None = Field(
        None, ge=1, description="Failing events become dead letters after so many deliveries."
    )
    retry_seconds: int = Field(
        60, ge=0, description="Seconds after which a failed event is delivered again."
    )
    loop_delay: float = Field(
        1.0, gt=0, description="Seconds between looks when nobody wakes the consumer."
    )
    notify: bool = Field(True, description="Be woken by ticks; looks go on underneath.")
    exception_sleep: float = Field(
        20.0, gt=0, description="Longest pause in seconds after an error; it starts at 0.1."
    )
    stop_timeout: float = Field(
        60.0, gt=0, description="Seconds to finish the batch after a stop, then it is broken off."
    )
    pgq_lazy_fetch: int = Field(5000, ge=0, description="Events fetched at a time; 0 for all.")
    pgq_batch_collect_events: int | None = Field(
        None, ge=1, description="Join ticks until a batch has this many events."
    )
    pgq_batch_collect_interval: str | None = Field(
        None, description="Join ticks until a batch spans this interval."
    )
    pgq_keep_lag: str | None = Field(
        None, description="Stay this interval behind; PostgreSQL's notation."
    )
    stats_period: float = Field(30.0, gt=0, description="Seconds between lines of statistics.")
    keepalive_stats: float = Field(
        300.0, gt=0, description="Seconds between lines of statistics while nothing happens."
    )

    @field_validator("queue_name", "job_name", "consumer_name", "subconsumer_name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if re.search(r"[\x00-\x1f\x7f]", value):
            raise ValueError("control characters in a name")
        return value

    @field_validator("job_name", "consumer_name")
    @classmethod
    def _job_name(cls, value: str) -> str:
        # What copies its tables is named after it, with .copy. and the table's name.
        if ".copy." in value:
            raise ValueError(".copy. in a name: consumers that copy tables have it in theirs")
        return value

    @field_validator("queue_name")
    @classmethod
    def _some_name(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the queue needs a name")
        return value

    @field_validator("table_filter", "event_types", mode="before")
    @classmethod
    def _comma_separated(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(word.strip() for word in re.split(r"[,\n]", value) if word.strip())
        return value

    @property
    def consumer(self) -> str:
        """The consumer on the queue."""
        return self.consumer_name or self.job_name


class TickerSettings(Settings):
    """The ticker, for one or several databases."""

    sections: ClassVar[tuple[str, ...]] = ("ticker", "pgqd")

    db: str | None = Field(None, description="The database, when there is one only.")
    databases: tuple[str, ...] = Field(
        (), description="Connection strings of the databases to look after."
    )
    discover: bool = Field(
        False, description="Also look after all other databases of these servers with a queue."
    )
    base_connstr: str | None = Field(
        None, description="Connection string without dbname: all databases of this server."
    )
    initial_database: str = Field(
        "template1", description="Where base_connstr is asked which databases there are."
    )
    database_list: tuple[str, ...] = Field(
        (), description="Names of databases: only these, at base_connstr."
    )
    check_period: float = Field(
        60.0, gt=0, description="Seconds between looks for databases that were made or dropped."
    )
    connection_lifetime: float = Field(
        3600.0, gt=0, description="Seconds until a connection is replaced by a new one."
    )
    ticker_period: float = Field(
        1.0, gt=0, description="Longest time in seconds between two looks at the queues."
    )
    retry_period: float = Field(30.0, gt=0, description="Seconds between moves of retry events.")
    maint_period: float = Field(120.0, gt=0, description="Seconds between rotations and vacuums.")
    stats_period: float = Field(30.0, gt=0, description="Seconds between lines of statistics.")
    exception_sleep: float = Field(
        20.0, gt=0, description="Longest pause in seconds after an error; it starts at 0.1."
    )

    @field_validator("databases", mode="before")
    @classmethod
    def _one_per_line(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(line.strip() for line in value.splitlines() if line.strip())
        return value

    @field_validator("database_list", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(name for name in re.split(r"[\s,]+", value) if name)
        return () if value is None else value


S = TypeVar("S", bound=Settings)


def load(
    kind: type[S],
    file: Path | None,
    given: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> S:
    """Reads the settings of one kind.

    file -- TOML, or INI when the name ends in ``.ini``; None for environment and options only.
    given -- from the command line; wins over everything.
    defaults -- from the program, in place of those of the kind.

    Raises BadOption, with file and line where there is one, for an unknown key, a missing
    required one, or a value that does not fit.
    """
    found = {key: _Value(value, "the program") for key, value in (defaults or {}).items()}
    if file is not None:
        for key, value in _read(kind, file):
            found[key] = value
    for key in kind.model_fields:
        variable = _ENV_PREFIX + key.upper()
        if key not in {"spark", "tables"} and variable in os.environ:
            found[key] = _Value(os.environ[variable], variable)
    for key, value in (given or {}).items():
        key = _OTHER_NAMES.get(key, key)
        if key.startswith("spark.") and "spark" in kind.model_fields:
            _add_spark(found, key, str(value), "--set")
        elif key in kind.model_fields:
            found[key] = _Value(value, f"--set {key}")
        elif not _known_elsewhere(key):
            raise _unknown(key, kind, "--set")
    if "job_name" in kind.model_fields and "job_name" not in found and file is not None:
        found["job_name"] = _Value(file.stem, str(file))
    try:
        return kind(**{key: value.value for key, value in found.items()})
    except ValidationError as error:
        raise _bad_value(error, kind, found, file) from None


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


def _read(kind: type[Settings], file: Path) -> Iterator[tuple[str, _Value]]:
    text, sections = configfile.read(file)
    known = {name for cls in (*_kinds(), kind) for name in cls.sections} | {"spark"}
    for section in sections:
        if section and section not in known and not _of_a_table(kind, section):
            raise BadOption(
                f"{file}:{configfile.line(text, section, None)}: unknown section [{section}]",
                hint=f"the sections are {', '.join(sorted(known))}",
            )
    spark: dict[str, str] = {}
    tables: dict[str, dict[str, Any]] = {}
    yield from _of_the_node(kind, file, text, sections)
    for section, keys in sections.items():
        if section not in known and _of_a_table(kind, section):
            tables[section.removeprefix(TABLE_SECTION).strip()] = dict(keys)
            continue
        own = not section or section in kind.sections
        for key, value in keys.items():
            where = f"{file}:{configfile.line(text, section, key)}"
            key = _OTHER_NAMES.get(key, key)
            if section == "spark" or key.startswith("spark."):
                name = key if key.startswith("spark.") else f"spark.{key}"
                spark[name] = "true" if value is True else "false" if value is False else str(value)
                continue
            if key in kind.model_fields and (own or key in {"db", "lock_timeout"}):
                configfile.refuse_readable_password(file, key, value, where)
                yield key, _Value(value, where)
            elif not own:
                continue
            elif key in WITHOUT_EFFECT:
                instead = f"; use {_INSTEAD[key]}" if key in _INSTEAD else ""
                log.warning("%s: setting %s has no effect in this version%s", where, key, instead)
            elif _known_elsewhere(key):
                continue
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


def _of_the_node(
    kind: type[Settings], file: Path, text: str, sections: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, _Value]]:
    """What a program beside the worker takes over from [londiste], unless its own section has it.

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


def _of_a_table(kind: type[Settings], section: str) -> bool:
    """Whether a section has the settings of one table."""
    return section.startswith(TABLE_SECTION) and "tables" in kind.model_fields


def _kinds() -> list[type[Settings]]:
    return [DatabaseSettings, NodeSettings, WorkerSettings, TickerSettings, ConsumerSettings]


def _known_elsewhere(key: str) -> bool:
    return any(key in kind.model_fields for kind in _kinds()) or key.startswith("spark.")


def _unknown(key: str, kind: type[Settings], where: str) -> BadOption:
    close = difflib.get_close_matches(key, list(kind.model_fields), n=1)
    return BadOption(
        f"{where}: unknown setting {key}",
        hint=f"did you mean {close[0]}?" if close else "londiste config lists the settings",
    )


def _add_spark(found: dict[str, _Value], key: str, value: str, source: str) -> None:
    before = found["spark"].value if "spark" in found else {}
    found["spark"] = _Value({**before, key: value}, source)


def _bad_value(
    error: ValidationError, kind: type[Settings], found: Mapping[str, _Value], file: Path | None
) -> BadOption:
    problem = error.errors(include_url=False, include_input=False)[0]
    key = str(problem["loc"][0]) if problem["loc"] else "?"
    description = kind.model_fields[key].description if key in kind.model_fields else ""
    if problem["type"] == "missing":
        where = f"{file}: " if file else ""
        return BadOption(
            f"{where}setting {key} is missing",
            detail=description or "",
            hint=f"set {key} in the file (-c FILE), as {_ENV_PREFIX}{key.upper()},"
            f" or with --set {key}=…",
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
