"""Words of findings about queues: times, sizes, names."""

from __future__ import annotations

from londiste.db.names import word


def span(seconds: float) -> str:
    """``3d4h``, ``5m10s``: the two largest units; ``-5m10s`` for what lies in the future."""
    if seconds <= -1:
        return f"-{span(-seconds)}"
    left = int(max(0.0, seconds))
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def size(count: int) -> str:
    """``512 kB``: bytes with a unit."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"


def quoted(name: str) -> str:
    """A name quoted for a shell."""
    return word(name)
