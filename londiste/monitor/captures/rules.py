"""Rules for captures: from facts to findings, without a connection.

A finding has a severity, a message, the reason and a command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from londiste.db.names import TableName, argument
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.lock_retry import LockedTable
from londiste.replication.commands.add_table_checks import create_again, not_null
from londiste.replication.commands.triggers import rows_first
from londiste.replication.renamed_tables import swap

#: What is safe: above it a statement of the application may meet PostgreSQL's limit on one text.
VALUE_BYTES = 256 << 20
ROW_BYTES = 500 << 20
#: An average that says that single rows may well come near the limits.
WIDE_BYTES = 1 << 20

#: Of a table of a branch that is not captured.
UNREADY = "its capture is lost, this branch cannot become the root"
#: Writes of a table of a branch, which refuses all.
UNTIL_ROOT = "would fail if this branch became the root,"
#: What a capture that does not match its table means, by the kind of the difference.
_STALE = {
    "owner": "it cannot add partitions, and a former owner could write changes of this table",
    "locked": "whoever looks at the definition of a locked table waits for its lock",
}
_SLOWER = "changes are still captured, but slower: row by row, or by new statements"
_Make = Callable[[Severity, str, str, str, str], Finding]


@dataclass(frozen=True)
class BrokenCapture:
    """A table whose writes fail, because an argument of its trigger does not fit.

    fault -- why; None: not known, a table that the argument names is locked.
    help -- the statement that creates the trigger again, with the same argument.
    """

    table: str
    argument: str
    fault: str | None
    help: str


@dataclass(frozen=True)
class CaptureFacts:
    """One table of the queue, by its name on this node.

    name -- its name in the queue, if that is another one.
    captures -- whether this node captures (root and branch do, a leaf refuses writes).
    root -- whether its captures are the events of the queue; those of a branch are its provider's.
    trigger -- capture, logutriga, jsontriga, sqltriga, deny or none.
    renamed -- what to do about a renamed table; events_lost -- its events carry the new name.
    lost -- why nothing is captured any more; swapped -- the other table, by its name on this node,
        whose name its events carry, because both were renamed; stray -- a table that is not
        replicated, whose events carry its name; broken -- the argument of the
        trigger at which writes fail; stale -- what does not match, and what to run, of the kind
        stale_kind (``StaleCapture``); locked -- who has locked it, for the kind locked.
    key -- columns of the primary key; key_given -- the capture was given others (pkey=).
    nullable -- columns of pkey= that may be NULL.
    whole_row -- rows without a key match by all columns.
    lost_key -- it is on a subscriber, and events of the provider name a key.
    copying -- a copy has dropped indexes and keys, and restores them at its end.
    unclear -- key columns whose text does not show whether two values are equal.
    width -- average bytes of a row by the last ANALYZE; None: there was none.
    unreadable -- nodes of the queue that cannot read what Londiste's own capture writes.
    value, row -- bytes of the largest value and row; None: not measured.
    """

    table: str
    captures: bool = True
    root: bool = True
    trigger: str = "capture"
    lost: str = ""
    swapped: str = ""
    stray: str = ""
    renamed: str = ""
    events_lost: bool = False
    broken: BrokenCapture | None = None
    stale: str = ""
    stale_kind: str = ""
    locked: LockedTable | None = None
    there: bool = True
    key: tuple[str, ...] = ("id",)
    key_given: bool = False
    nullable: tuple[str, ...] = ()
    whole_row: bool = False
    lost_key: bool = False
    copying: bool = False
    unclear: tuple[str, ...] = ()
    width: int | None = None
    value: int | None = None
    row: int | None = None
    unreadable: tuple[str, ...] = ()
    name: str = ""

    @property
    def argument(self) -> str:
        """The name that commands take, quoted for a shell."""
        return argument(self.name or self.table)


def findings(facts: list[CaptureFacts], queue: str) -> list[Finding]:
    """All findings, the worst first."""
    found = [finding for one in facts for finding in _table(one, queue)]
    return sorted(found, key=lambda one: -one.severity)


def _table(one: CaptureFacts, queue: str) -> list[Finding]:
    def finding(severity: Severity, kind: str, what: str, why: str, do: str) -> Finding:
        return Finding(severity, kind, f"table {one.table}: {what}", why, do, queue)

    found = []
    if one.renamed:
        found.append(
            finding(
                Severity.CRITICAL,
                "renamed",
                f"it was renamed to {one.renamed.partition(': ')[0]}",
                "its events carry the new name, which nodes below do not know: they lack rows"
                if one.events_lost
                else "its capture continues, and events carry the old name; commands that name the"
                " table do not find it"
                if one.captures
                else "events carry the old name, and the worker stops at the first one",
                one.renamed.partition(": ")[2],
            )
        )
    elif one.captures and (one.lost or one.stray or one.trigger == "none"):
        found.append(_uncaptured(one, finding))
    if one.captures and one.trigger == "capture" and one.unreadable:
        found.append(
            finding(
                Severity.CRITICAL,
                "capture-unreadable",
                f"{', '.join(one.unreadable)} cannot read its events",
                "the worker of Londiste 3 fails at the first packed event or TRUNCATE",
                f"londiste change-form {one.argument} --trigger logutriga",
            )
        )
    if one.broken and one.broken.fault is None:
        found.append(
            finding(
                Severity.WARNING,
                "capture-broken",
                f"an argument of its trigger could not be checked: {one.broken.argument}",
                "another session locks a table that the argument names",
                "londiste check, when that session has ended its transaction",
            )
        )
    elif one.broken and one.broken.fault is not None:
        found.append(
            finding(
                Severity.CRITICAL if one.root else Severity.WARNING,
                "capture-broken",
                f"writes of it {'fail' if one.root else UNTIL_ROOT} at an argument of its trigger:"
                f" {one.broken.argument}",
                one.broken.fault,
                f"in psql, with the argument corrected: {one.broken.help}",
            )
        )
    elif one.stale and one.there and not one.swapped:
        what, _, run = one.stale.partition(": ")
        if one.locked is not None:
            what = f"it is {one.locked.why}, so its capture was not checked"
            run = one.locked.after("londiste check")
        found.append(
            finding(
                Severity.WARNING,
                "capture-stale",
                what,
                _STALE.get(one.stale_kind, _SLOWER),
                run or "londiste check, when that session has ended its transaction",
            )
        )
    has_key = one.key or one.key_given or one.whole_row
    if one.there and not has_key and not one.copying:
        found.append(
            finding(
                Severity.WARNING,
                "no-key",
                "it has no primary key",
                "changes find rows by the provider's key: without an index of it each UPDATE and"
                " DELETE reads the whole table, and several rows may have the same key"
                if one.lost_key
                else "only INSERT and TRUNCATE can be replicated; UPDATE and DELETE are refused",
                f"alter table {TableName.parse(one.table).quoted} add primary key (…)",
            )
        )
    if one.nullable:
        found.append(
            finding(
                Severity.WARNING,
                "key-null",
                f"columns of its key (pkey=) may be NULL: {', '.join(one.nullable)}",
                "an UPDATE or DELETE of a row with a NULL in its key is refused; a capture that is"
                " stale, or a compatible trigger, logs it, and no subscriber finds the row",
                not_null(TableName.parse(one.table), one.nullable),
            )
        )
    if one.unclear:
        found.append(
            finding(
                Severity.WARNING,
                "key-text",
                f"equal values of {', '.join(one.unclear)} may have different texts",
                "changes are applied row by row, not as net changes: several times slower",
                "a key of integer, uuid, text or timestamp is faster",
            )
        )
    found += _sizes(one, finding)
    return found


def _uncaptured(one: CaptureFacts, make: _Make) -> Finding:
    restore = f"londiste triggers --restore {one.argument}"
    why = f"it {one.lost}" if one.lost else "it was added without triggers, or lost them"
    what = "its changes are not captured"
    if one.stray:
        what = f"changes of {one.stray}, which is not replicated, are captured as its own"
        why = f"{why}; " if one.lost or one.trigger == "none" else ""
        why += f"nodes below write the rows of {one.stray} into it"
    if one.root:
        again = f"{restore}, then on the nodes below: londiste resync {one.argument}"
        gone = f"londiste remove-table {one.argument}; or create it again, then {again}"
        if one.swapped:
            why = (
                f"it was renamed, and has the capture of table {one.swapped}: nodes below write its"
                f" rows into {one.swapped}"
            )
            back = swap(TableName.parse(one.table), TableName.parse(one.swapped))
            again = f"once for both tables: {back}; or keep the new names: {again}"
            what = f"its changes are captured as those of table {one.swapped}"
        return make(
            Severity.CRITICAL,
            "capture-lost",
            what,
            why,
            again if one.there else gone,
        )
    return make(
        Severity.WARNING,
        "branch-capture",
        what if one.stray else UNREADY,
        f"{why}; nodes below get the events of the provider, writes on this node reach no queue",
        f"{rows_first(one.argument)}; then {restore}"
        if one.there
        else f"{create_again(one.argument)}; then {restore}",
    )


def _sizes(one: CaptureFacts, make: _Make) -> list[Finding]:
    found = []
    for kind, size, limit in (("value", one.value, VALUE_BYTES), ("row", one.row, ROW_BYTES)):
        if size is not None and size >= limit // 2:
            over = size >= limit
            found.append(
                make(
                    Severity.CRITICAL if over else Severity.WARNING,
                    "size",
                    f"its largest {kind} has {size >> 20} MB",
                    f"up to {limit >> 20} MB a {kind} are safe; above, a statement that writes it"
                    " may fail",
                    "store them elsewhere (large objects, files); or --trigger-arg ignore=COLUMN",
                )
            )
    if one.value is None and one.width is not None and one.width >= WIDE_BYTES:
        found.append(
            make(
                Severity.WARNING,
                "size",
                f"its rows have {one.width >> 20} MB on average",
                f"up to {VALUE_BYTES >> 20} MB a value and {ROW_BYTES >> 20} MB a row are safe",
                "londiste check --sizes",
            )
        )
    return found
