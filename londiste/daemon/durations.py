"""Durations as text."""

from __future__ import annotations


def dhms(seconds: float) -> str:
    """``1d2h3m4s``, without leading zero parts."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join([*parts, f"{left}s"])
