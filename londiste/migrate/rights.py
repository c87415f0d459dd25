"""Owners, grants and comments of the new database: restored from the old one, and compared.

A function that runs as its owner, and a view, which reads as its owner, would otherwise get the
rights of the role that runs the migration; and PUBLIC would get what the old database revoked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

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
    """

    rights: Mapping[Key, Rights] = field(default_factory=dict)
    roles: Mapping[str, bool] = field(default_factory=dict)
    version: int = 180000


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
    known = conn.execute(
        # Without its rights nothing could be created in its schemas.
        "select r.rolname::text, u.rolsuper"
        " or pg_catalog.pg_has_role(r.oid, %s) and pg_catalog.pg_has_role(r.oid, 'USAGE')"
        " from pg_catalog.pg_roles r, pg_catalog.pg_roles u where u.rolname = current_user",
        ["SET" if version >= _SET else "MEMBER"],
    ).fetchall()
    return RightsState({one.key: one for one in found}, dict(known), version)


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

    def lacks(role: str) -> str:
        return "" if role in other.roles else "the server lacks the role"

    def wider(one: Difference) -> list[str]:
        # Until PostgreSQL 14 everybody may create tables there.
        standard = one.new.key == PUBLIC and other.version < _OWN_PUBLIC
        grants = [g for g in one.wider if not (standard and g.key == creates)]
        return [_who(g, one.new) for g in grants]

    for role, objects in _grouped(differences, lambda d: [d.old.owner] if d.owner else []):
        words = f"objects of role {_escaped(role)} belong to another role in the {{name}} database"
        yield words, lacks(role), objects
    for role, objects in _grouped(differences, wider):
        yield f"{_escaped(role)} has more rights in the {{name}} database", "", objects
    for role, objects in _grouped(differences, lambda d: [_who(g, d.old) for g in d.narrower]):
        why = lacks(role) if role != "PUBLIC" else ""
        yield f"{_escaped(role)} has fewer rights in the {{name}} database", why, objects


def _escaped(role: str) -> str:
    return role.replace("{", "{{").replace("}", "}}")


def _who(grant: Grant, one: Rights) -> str:
    if grant.own:
        return one.owner
    return "PUBLIC" if grant.grantee is None else grant.grantee


def notes(differences: Sequence[Difference], new: RightsState) -> list[str]:
    """Pure: owners and grants that were skipped, by role."""
    found = []
    for role, objects in _grouped(differences, lambda d: [d.old.owner] if d.owner else []):
        why = "cannot be set by you" if role in new.roles else "does not exist"
        found.append(f"{objects}: belongs to you: its owner, role {role}, {why}")
    missing = _grouped(
        differences, lambda d: [g.grantee for g in d.narrower if g.grantee and not g.own]
    )
    for role, objects in missing:
        why = "were refused" if role in new.roles else "are skipped: it does not exist"
        found.append(f"grants of role {role} on {objects} {why}")
    for role, objects in _grouped(
        differences, lambda d: [_who(g, d.new) for g in d.wider if not g.own]
    ):
        found.append(f"{objects}: {role} may do more than in the old database")
    return found


def _grouped(
    differences: Sequence[Difference], roles: Callable[[Difference], Iterable[str]]
) -> Iterator[tuple[str, str]]:
    """Each role, and the names of its objects."""
    found: dict[str, list[str]] = {}
    for one in differences:
        for role in dict.fromkeys(roles(one)):
            found.setdefault(role, []).append(str(one.old))
    for role in sorted(found):
        yield role, shortened(found[role])


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


def not_ownable(old: RightsState, new: RightsState, definer: str = "") -> dict[str, list[str]]:
    """Pure: owners that cannot be set in the new database, and their objects that are to be made.

    definer -- only of these: 'code' functions that run as their owner, 'view' views.
    """
    found: dict[str, list[str]] = {}
    for key, one in old.rights.items():
        # Default privileges belong to their role.
        if one.follows or key in new.rights or one.kind == DEFAULTS:
            continue
        if not new.roles.get(one.owner) and (not definer or one.definer == definer):
            found.setdefault(one.owner, []).append(str(one))
    return found
