"""Parts of messages: the nearest known word, the first line, long texts in part, escapes."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence

#: The hint for a server that refuses to write.
READ_ONLY = "connect to the primary: this is a standby, or its sessions are read only"


def bounded(text: str, most: int = 2_000, *, of: int = 0) -> str:
    """Pure: a text of at most that many characters, and how many it had.

    What a server reports may be as long as a trigger of any user likes: it is stored as the error
    of a node, printed by ``status``, and sent by ``notify``.

    of -- characters of the whole text, if this is a part of it already.
    """
    whole = max(of, len(text))
    return text if whole <= most else f"{text[:most]}… (of {whole:,} characters)"


def escaped_json(document: str) -> str:
    """Pure: a JSON document without characters that a terminal obeys or that reverse its text.

    Each is an escape, which means the same there.  Line feeds, which are between values, remain.
    """
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def escaped(text: str, keep: str = "") -> str:
    """Pure: a text without characters that a terminal obeys, but for those of ``keep``."""
    return "".join(c if c.isprintable() or c in keep else f"\\x{ord(c):02x}" for c in text)


_REPEAT = "repeat the command"


def repeated(hint: str, how: str = _REPEAT) -> str:
    """Pure: a hint that also says that the command is to be repeated, if it does not say so."""
    return hint if _REPEAT in hint else "; then ".join(filter(None, [hint, how]))


def shortened(names: Sequence[object], shown: int = 5, *, between: str = ", ") -> str:
    """Pure: the first names, and the number of the others."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return between.join(map(str, names[:shown])) + more


#: Between an error and its hint, as both are stored and logged.
HINT = "; hint: "


def hint_in(text: str) -> str:
    """The hint of an error as it is stored and logged; '' for none."""
    return text.partition(HINT)[2]


#: What a clause may say of where its command runs: about another node, or a choice of settings,
#: unless it is this node.
_PLACE = re.compile(
    r"(?i)(?<![\w-])(this node|root|node|nodes|provider|there|settings of|that database|in database"
    r"|create it in)(?![\w-])"
)
_CALL = re.compile(r"\blondiste (?=[a-z])")


def calls(text: str) -> Iterator[tuple[int, bool]]:
    """Pure: where the name of each command of a text begins, and whether the text says its node.

    A clause about another node says it; without one the command runs where the text is read.
    """
    for found in _CALL.finditer(text):
        clause = re.split(r"[;\n]", text[: found.start()])[-1]
        yield found.end(), _is_elsewhere(clause)


def _is_elsewhere(clause: str) -> bool:
    """Whether the last place that a clause names is another one than this node."""
    places = _PLACE.findall(clause)
    return bool(places) and places[-1].lower() != "this node"


def at_node(hint: str, node: str) -> str:
    """Pure: the hint of an error of a node, as it is read anywhere.

    The settings of the node are named unless the hint says where its first command runs.
    """
    named = re.sub(r"\bthis node\b", lambda _: f"node {node}", hint)
    if next((says for _, says in calls(named)), _is_elsewhere(named)):
        return named
    by_command = "londiste " in hint.partition(";")[0]
    return f"{'with the settings of' if by_command else 'on node'} {node}: {named}"


def whole_rows(table: str, *, skip: str = "") -> str:
    """The hint where a node needs whole rows of a table, and its trigger writes none.

    table -- as an argument of a command.  Events of before remain incomplete: the copy has what
    they say.  skip -- one that a branch could only forward whole: the nodes below get no part.
    """
    first = f"on the root: londiste change-form {table} --trigger capture; then on this node:"
    if not skip:
        return f"{first} londiste resync {table}"
    return (
        f"{first} londiste resync {table}, and londiste events skip {skip}; then on the nodes below"
        f" that replicate it: londiste resync {table}"
    )


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for a word that is none of these: the nearest of them, else ``otherwise``."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]}?" if close else otherwise


#: A text in quotes, as the server writes them in its languages.  An apostrophe alone is none.
QUOTED = re.compile('(?s)["\'“”„«»‹›‚‘’「」『』].*["\'“”„«»‹›‚‘’「」『』]|["“„«»「『].*')


def without_value(text: str, sqlstate: str) -> str:
    """A message of the server without the value that it quotes; quotes in it are as they are."""
    return QUOTED.sub("***", text) if sqlstate.startswith("22") else text


def detail_without_values(text: str, sqlstate: str) -> str:
    """Pure: a detail of the server without the values of rows in it."""
    text = without_value(text, sqlstate)
    text = re.sub(r"(?s)(Failing row contains) \(.*\)", r"\1 (…)", text)
    text = re.sub(r"(?s)(failing row contains \(.*?\) =) \(.*\)", r"\1 (…)", text)
    return re.sub(r"(?s)\)=\(.*\)", ")=(…)", text)


def exception_text(error: BaseException) -> str:
    """The first line of an exception of Python, without the value that it may be about."""
    text = first_line(str(error))
    if isinstance(error, (ValueError, TypeError, LookupError)):
        text = re.sub(r"(?i)\b(value) [^\s:]+", r"\1 ***", QUOTED.sub("***", text))
        text = re.sub(r"(?s): .*", ": ***", text)
    return text


def first_line(text: str) -> str:
    """The first non-empty line; libpq writes one line per address tried."""
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return ""


def identifier(name: str) -> str:
    """A name for SQL text, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


#: Refusals of a server, for all or for this role or database; libpq tells no SQLSTATE.
_USED_UP = re.compile(r"too many (clients|connections)|connection slots are reserved", re.I)

#: Messages of a pgbouncer or server that can open no session, and the hints.
_NONE_FREE = (
    (
        re.compile(r"query_wait_timeout|no more connections allowed", re.I),
        "the pool of pgbouncer has no free connection: raise pool_size or max_client_conn; a worker"
        " needs three sessions, and two for each copy: docs/howto/poolers.md",
    ),
    (
        _USED_UP,
        "all connections are in use: end idle sessions, or raise max_connections or the connection"
        " limit of this role or database",
    ),
    (
        re.compile("No space left on device|Disk quota exceeded"),
        "free space on the server's disk",
    ),
    (
        re.compile(r'database "(?P<name>.*)" is not currently accepting connections', re.I),
        "as an administrator: alter database {name} allow_connections true",
    ),
)

#: Logins that a server refuses, and the hints.
_REFUSED = (
    (
        re.compile(r'role "(?P<name>.*)" is not permitted to log in', re.I),
        "as an administrator: alter role {name} login",
    ),
    (
        re.compile(r'permission denied for database "(?P<name>.*)"', re.I),
        "as an administrator: grant connect on database {name} to {user}",
    ),
    (
        re.compile("no password supplied", re.I),
        "write the password into ~/.pgpass, as HOST:PORT:DATABASE:ROLE:PASSWORD",
    ),
    (
        re.compile(
            "authentication failed|no pg_hba.conf entry|pg_hba.conf rejects|role .* does not exist",
            re.I,
        ),
        "check user, password and pg_hba.conf",
    ),
)

#: Messages about a connection string, or the options of a session, that no retry can mend.
_WRONG = (
    (
        re.compile("service .* not found", re.I),
        "write the service into ~/.pg_service.conf, or the path into PGSERVICEFILE",
    ),
    (
        re.compile(
            r"invalid \w+ value: |invalid port number"
            r"|invalid integer value .* for connection option|could not match \d+ .+ to \d+ hosts"
            r"|FATAL:  invalid value for parameter|FATAL:  unrecognized configuration parameter"
            r"|FATAL:  parameter .* cannot be (set|changed)",
            re.I,
        ),
        "correct the connection string, or the variable PG… that says it",
    ),
)


def is_used_up(message: str) -> bool:
    """Whether a server has refused a session because all its connections are in use."""
    return _USED_UP.search(message) is not None


def refused_login(message: str, user: str = "") -> str:
    """What to do about a login that the server refuses, by its message; or ''."""
    return _hint(_REFUSED, message, user)


def wrong_parameter(message: str) -> str:
    """What to do about a parameter that libpq or the server does not know; or ''."""
    return _hint(_WRONG, message)


def connection_hint(message: str) -> str:
    """What to do about a server that cannot be reached, by its message."""
    server = "check that the server runs and that host and port are right"
    return _hint(_NONE_FREE, message) or server


def _hint(known: Iterable[tuple[re.Pattern[str], str]], message: str, user: str = "") -> str:
    """The hint of the first sign in a message, with the names that the message contains."""
    for sign, hint in known:
        if found := sign.search(message):
            names = {key: identifier(name) for key, name in found.groupdict().items()}
            return hint.format(user=identifier(user) if user else "the user", **names)
    return ""
