"""Logins of the console: hashes of passwords, sessions in memory, limit of failed attempts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from londiste.errors import BadOption

#: Cost of a hash: 2**15 blocks of 8 * 128 bytes are 32 MB, and about 0.1 s.
_COST, _BLOCK, _PARALLEL = 2**15, 8, 1
_MEMORY = 64 * 1024 * 1024
_HASH = re.compile(r"scrypt\$(\d{1,8})\$(\d{1,3})\$(\d{1,3})\$([\w+/=-]{16,})\$([\w+/=-]{32,})")
_NAME = re.compile(r"[^\s:\x00-\x1f\x7f]{1,64}")
#: Hashes that are computed at the same time: each takes memory.
_AT_ONCE = 2

#: Hours without a request, and in all, after which a session ends.
IDLE_SECONDS, LONGEST_SECONDS = 3600.0, 12 * 3600.0
MOST_SESSIONS = 1000
#: Failed attempts that are free; after that each doubles the wait, from FIRST_WAIT to LONGEST_WAIT.
FREE, FIRST_WAIT, LONGEST_WAIT = 5, 10.0, 900.0
_MOST_COUNTED = 10_000


def hashed(password: str) -> str:
    """A hash of a password for the settings: ``scrypt$N$r$p$salt$hash``."""
    salt = secrets.token_bytes(16)
    made = _scrypt(password, salt, _COST, _BLOCK, _PARALLEL)
    parts = (base64.b64encode(part).decode() for part in (salt, made))
    return f"scrypt${_COST}${_BLOCK}${_PARALLEL}${'$'.join(parts)}"


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32
    )


def users_of(lines: Iterable[str]) -> dict[str, str]:
    """Hashes by name, of the setting ``users``.  Raises BadOption."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, text = line.partition(":")
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(text) or not _usable(text):
            raise BadOption(
                "users: a line is not NAME:HASH",
                hint="londiste web --hash-password NAME prints a line",
            )
        found[name] = text
    return found


def _usable(text: str) -> bool:
    try:
        matches(text, "")
    except ValueError:
        return False
    return True


def matches(text: str, password: str) -> bool:
    """Whether a password has this hash.  Raises ValueError for costs that cannot be computed."""
    found = _HASH.fullmatch(text)
    if found is None:
        return False
    cost, block, parallel = (int(found[number]) for number in (1, 2, 3))
    salt, wanted = base64.b64decode(found[4]), base64.b64decode(found[5])
    made = _scrypt(password, salt, cost, block, parallel)
    return hmac.compare_digest(made[: len(wanted)], wanted) and len(wanted) == len(made)


class Limiter:
    """Counts failed attempts by client and by user; a bounded number of both."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def wait(self, *keys: str) -> float:
        """Seconds until another attempt is allowed; 0: now."""
        now = self._clock()
        with self._lock:
            return max((self._failed.get(key, (0, now))[1] - now for key in keys), default=0.0)

    def fail(self, *keys: str) -> None:
        """Counts a failed attempt."""
        now = self._clock()
        with self._lock:
            for key in keys:
                count = self._failed.pop(key, (0, 0.0))[0] + 1
                over = count - FREE
                pause = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(over, 20)) if over >= 0 else 0.0
                self._failed[key] = (count, now + pause)
            while len(self._failed) > _MOST_COUNTED:
                # Dicts keep the order: the one that failed longest ago.
                del self._failed[next(iter(self._failed))]

    def succeed(self, *keys: str) -> None:
        """Forgets the failed attempts."""
        with self._lock:
            for key in keys:
                self._failed.pop(key, None)


@dataclass
class Session:
    """A login: user, the hash of his password, and the times of its start and its last request."""

    user: str
    hash: str
    began: float
    seen: float


class Logins:
    """Users and their sessions; without users there is no login.

    users -- hashes of passwords by name.
    """

    def __init__(
        self, users: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limiter = Limiter(clock)
        self._users = dict(users or {})
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def __bool__(self) -> bool:
        return bool(self._users)

    def replace(self, users: Mapping[str, str]) -> None:
        """Other users from now on: sessions of those whom they lack or change are over."""
        with self._lock:
            self._users = dict(users)
            self._sessions = {
                key: one for key, one in self._sessions.items() if users.get(one.user) == one.hash
            }

    def verify(self, name: str, password: str) -> str:
        """The hash of a user who has this password; '' for all others."""
        users = self._users
        # Unknown names take as long as known ones.
        known = users.get(name) or next(iter(users.values()), "")
        with self._places:
            same = matches(known, password)
        return known if same and name in users else ""

    def begin(self, user: str, known: str | None = None) -> str:
        """A new session; its secret, for the cookie.

        known -- the hash that the password has; None: the present one.  If it is another one by
        now, the session is over at once.
        """
        secret = secrets.token_urlsafe(32)
        now = self._clock()
        with self._lock:
            known = self._users.get(user, "") if known is None else known
            self._sessions[_digest(secret)] = Session(user, known, now, now)
            while len(self._sessions) > MOST_SESSIONS:
                oldest = min(self._sessions, key=lambda key: self._sessions[key].seen)
                del self._sessions[oldest]
        return secret

    def user(self, secret: str, *, touch: bool = True) -> str | None:
        """The user of a session; None if it is unknown or over.

        touch -- a request of the user, not a page that stays open.
        """
        now = self._clock()
        with self._lock:
            found = self._sessions.get(_digest(secret))
            if found is None:
                return None
            late = now - found.seen > IDLE_SECONDS or now - found.began > LONGEST_SECONDS
            if late or self._users.get(found.user) != found.hash:
                del self._sessions[_digest(secret)]
                return None
            if touch:
                found.seen = now
            return found.user

    def end(self, secret: str) -> None:
        """Ends a session."""
        with self._lock:
            self._sessions.pop(_digest(secret), None)


def _digest(secret: str) -> str:
    """The secret itself is not kept."""
    return hashlib.sha256(secret.encode()).hexdigest()
