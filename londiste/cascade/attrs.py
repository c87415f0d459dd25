"""Attributes of nodes and tables: key=value pairs, url-encoded in one text."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote


def decode_attrs(text: str | None) -> dict[str, str]:
    """``a=1&b=x%2cy`` as a dict; a key without ``=`` has the value ''."""
    pairs: dict[str, str] = {}
    for item in (text or "").split("&"):
        if item:
            key, _, value = item.partition("=")
            pairs[unquote(key.replace("+", " "))] = unquote(value.replace("+", " "))
    return pairs


def encode_attrs(pairs: Mapping[str, str]) -> str | None:
    """The stored text; None without pairs."""
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items()) or None
