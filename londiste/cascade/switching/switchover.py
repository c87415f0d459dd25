"""Switchover: a planned change of the root, without loss.

    before     the other subscribers move below the new root, if requested; the change is recorded
               at both nodes; a combined root publishes the positions of its parts; the new root
               catches up
    closing    the old root waits for writing transactions, refuses events, creates its last tick
               the new root reaches that tick; parts of a combined queue are at the same ticks on
               both nodes
               sequences are copied
    promoting  the new root takes events
    after      the old root becomes a branch below it; the records are removed

No event can be written from closing to promoting.  There are never two roots that take events: the
old one is closed, durably, before the new one is promoted.  Until the promotion everything can be
undone, and is undone when the new root does not reach the last tick in time.  The promotion needs
the token of the change, which an undo removes first, so a late promotion fails; or only the command
that undoes it can have come so far.  After the promotion the command only continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from londiste.cascade import create_hint
from londiste.cascade.fencing import combined_anew
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching import change_provider, operation_log
from londiste.cascade.switching.cluster_state import (
    ClusterState,
    Warn,
    refuse_astray,
    refuse_leaf,
)
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import Begin, Cancel, End, NodeAddress, Ticket
from londiste.cascade.switching.steps.readers import Subscribe, Unsubscribe
from londiste.cascade.switching.steps.roots import (
    AnnounceBeforeClosing,
    BecomeBranch,
    CloseRoot,
    EqualParts,
    Promote,
    ReopenRoot,
)
from londiste.cascade.switching.steps.waits import CatchUp, WaitTick
from londiste.cascade.switching.switchover_records import (
    begun_away_from,
    noted_switchover,
    refuse_overtaken,
)
from londiste.db.names import argument, word
from londiste.errors import (
    Deadlock,
    LockTimeout,
    LondisteError,
    NodeBusy,
    StateError,
    TransientError,
    from_database,
)
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import queues
from londiste.wording import repeated

#: Seconds that a server has for an answer while writes are blocked, at least.
_ANSWER_SECONDS = 2.0

#: Steps that other layers add while writes are blocked: (old root, new root) -> steps.
Carry = Callable[[NodeAddress, NodeAddress], Sequence[Step]]


@dataclass(frozen=True)
class Switchover:
    """The steps of a switchover, and its undo.

    begun -- it was under way already.
    block -- seconds in which the new root has to reach the last tick.
    """

    before: Sequence[Step]
    closing: Sequence[Step]
    promoting: Promote
    after: Sequence[Step]
    undo: tuple[Cancel, ReopenRoot]
    begun: bool
    block: float = 10.0

    @property
    def old(self) -> str:
        """The root that is replaced."""
        return self.undo[1].at.name

    def steps(self) -> list[Step]:
        """All steps in order, for ``--dry-run``."""
        return [*self.before, *self.closing, self.promoting, *self.after]


def prepare(
    sites: Connections,
    scene: ClusterState,
    new: str,
    *,
    move_all: bool = False,
    carry: Carry = lambda old, new: (),
    timeout: float,
    block: float,
    warn: Warn,
) -> Switchover | None:
    """The switchover that makes ``new`` the root; None when it is and nothing is left to do.

    move_all -- switch the other subscribers of the old root to the new one.
    timeout -- seconds for each wait during which writing continues.
    block -- seconds in which the new root has to reach the last tick, without writes.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    target = scene.info(new)
    refuse_leaf(target, "it cannot become the root")
    noted = noted_switchover(scene, new)
    if noted is None and target.type is NodeType.ROOT:
        _refuse_closed(sites, scene, target)
        return None
    if target.type is not NodeType.ROOT:
        if noted is not None:
            refuse_overtaken(scene, noted)
        refuse_astray(scene, new)
    old = scene.info(noted.node if noted is not None else scene.root().name)
    _refuse_others(scene, old, target, noted)
    ticket = Ticket(noted.token if noted is not None else None)
    here, there = scene.place(new), scene.place(old.name)
    queue = scene.queue
    from_node = noted.from_node if noted is not None and noted.from_node else target.provider

    def last_tick() -> int:
        for place in (here, there):
            found = operation_log.find(sites.at(place.dsn), queue)
            if found is not None and found.last_tick is not None:
                return found.last_tick
        raise StateError(
            f"root {old.name} is not closed", hint="repeat the command, or use --rollback"
        )

    promoted = target.type is NodeType.ROOT
    before: list[Step] = []
    late: list[Step] = []
    if move_all:
        above = scene.providers(new)
        for follower in change_provider.followers(scene, old.name, new):
            name = follower.name
            # What the new root reads from can read from it once it is the root.
            steps = change_provider.change_provider(
                sites, scene, name, new, timeout=timeout, warn=warn, ignoring=name
            )
            (late if promoted or name in above else before).extend(steps)
        # An earlier try may have moved some while the old root did not answer.
        (late if promoted else before).extend(
            change_provider.left_over(
                sites, scene, change_provider.moved(scene, new), new, warn, ours=(old.name,)
            )
        )
    begin: list[Step] = [
        Begin(place, queue, OperationKind.SWITCHOVER, old.name, new, ticket, from_node=from_node)
        for place in (there, here)
    ]
    if old.target_for:
        begin.append(AnnounceBeforeClosing(old.name, there.dsn, queue))
    before += [
        change_provider.known_at(scene, old.name, new),
        *begin,
        CatchUp(here, there, queue, timeout),
    ]
    closing: list[Step] = [
        CloseRoot(there, queue, ticket),
        WaitTick(here, queue, last_tick, block, f"the last tick of {old.name}"),
        *([EqualParts(there, here, queue)] if old.target_for else []),
        *carry(there, here),
    ]
    after: list[Step] = [BecomeBranch(there, queue, ticket, new)]
    if old.type is not NodeType.BRANCH:
        # Once it is a branch its worker reads, and must not be set back to where it began.
        where = {name: view.member.location for name, view in scene.topology.views.items()}
        again = create_hint.again(
            NodeType.BRANCH, old.name, where.get(old.name, ""), provider=where.get(new, "")
        )
        back = Subscribe(here, queue, old.name, old.worker, last_tick, timeout, again)
        if noted is None:
            # After the promotion nothing could be undone.
            back.refuse_taken(sites)
        after.insert(0, back)
    if from_node != new:
        # Behind the end of the change nobody would look for it at the old root again.
        needed = from_node == old.name
        after.append(Unsubscribe(scene.place(from_node), queue, new, None if needed else warn))
    after += [*late, End(there, queue, ticket), End(here, queue, ticket)]
    return Switchover(
        before=[] if promoted else before,
        closing=[] if promoted else closing,
        promoting=Promote(here, queue, ticket, last_tick),
        after=after,
        undo=(Cancel(here, queue, ticket), ReopenRoot(there, queue, ticket)),
        begun=noted is not None,
        block=block,
    )


def execute(
    switch: Switchover, sites: Connections, report: Callable[[Step], None] = lambda step: None
) -> int:
    """Runs the remaining steps of a switchover; returns their number.

    A failure after the change is recorded is undone before its error is raised, unless the
    promotion may have happened: then the command must be repeated.
    """
    cancel, reopen = switch.undo
    for at in sorted((cancel.at, reopen.at), key=lambda place: place.name):
        sites.alone(at.dsn, at.name, cancel.queue)
    try:
        count = plan.execute(switch.before, sites, report)
    except (LondisteError, psycopg.Error, KeyboardInterrupt) as failed:
        # Ctrl-C, too, leaves no record behind.
        before = from_database(failed) if isinstance(failed, psycopg.Error) else failed
        if reopen.ticket.token is not None:
            # Only an earlier try can have closed the root.
            _undo(switch, sites, before, closed=switch.begun)
        if before is failed:
            raise
        raise before from failed
    closed = True
    try:
        try:
            count += plan.execute(switch.closing[:1], sites, report)
        except LockTimeout:
            closed = False
            raise
        # Nobody can write any more, and a server that is silent must not make that longer.
        with sites.answering(max(switch.block, _ANSWER_SECONDS)):
            count += plan.execute(switch.closing[1:], sites, report)
    except psycopg.Error as error:
        ours = from_database(error)
        _undo(switch, sites, ours)
        raise ours from error
    except BaseException as error:
        _undo(switch, sites, error, closed=closed)
        raise
    try:
        count += _promote(switch, sites, report)
    except (LondisteError, psycopg.Error) as failed:
        ours = from_database(failed)
        if _is_unknown(ours):
            ours.say_more(
                "the old root is closed, and it is unknown whether the new one is promoted",
                "writes may be blocked: repeat the command, or undo it with --rollback",
            )
        else:
            # It was answered, so nothing is on its way; and what undoes it asks the new root first.
            _undo(switch, sites, ours, answered=True)
        raise ours from failed
    try:
        return count + plan.execute(switch.after, sites, report)
    except (LondisteError, psycopg.Error) as failed:
        ours = from_database(failed)
        again = "repeat the command, which continues at this step"
        ours.say_more(
            f"{switch.promoting.at.name} is the root and takes events; the old root is closed and"
            " may not replicate yet",
            hint="" if isinstance(ours, TransientError) else repeated(ours.hint, again),
        )
        raise ours from failed


def _promote(switch: Switchover, sites: Connections, report: Callable[[Step], None]) -> int:
    """Promotes the new root.  When the answer is lost, a new session ends the first and looks."""
    with sites.answering(max(switch.block, _ANSWER_SECONDS)):
        try:
            return plan.execute([switch.promoting], sites, report)
        except (LondisteError, psycopg.Error) as failed:
            if not _is_unknown(from_database(failed)):
                raise
        return plan.execute([switch.promoting], sites, report)


def _is_unknown(error: LondisteError) -> bool:
    """Whether it is unknown what a step has done, after this error."""
    return isinstance(error, TransientError) and not isinstance(error, (LockTimeout, Deadlock))


def _refuse_closed(sites: Connections, scene: ClusterState, root: NodeInfo) -> None:
    """Raises StateError when a root was replaced, or when its own promotion is unfinished."""
    noted = scene.operations.get(root.name) or begun_away_from(scene, root.name)
    if noted is not None and noted.kind is not OperationKind.MOVE_CONSUMER:
        raise NodeBusy(
            f"node {root.name} is a root, and {noted.describe()} is not finished",
            hint=f"finish it: {noted.command()}",
        )
    conn = sites.at(scene.place(root.name).dsn)
    if any(i.queue_external_ticker for i in queues.get_queue_info(conn, scene.queue)):
        raise StateError(
            f"root {root.name} was replaced and takes no events",
            detail=f"roots that answer: {', '.join(scene.topology.roots)}",
            hint=combined_anew(conn, scene.queue)
            or f"londiste resurrect --node {word(root.name)} makes it a branch; then switchover",
        )


def _undo(
    switch: Switchover,
    sites: Connections,
    error: BaseException,
    *,
    closed: bool = True,
    answered: bool = False,
) -> None:
    """Opens the old root again, and adds the outcome to the error.

    closed -- it may be closed.
    answered -- the promotion was requested: the new root has to remove its record first.
    """
    cancel, reopen = switch.undo
    outcome = "everything is undone: the old root takes events again"
    undo = f"londiste switchover --to {argument(cancel.at.name)} --rollback"
    hint = ""
    opened = False
    try:
        opened = not answered and _reopened(switch, sites)
        plan.execute([cancel], sites)
        if not opened:
            plan.execute([reopen], sites)
    except (LondisteError, psycopg.Error) as second:
        found = from_database(second)
        why = "; ".join(filter(None, [found.message, found.detail]))
        way = f"undo it: {undo}"
        if opened:
            outcome = (
                f"the old root takes events again; node {cancel.at.name} keeps the record: {why}"
            )
            way = f"repeat the command, or {way}"
        elif closed:
            outcome = f"the root is closed and could not be opened again: {why}"
        else:
            outcome = f"writes continue at the old root, and the change is still recorded: {why}"
        # One that is temporary says to repeat the command, and no more than that.
        first = "" if isinstance(found, TransientError) else found.hint
        hint = "; then ".join(filter(None, [first, way]))
    if isinstance(error, LondisteError):
        error.say_more(outcome, hint=hint)


def _reopened(switch: Switchover, sites: Connections) -> bool:
    """Opens the old root at once if no other command can promote; returns False otherwise.

    This command has created the token and has not reached the promotion.  Another command that
    finds the token needs the lock at the old root, which the session that opens the root has held
    all the time.
    """
    _, reopen = switch.undo
    conn = sites.kept(reopen.at.dsn) if reopen.ticket.mine else None
    if conn is None:
        return False
    try:
        operation_log.reopen_root(conn, reopen.queue, reopen.ticket.get())
    except LondisteError:
        return False
    return True


def _refuse_others(
    scene: ClusterState, old: NodeInfo, new: NodeInfo, noted: Operation | None
) -> None:
    for name in (old.name, new.name):
        found = scene.operations.get(name)
        if found is not None and (noted is None or found.token != noted.token):
            raise found.busy(name)
    if noted is None and new.paused:
        raise StateError(
            f"the worker of node {new.name} is paused",
            hint=f"londiste resume --node {word(new.name)}",
        )
