"""Settings of each kind of program, one class per kind."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import psycopg
from psycopg import conninfo
from pydantic import Field, field_validator, model_validator

from londiste.dsn import extra_parameters
from londiste.settings.fields import (
    Address,
    BatchFields,
    CommaList,
    EngineFields,
    HomePath,
    LineList,
    LoopFields,
    MetricsFields,
    QueueFields,
    ReadyFields,
    Settings,
    WordList,
)


def _as_itself(dsn: str) -> str:
    """The connection string of sessions that write every table as themselves."""
    setting = "-c londiste.run_as_owner=off"
    try:
        options = str(conninfo.conninfo_to_dict(dsn).get("options") or "")
    except psycopg.Error:
        # The error is reported when a session connects.
        return dsn
    if setting in options:
        return dsn
    return conninfo.make_conninfo(dsn, options=f"{options} {setting}".strip())


class DatabaseSettings(Settings):
    """For commands that need one database and no node."""

    db: str = Field(description="Connection string of the database (required).")


class NodeSettings(QueueFields, DatabaseSettings):
    """For commands about one node: a queue in a database."""

    node_name: str = Field("", description="Name of this node, for create-*.")
    public_node_location: str = Field(
        "", description="Connection string by which other nodes reach this node, for create-*."
    )
    initial_provider_location: str = Field(
        "", description="Connection string of the provider, for create-*."
    )
    remote_extra_connstr: str = Field(
        "",
        description="Parameters added to the location of every other node: user=,"
        " sslmode=, …; with dbname=: the whole connection string of one node, for it alone."
        " A password needs the server beside it: host=.",
    )
    response_timeout: float = Field(
        20.0,
        gt=0,
        description="Seconds, in addition to lock_timeout, after which a silent server counts as"
        " unreachable: in a command that changes or compares nodes, and as database or provider of"
        " a worker or a copy.",
    )
    run_as_owner: bool = Field(
        True,
        description="Write each table as its owner, as far as the role of db may become that role;"
        " false: triggers and functions of tables run with the rights of the worker.",
    )
    handler_modules: WordList = Field((), description="Python modules with your own handlers.")
    obfuscator_key: str = Field(
        "", repr=False, description="Key of the hashes of handler obfuscate; the same on all nodes."
    )

    register_only_tables: CommaList = Field(
        (), description="Patterns: register only these tables of the queue on this node."
    )
    register_skip_tables: CommaList = Field(
        (), description="Patterns: do not register these tables of the queue on this node."
    )
    register_only_seqs: CommaList = Field(
        (), description="Patterns: register only these sequences of the queue on this node."
    )
    register_skip_seqs: CommaList = Field(
        (), description="Patterns: do not register these sequences of the queue on this node."
    )

    auto_add_tables: CommaList = Field(
        (), description="Patterns: add these tables automatically once they are registered."
    )
    auto_add_exclude: CommaList = Field(
        (), description="Patterns: tables that auto_add_tables does not add."
    )
    auto_add_create: Literal["no", "columns", "full"] = Field(
        "no",
        description="Create missing tables that are added automatically: as add-table --create"
        " (columns) or --create-full (full).",
    )

    @property
    def answer_seconds(self) -> float:
        """Seconds after which a server that sends nothing, and does not work, is lost."""
        return self.lock_timeout + self.response_timeout

    @field_validator("remote_extra_connstr")
    @classmethod
    def _usable_extra(cls, value: str) -> str:
        # At once, and not by each program whenever it reaches another node.
        extra_parameters(value)
        return value

    @model_validator(mode="after")
    def _role(self) -> Self:
        # Every session on the node has to know it, also those of tasks in other processes.
        if not self.run_as_owner:
            self.__dict__["db"] = _as_itself(self.db)
        return self


class WorkerSettings(LoopFields, BatchFields, EngineFields, ReadyFields, NodeSettings):
    """The worker, its copies, and compare."""

    engine: Literal["spark", "local"] = Field(
        "spark", description="Engine for copies, compare and large batches: spark or local."
    )
    spark_min_bytes: int = Field(
        64 * 1024 * 1024,
        ge=0,
        description="Tables below this size in bytes are copied and compared without Spark"
        " (0 = all by Spark, from the first chunk).",
    )
    parallel_copies: int = Field(
        2, ge=1, description="Parallel tables, and parallel chunks of a table."
    )
    copy_chunk_bytes: int = Field(
        128 * 1024 * 1024, ge=8192, description="Size of one chunk of a copied table, in bytes."
    )
    index_jobs: int = Field(2, ge=1, description="Parallel index builds after a copy.")
    copy_index_memory: int = Field(
        512 * 1024 * 1024,
        ge=1024 * 1024,
        # More the server does not take for maintenance_work_mem.
        le=(2**31 - 1) * 1024,
        description="Memory in bytes for sorting, for all parallel index builds together.",
    )
    copy_max_source_sessions: int = Field(
        0,
        ge=0,
        description="Throttle copies while more sessions are active on the provider (0 = never).",
    )
    copy_max_replica_lag: float = Field(
        0.0,
        ge=0,
        description="Throttle copies while a standby lags by more seconds (0 = never).",
    )
    copy_full_speed: bool = Field(
        False,
        description="Copy at full speed even if writers of the provider wait longer for their"
        " commits.",
    )
    resumable_copy_min_bytes: int = Field(
        10 * 1024 * 1024 * 1024,
        ge=0,
        description="Tables of at least this size in bytes are copied resumably.",
    )
    read_ahead_bytes: int = Field(
        48 * 1024 * 1024,
        ge=0,
        description="Memory in bytes for the next batch, which is read while this one is applied"
        " (0 = no read-ahead).",
    )
    read_from: str = Field(
        "",
        repr=False,
        description="Connection string of a hot standby of the provider: batches, copies and"
        " comparisons read there while it keeps up (empty: from the provider).",
    )
    read_from_wait: float = Field(
        2.0,
        ge=0,
        description="Seconds to wait until the standby of read_from has replayed a batch; after"
        " that the provider is read.",
    )
    audit_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of time in which londiste run audits the tables of a branch or leaf"
        " (compare --continuous), for example 0.05 (0 = no audit).",
    )
    conflict_log_rows: int = Field(
        10_000, ge=0, description="Rows per table that the conflict log keeps, newest first."
    )
    global_wm_publish_period: float = Field(
        300.0, gt=0, description="Seconds between global watermarks, on the root."
    )
    local_wm_publish_period: float = Field(
        300.0, gt=0, description="Seconds between reports of the watermark to the provider."
    )


class ConsumerSettings(LoopFields, BatchFields, QueueFields, ReadyFields, DatabaseSettings):
    """A consumer of one queue; subclass it for settings of your own."""

    sections: ClassVar[tuple[str, ...]] = ("consumer",)

    subconsumer_name: str = Field(
        "",
        description="Name of this process among those that share the consumer (empty: no sharing).",
    )
    subconsumer_timeout: str | None = Field(
        None,
        description="Take over the batch of a sharing process that is silent for this interval.",
    )
    target_db: str | None = Field(
        None, description="Connection string of the database of the effects (default: db)."
    )
    local_tracking_file: HomePath | None = Field(
        None, description="File with the position, for delivery by local file."
    )
    table_filter: CommaList = Field(
        (), description="Process only events of these tables, which triggers write into ev_extra1."
    )
    event_types: CommaList = Field((), description="Process only events of these types.")
    consumer_filter: str = Field(
        "", description="Process only events that match this SQL condition over ev_type, ev_data, …"
    )
    max_attempts: int | None = Field(
        None, ge=1, description="Deliveries after which a failing event becomes a dead letter."
    )
    retry_seconds: int = Field(
        60, ge=0, description="Seconds after which a failed event is delivered again."
    )
    notify: bool = Field(True, description="Use LISTEN/NOTIFY in addition to polling.")
    stop_timeout: float = Field(
        60.0,
        gt=0,
        description="Seconds to finish the batch after a stop; after that it is broken off.",
    )
    pgq_lazy_fetch: int = Field(5000, ge=0, description="Events fetched at a time (0 = all).")


class TickerSettings(MetricsFields, Settings):
    """The ticker, for one or several databases."""

    sections: ClassVar[tuple[str, ...]] = ("ticker", "pgqd")

    db: str | None = Field(None, description="Connection string, for one database.")
    databases: LineList = Field(
        (), description="Connection strings of several databases, one per line."
    )
    discover: bool = Field(
        False, description="Include all other databases of these servers that have a queue."
    )
    base_connstr: str | None = Field(
        None, description="Connection string without dbname: all databases of this server."
    )
    initial_database: str = Field(
        "template1", description="Database in which base_connstr lists the databases."
    )
    database_list: WordList = Field(
        (), description="Names of databases: only these, at base_connstr."
    )
    check_period: float = Field(
        60.0, gt=0, description="Seconds between checks for created or dropped databases."
    )
    connection_lifetime: float = Field(
        3600.0, gt=0, description="Seconds until a connection is replaced by a new one."
    )
    ticker_period: float = Field(
        1.0, gt=0, description="Maximum seconds between two checks of the queues."
    )
    retry_period: float = Field(30.0, gt=0, description="Seconds between moves of retry events.")
    maint_period: float = Field(120.0, gt=0, description="Seconds between rotations and vacuums.")
    stats_period: float = Field(
        30.0, gt=0, description="Seconds between lines of statistics while there is work."
    )
    keepalive_stats: float = Field(
        600.0, gt=0, description="Seconds between lines of statistics while there is no work."
    )
    max_retry_delay: float = Field(
        20.0,
        gt=0,
        description="Maximum delay in seconds before a retry after an error; delays start at 0.1.",
    )


class RunSettings(ReadyFields, Settings):
    """The process that runs the daemons of a cascade file."""

    sections: ClassVar[tuple[str, ...]] = ("run",)

    stop_timeout: float = Field(
        30.0, gt=0, description="Seconds for a daemon to stop; after that it is killed."
    )
    max_retry_delay: float = Field(
        20.0,
        gt=0,
        description="Maximum delay in seconds before a failed daemon is started again; delays"
        " start at 0.5.",
    )


class NotifySettings(Settings):
    """Notifications about findings of a cascade."""

    sections: ClassVar[tuple[str, ...]] = ("notify",)

    webhook: str = Field(
        "", repr=False, description="URL (https://…) to which notifications are posted as JSON."
    )
    webhook_secret_file: HomePath | None = Field(
        None, description="File with the secret that signs them (HMAC-SHA256)."
    )
    webhook_secret_env: str = Field(
        "", description="Variable of the environment with that secret, instead of a file."
    )
    command: tuple[str, ...] = Field(
        (), description="Program and arguments, started without a shell for each notification."
    )
    after: float = Field(
        30.0,
        ge=0,
        description="Seconds that a finding must last before it is reported, and must be absent"
        " before its end is reported.",
    )
    remind: float = Field(
        14_400.0, ge=0, description="Seconds between reminders of a finding that lasts (0 = none)."
    )
    severity: Literal["warning", "critical"] = Field(
        "warning", description="Lowest severity of findings that are reported."
    )
    max_lag: float = Field(
        60.0, gt=0, description="Lag of a node in seconds above which it is a finding."
    )
    max_backlog: int | None = Field(
        None, ge=1, description="Events that a node may be behind (default: no limit)."
    )
    check_period: float = Field(15.0, gt=0, description="Seconds between checks of the cascade.")
    timeout: float = Field(
        10.0, gt=0, description="Seconds for a webhook to answer, or for the command to end."
    )
    max_retry_delay: float = Field(
        300.0,
        gt=0,
        description="Maximum delay in seconds before a failed delivery is repeated; delays start"
        " at 1.",
    )
    state_file: HomePath | None = Field(
        None,
        description="File with what was reported (default: in $STATE_DIRECTORY, or next to the"
        " settings file).",
    )

    @property
    def wanted(self) -> bool:
        """Whether there is a channel."""
        return bool(self.webhook or self.command)


class WebSettings(Settings):
    """The console in a browser."""

    sections: ClassVar[tuple[str, ...]] = ("web",)

    listen: Address = Field(
        "127.0.0.1:8457", description="Address (HOST:PORT) of the console; needs the extra web."
    )
    public_url: str = Field(
        "",
        description="Address of the console in browsers, for example https://londiste.example.org,"
        " if a proxy serves it.",
    )
    refresh: float = Field(
        2.0, ge=0.2, description="Seconds between two collections while a page is open."
    )
    history_hours: float = Field(
        6.0, gt=0, le=72, description="Hours of lag and rates that the console keeps in memory."
    )
    show_values: bool = Field(
        False, description="Show values of rows and events, and full error messages."
    )
    users: LineList = Field(
        (),
        repr=False,
        description="Users who may log in, one per line: NAME:HASH, from londiste web"
        " --hash-password NAME.",
    )
    auth_header: str = Field(
        "", description="Header by which a reverse proxy names its user; requires auth_proxies."
    )
    auth_proxies: WordList = Field(
        (), description="Addresses or networks of the proxies whose auth_header is accepted."
    )
    actions: bool = Field(
        False, description="Allow users to change the cascade; requires users or auth_header."
    )
