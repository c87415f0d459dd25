"""Module ``skytools`` of earlier versions: scripts, settings, quoting."""

from __future__ import annotations

from londiste.compat.config import Config
from londiste.compat.quoting import (
    db_urldecode,
    db_urlencode,
    quote_fqident,
    quote_ident,
    quote_literal,
)
from londiste.compat.script import DBScript
from londiste.errors import UsageError

__all__ = [
    "Config",
    "DBScript",
    "UsageError",
    "db_urldecode",
    "db_urlencode",
    "quote_fqident",
    "quote_ident",
    "quote_literal",
]
