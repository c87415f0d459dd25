"""Base classes of settings: types of values, and groups of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX = "LONDISTE_"


def _split(pattern: str) -> BeforeValidator:
    """Cuts a text of a file or option into the values of a list."""

    def cut(value: Any) -> Any:
        if isinstance(value, str):
            return tuple(word.strip() for word in re.split(pattern, value) if word.strip())
        return () if value is None else value

    return BeforeValidator(cut)


def spark_texts(value: Any) -> Any:
    """Settings of Spark as texts, as Spark wants them."""
    if isinstance(value, dict):
        return {
            k: ("true" if v is True else "false" if v is False else str(v))
            for k, v in value.items()
        }
    return value


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT`` or ``[HOST]:PORT``.  Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("not an address HOST:PORT, such as 127.0.0.1:9187")
    return host, int(port)


def _address(value: str) -> str:
    if value:
        split_address(value)
    return value


#: Values between commas or line ends; a value may contain blanks.
CommaList = Annotated[tuple[str, ...], _split(r"[,\n]")]
#: Values between commas or white space.
WordList = Annotated[tuple[str, ...], _split(r"[\s,]+")]
#: One value a line.
LineList = Annotated[tuple[str, ...], _split(r"\n")]


def in_home(path: Path) -> Path:
    """The path with a home directory in place of ``~`` or ``~user``.  Raises ValueError."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"no home directory for {path.parts[0]}") from None


#: A path, in which ``~`` is the home directory.
HomePath = Annotated[Path, AfterValidator(in_home)]
#: ``HOST:PORT`` to listen on; empty: nothing listens.
Address = Annotated[str, AfterValidator(_address)]
SparkSettings = Annotated[dict[str, str], BeforeValidator(spark_texts)]


class Settings(BaseSettings):
    """Settings of every kind of program."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        validate_default=False,
        # Of all kinds, a program uses one or two.
        defer_build=True,
    )
    sections: ClassVar[tuple[str, ...]] = ("londiste",)
    #: Settings of other kinds that this kind does not have, with the value that it behaves by.
    always: ClassVar[Mapping[str, str]] = {}

    logfile: HomePath | None = Field(None, description="Log file, in addition to the terminal.")
    log_config: Path | None = Field(
        None, description="Configuration of Python's logging: TOML, JSON or INI."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="Form of a line of the log: text, or json (one object per line)."
    )
    syslog: bool = Field(False, description="Log to syslog in addition.")
    syslog_ident: str = Field("", description="Program name in syslog (default: job_name).")
    syslog_facility: str = Field("daemon", description="Facility in syslog.")
    syslog_address: str = Field("/dev/log", description="Socket of syslog, or HOST:PORT for UDP.")
    pidfile: HomePath | None = Field(None, description="File with the process id of a daemon.")
    lock_timeout: float = Field(
        10.0, ge=0, description="Seconds to wait for a lock on the source or the target."
    )
    execute_lock_timeout: float = Field(
        2.0,
        gt=0,
        description="Seconds that a statement of a script waits for its locks; after that the"
        " statement is cancelled and retried.",
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


class QueueFields(BaseModel):
    """A queue, and the names of a program that reads it."""

    queue_name: str = Field(description="Name of the queue (required).")
    job_name: str = Field("", description="Name of this job (default: the name of the file).")
    consumer_name: str = Field("", description="Name of the consumer (default: job_name).")

    @field_validator(
        "queue_name",
        "job_name",
        "consumer_name",
        "node_name",
        "subconsumer_name",
        check_fields=False,
    )
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
        """Name of the consumer on the queue."""
        return self.consumer_name or self.job_name


class LoopFields(BaseModel):
    """The loop of a daemon."""

    poll_interval: float = Field(
        1.0, gt=0, description="Poll interval in seconds when no notification arrives."
    )
    max_retry_delay: float = Field(
        20.0,
        gt=0,
        description="Maximum delay in seconds before a retry after an error; delays start at 0.1.",
    )
    stats_period: float = Field(
        30.0, gt=0, description="Seconds between lines of statistics while there is work."
    )
    keepalive_stats: float = Field(
        600.0, gt=0, description="Seconds between lines of statistics while there is no work."
    )


class BatchFields(BaseModel):
    """How ticks become batches."""

    pgq_batch_collect_events: int | None = Field(
        None, ge=1, description="Join ticks until a batch has this many events."
    )
    pgq_batch_collect_interval: str | None = Field(
        None, description="Join ticks until a batch spans this interval (PostgreSQL interval)."
    )
    pgq_keep_lag: str | None = Field(
        None, description="Apply with this delay (PostgreSQL interval, for example 1 hour)."
    )


class MetricsFields(BaseModel):
    """The HTTP endpoint of a daemon."""

    metrics: Address = Field(
        "",
        description="Address (HOST:PORT) of /metrics, /healthz and /readyz, for example"
        " 127.0.0.1:9187; needs the extra web (default: none).",
    )
    metrics_hosts: WordList = Field(
        (),
        description="Host names in URLs of /metrics, besides addresses, the name of this host, and"
        " names that are not public.",
    )


class ReadyFields(MetricsFields):
    """The HTTP endpoint of a daemon that reports about nodes or consumers."""

    metrics_max_lag: float = Field(
        60.0, gt=0, description="Lag in seconds up to which a node or consumer is ready (/readyz)."
    )


class EngineFields(BaseModel):
    """Jobs of an engine; ``engine`` itself has other values in each kind."""

    spark: SparkSettings = Field(
        default_factory=dict,
        description="Settings of Spark: spark.master (default: local[*]) and any spark.* key.",
    )
    parallel_apply_min_events: int = Field(
        1_000_000,
        ge=0,
        description="Batches of at least this many events are applied by a parallel job"
        " (0 = never).",
    )
    parallel_apply_tasks: int = Field(2, ge=1, description="Parallel tasks per large batch.")
