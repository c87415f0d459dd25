"""Settings that every session has, whatever role, database or environment say."""

from __future__ import annotations

#: What makes the text of a value the same in every session (reliability promise P8).
TEXT_SETTINGS: dict[str, str] = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "lc_monetary": "C",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    # Names of types and columns are compared as the server prints them.
    "quote_all_identifiers": "off",
    "client_encoding": "UTF8",
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",
    # Another value makes a scan of a GIN index return some of its rows.
    "gin_fuzzy_search_limit": "0",
}

#: Parameters of libpq for a network that loses a connection.
NETWORK: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}

#: The same the other way round: a server whose client is gone ends the session, and lets its locks
#: go, also with an answer on its way.  Sessions on a socket of the file system need none of it.
SERVER_GIVES_UP_MS = 30_000
_NETWORK_OF_SERVER: dict[str, str] = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(SERVER_GIVES_UP_MS),
}

#: Limits of the server for whole sessions and transactions, and the release that has them first.
_LIMITS_SINCE: dict[str, int] = {"idle_session_timeout": 140000, "transaction_timeout": 170000}


def of_session(server_version: int, **limits: str) -> dict[str, str]:
    """Pure: the settings of a session; limits -- those of its statements."""
    return {
        **TEXT_SETTINGS,
        **_NETWORK_OF_SERVER,
        **{k: "0" for k, since in _LIMITS_SINCE.items() if server_version >= since},
        **limits,
        # The queue's snapshots have to be younger than the locks that order them.
        "default_transaction_isolation": "read committed",
        # Our statements are short and their costs often guessed without statistics: compiling
        # one takes longer than running it.
        "jit": "off",
    }
