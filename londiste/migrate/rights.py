"""Owners, grants and comments of the new database: restored from the old one, and compared.

A function that runs as its owner, and a view, which reads as its owner, would otherwise get the
rights of the role that runs the migration; and PUBLIC would get what the old database revoked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import fetch
from londiste.wording import shortened

#: The schema that is always there: kind and signature.
PUBLIC = ("schema", "public")

#: A kind: what roles may do with later objects of a role.
DEFAULTS = "default privileges"

_MAINTAIN = 170000
_SET = 160000
_OWN_PUBLIC = 150000
#: What ``grant … on`` calls a kind, where it is not the kind itself.
_GRANTED = {
    "view": "table",
    "materialized view": "table",
    "foreign table": "table",
    "aggregate": "function",
    "server": "foreign server",
}
#: What every role has by default: kind of default privileges and privilege.
_STANDARD = {"functions": "EXECUTE", "types": "USAGE"}

#: The schema, quoted, at the beginning of a signature.
_SCHEMA = re.compile(r'("(?:[^"]|"")+"|[^".\s]+)\.')

_Words = TypeVar("_Words", tuple[str], tuple[str, str])

Key = tuple[str, str]
_GrantKey = tuple[str | None, bool, str | None, str]


@dataclass(frozen=True)
class Grant:
    """A privilege of a role; ``grantee`` None is PUBLIC.

    own -- a privilege of the owner.  column -- None: on the whole object.
    """

    grantee: str | None
    privilege: str
    grantable: bool = False
    own: bool = False
    column: str | None = None

    @property
    def key(self) -> _GrantKey:
        """Who may do what: of owners without the name."""
        return None if self.own else self.grantee, self.own, self.column, self.privilege


@dataclass(frozen=True)
class Rights:
    """Owner and grants of an object; fields as in ``migrate_rights``."""

    kind: str
    signature: str
    owner: str
    definer: str = ""
    given: bool = False
    follows: bool = False
    comment: str | None = None
    grants: tuple[Grant, ...] = ()

    @property
    def key(self) -> Key:
        """Kind and signature."""
        return self.kind, self.signature

    def __str__(self) -> str:
        return f"{self.kind} {self.signature}"


@dataclass(frozen=True)
class RightsState:
    """The rights of a database; what its server and this session make of them.

    roles -- the roles of the server, and whether this session may make each an owner.
    closed -- of those that it may: the schemas, quoted, in which the role may not create, so it
        gets nothing there.  A superuser may give it everything.
    """

    rights: Mapping[Key, Rights] = field(default_factory=dict)
    roles: Mapping[str, bool] = field(default_factory=dict)
    version: int = 180000
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """An object with other rights in the new database than in the old one.

    wider, narrower -- what roles may do there beyond the old database, and no more.
    """

    old: Rights
    new: Rights
    wider: tuple[Grant, ...] = ()
    narrower: tuple[Grant, ...] = ()

    @property
    def owner(self) -> bool:
        """Whether the owners differ."""
        return not self.old.follows and self.old.owner != self.new.owner


def state(conn: Connection, *, every: bool = False) -> RightsState:
    """Reads the rights of a database.

    every -- also those of the system and of extensions that nobody changed.
    """
    found = (
        Rights(grants=tuple(Grant(**one) for one in row.pop("grants")), **row)
        for row in fetch(conn, "migrate_rights", every=every)
    )
    version = conn.info.server_version
    own = "SET" if version >= _SET else "MEMBER"
    known = fetch(conn, "migrate_roles", own=own)
    return RightsState(
        {one.key: one for one in found},
        {row["role"]: row["ownable"] for row in known},
        version,
        {row["role"]: frozenset(row["closed"]) for row in known if row["closed"]},
    )


def named(old: RightsState) -> frozenset[str]:
    """The roles that owners and grants of a database name."""
    owners = {one.owner for one in old.rights.values() if not one.follows}
    return frozenset(owners) | {
        g.grantee for one in old.rights.values() for g in one.grants if g.grantee is not None
    }


def compare(
    old: RightsState, new: RightsState, only: Collection[Key] | None = None
) -> list[Difference]:
    """Pure: the objects of both databases whose owners or grants differ, by names of roles.

    only -- of these objects; None: of all.

    A privilege counts that both releases have.  The schema ``public`` belongs to another role, and
    PUBLIC may create nothing there, from PostgreSQL 15 on: that is no difference.
    """
    both = min(old.version, new.version) >= _MAINTAIN
    found = []
    for key, one in old.rights.items():
        other = new.rights.get(key) or _unset(one)
        if other is None or (only is not None and key not in only):
            continue
        wanted, there = _by_key(one, both), _by_key(other, both)
        wider = [g for g in there.values() if not _allowed(g, wanted, one)]
        narrower = [g for g in wanted.values() if not _allowed(g, there, other)]
        if key == PUBLIC:
            narrower = [g for g in narrower if g.grantee is not None or g.own]
            if other.owner == "pg_database_owner":
                other = Rights(**{**vars(other), "owner": one.owner})
                wider, narrower = ([g for g in gs if not g.own] for gs in (wider, narrower))
        difference = Difference(one, other, tuple(wider), tuple(narrower))
        if wider or narrower or difference.owner:
            found.append(difference)
    return found


def _unset(one: Rights) -> Rights | None:
    """Default privileges that nobody has set: those of the system."""
    if one.kind != DEFAULTS:
        return None
    own = [g for g in one.grants if g.own]
    where, _, what = one.signature.rpartition(" on ")
    standard = _STANDARD.get(what) if " in schema " not in where else None
    grants = (*own, Grant(None, standard)) if standard else tuple(own)
    return Rights(one.kind, one.signature, one.owner, grants=grants)


def _by_key(one: Rights, both: bool) -> dict[_GrantKey, Grant]:
    return {g.key: g for g in one.grants if both or g.privilege != "MAINTAIN"}


def _allowed(grant: Grant, there: Mapping[_GrantKey, Grant], one: Rights) -> bool:
    """Whether somebody may do that with an object, as its owner or by a grant."""
    if grant.grantee == one.owner and (None, True, grant.column, grant.privilege) in there:
        return True
    same = there.get(grant.key)
    return same is not None and (same.grantable or not grant.grantable)


def statements(differences: Iterable[Difference], new: RightsState) -> list[str]:
    """Pure: what makes the rights of the new database those of the old one, as far as possible.

    Grants that name a role which the new server lacks, and owners that this session cannot set,
    are left out; whatever the old database does not allow is revoked.
    """
    # A role needs rights in the schema to own something there.
    first = sorted(differences, key=lambda d: (d.old.kind == DEFAULTS, d.old.kind != "schema"))
    found: list[str] = []
    owners: list[str] = []
    for one in first:
        found += _granted(one, one.wider, new, revoked=True)
        found += _granted(one, one.narrower, new, revoked=False)
        # Behind the grants: afterwards it may not be ours any more.
        if one.owner and new.roles.get(one.old.owner):
            words = f"routine {one.old.signature}" if one.old.kind == "aggregate" else str(one.old)
            owners.append(f"alter {words} owner to {quote(one.old.owner)}")
    return [*found, *owners]


def comments(old: RightsState, new: RightsState, made: Collection[Key]) -> list[str]:
    """Pure: the statements that comment new objects as in the old database."""
    return [
        f"comment on {one} is {literal(one.comment)}"
        for key, one in old.rights.items()
        if key in made and one.comment is not None and one.comment != new.rights[key].comment
    ]


def _granted(
    one: Difference, grants: Iterable[Grant], new: RightsState, *, revoked: bool
) -> Iterator[str]:
    kind, signature = one.new.kind, one.new.signature
    words = f"{_GRANTED.get(kind, kind)} {signature}"
    begin = ""
    if kind == DEFAULTS:
        role, _, words = signature.rpartition(" on ")
        begin = f"alter default privileges {role} "
        if not new.roles.get(one.old.owner):
            return
    there = {g.key for g in one.old.grants}

    def group(g: Grant) -> tuple[bool, str, bool, str]:
        who = one.new.owner if g.own else g.grantee
        return g.own, "" if who is None else who, g.grantable, g.column or ""

    for (_, grantee, grantable, column), same in groupby(sorted(grants, key=group), key=group):
        if grantee and grantee not in new.roles:
            continue
        some = list(same)
        on = f" ({quote(column)})" if column else ""
        privileges = ", ".join(g.privilege + on for g in some)
        who = quote(grantee) if grantee else "public"
        if revoked:
            kept = grantable and all(g.key in there for g in some)
            option = "grant option for " if kept else ""
            # What was granted by means of the option goes with it.
            yield f"{begin}revoke {option}{privileges} on {words} from {who} cascade"
        else:
            option = " with grant option" if grantable else ""
            yield f"{begin}grant {privileges} on {words} to {who}{option}"


def in_words(
    differences: Sequence[Difference], other: RightsState
) -> Iterator[tuple[str, str, str]]:
    """Pure: per role what differs, with ``{name}`` for the database; why; the objects.

    other -- the database that differs.
    """
    creates = (None, False, None, "CREATE")

    def wider(one: Difference) -> list[str]:
        # Until PostgreSQL 14 everybody may create tables there.
        standard = one.new.key == PUBLIC and other.version < _OWN_PUBLIC
        grants = [g for g in one.wider if not (standard and g.key == creates)]
        return [_who(g, one.new) for g in grants]

    for (role, problem), objects in _grouped(differences, _owners(other)):
        words = f"objects of role {_escaped(role)} belong to another role in the {{name}} database"
        yield words, f"role {role} {problem}" if problem else "somebody else made them", objects
    for (role,), objects in _grouped(differences, lambda d: [(who,) for who in wider(d)]):
        words = f"{_escaped(role)} has more rights in the {{name}} database"
        yield words, "the other database does not grant them", objects
    for (role,), objects in _grouped(
        differences, lambda d: [(_who(g, d.old),) for g in d.narrower]
    ):
        there = role == "PUBLIC" or role in other.roles
        why = "what it does with them fails there" if there else "the server lacks the role"
        yield f"{_escaped(role)} has fewer rights in the {{name}} database", why, objects


def owner_problem(one: Rights, new: RightsState) -> str:
    """Pure: why an object cannot be given to its owner in the new database; '' if it can."""
    if not new.roles.get(one.owner):
        return "cannot be set by you" if one.owner in new.roles else "does not exist"
    schema = closed_schema(one, new)
    return f"may not create in schema {schema}: {to_create(one.owner, schema)}" if schema else ""


def closed_schema(one: Rights, new: RightsState) -> str:
    """Pure: the schema of an object, quoted, if its owner may not create there; otherwise ''."""
    found = _SCHEMA.match(one.signature)
    schema = found[1] if found else ""
    return schema if schema in new.closed.get(one.owner, ()) else ""


def to_create(role: str, schema: str) -> str:
    """Pure: the statement that lets a role create in a schema, and own what is there."""
    return f"grant create on schema {schema} to {quote(role)}"


def _owners(new: RightsState) -> Callable[[Difference], Iterable[tuple[str, str]]]:
    """Groups objects by their former owner and why it is not their owner."""
    return lambda d: [(d.old.owner, owner_problem(d.old, new))] if d.owner else []


def _escaped(role: str) -> str:
    return role.replace("{", "{{").replace("}", "}}")


def _who(grant: Grant, one: Rights) -> str:
    if grant.own:
        return one.owner
    return "PUBLIC" if grant.grantee is None else grant.grantee


def notes(differences: Sequence[Difference], new: RightsState) -> list[str]:
    """Pure: owners and grants that were skipped, by role."""
    found = []
    for (role, problem), objects in _grouped(differences, _owners(new)):
        why = problem or "cannot be set by you"
        found.append(f"{objects}: belongs to you: its owner, role {role}, {why}")
    missing = _grouped(
        differences, lambda d: [(g.grantee,) for g in d.narrower if g.grantee and not g.own]
    )
    for (role,), objects in missing:
        why = "were refused" if role in new.roles else "are skipped: it does not exist"
        found.append(f"grants of role {role} on {objects} {why}")
    for (role,), objects in _grouped(
        differences, lambda d: [(_who(g, d.new),) for g in d.wider if not g.own]
    ):
        found.append(f"{objects}: {role} may do more than in the old database")
    return found


def _grouped(
    differences: Sequence[Difference], keys: Callable[[Difference], Iterable[_Words]]
) -> Iterator[tuple[_Words, str]]:
    """Each key, of words, and the names of its objects."""
    found: dict[_Words, list[str]] = {}
    for one in differences:
        for key in dict.fromkeys(keys(one)):
            found.setdefault(key, []).append(str(one.old))
    for key in sorted(found):
        yield key, shortened(found[key])


def widened(differences: Iterable[Difference], made: Collection[Key]) -> list[str]:
    """Pure: new objects on which a role may do more than in the old database."""
    return [
        f"{one.new}: {g.privilege} of {'PUBLIC' if g.grantee is None else g.grantee}"
        for one in differences
        if one.new.key in made
        for g in one.wider
        if not g.own
    ]


def run_as_others(differences: Iterable[Difference]) -> list[Difference]:
    """Pure: SECURITY DEFINER functions that would run as another role than in the old database."""
    return [one for one in differences if one.owner and one.old.definer == "code"]


def not_ownable(
    old: RightsState, new: RightsState, definer: str = ""
) -> dict[tuple[str, str], list[str]]:
    """Pure: owners that cannot be set in the new database, and their objects that are to be made.

    The key is the owner, and the schema in which it may not create, or '' if you may not set it.

    definer -- only of these: 'code' functions that run as their owner, 'view' views.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for key, one in old.rights.items():
        # Default privileges belong to their role.
        if one.follows or key in new.rights or one.kind == DEFAULTS:
            continue
        ownable = new.roles.get(one.owner, False)
        schema = closed_schema(one, new) if ownable else ""
        refused = not ownable or (schema and not _may_create(old, one.owner, schema))
        if refused and (not definer or one.definer == definer):
            found.setdefault((one.owner, schema), []).append(str(one))
    return found


def _may_create(old: RightsState, role: str, schema: str) -> bool:
    """Whether a grant that the migration restores lets the role create in a schema."""
    there = old.rights.get(("schema", schema))
    return there is not None and any(
        g.privilege == "CREATE" and g.grantee == role for g in there.grants
    )
