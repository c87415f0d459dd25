"""Sessions on a server of Spark Connect, which this program shares with others.

Setting ``spark.remote`` (or variable SPARK_REMOTE) is its address: ``sc://HOST:PORT/;token=…``.
The server has its own settings, executors and log.  It has no RDDs, and only the settings of SQL
are a session's own.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from londiste.errors import BadOption

log = logging.getLogger(__name__)

_PORT = 15002
#: A call that the server does not answer is repeated for 14 s in all; then it is ours to wait.
_RETRIES = {"max_retries": 6, "max_backoff": 5000}


def remote(given: Mapping[str, str]) -> str:
    """The server's address as it was given; '' when the session is one of this process."""
    return given.get("spark.remote") or os.environ.get("SPARK_REMOTE", "")


def address(server: str) -> str:
    """Pure: ``HOST:PORT`` without parameters, one of which may be a token.

    Raises BadOption for what is no address of a server.
    """
    try:
        parts = urlsplit(server)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host = None
    if not host or parts.scheme != "sc":
        raise BadOption(
            "setting spark.remote: not the address of a Spark Connect server",
            hint='set spark.remote = "sc://HOST:15002", or spark.master for Spark without a server',
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connected(server: str, given: Mapping[str, str]) -> Any:
    """A new session there, with those of the given settings that a session can have.

    Raises BadOption when the packages of the client are not installed.
    """
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: F401
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError as error:
        raise BadOption(
            "packages of Spark Connect are not installed",
            detail=str(error),
            hint='pip install "londiste4[connect]"',
        ) from None
    # It would be a line of the log, before the error that says the same.
    warnings.filterwarnings("ignore", module=r"pyspark\.sql\.connect\.client\.retries")
    found: Any = SparkSession.builder.remote(server).create()
    found.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    fixed = []
    for key, value in given.items():
        if key in ("spark.master", "spark.remote"):
            continue
        if found.conf.isModifiable(key):
            found.conf.set(key, value)
        else:
            fixed.append(key)
    if fixed:
        log.warning("Spark Connect: the server decides these settings: %s", ", ".join(fixed))
    return found
