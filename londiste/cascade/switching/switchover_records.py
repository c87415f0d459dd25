"""An unfinished switchover: who has recorded it, what undoes it, and when it is refused."""

from __future__ import annotations

from londiste.cascade.switching import operation_log
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import Cancel, Ticket
from londiste.cascade.switching.steps.roots import KeepClosed, ReopenRoot
from londiste.db.names import argument, word
from londiste.errors import NodeUnreachable, StateError
from londiste.orchestration.steps import Step


def noted_switchover(scene: ClusterState, new: str) -> Operation | None:
    """The record of a switchover to ``new``, at either of its nodes."""
    for found in scene.operations.values():
        if found.kind is OperationKind.SWITCHOVER and found.new == new:
            return found
    return None


def begun_away_from(scene: ClusterState, root: str) -> Operation | None:
    """The unfinished switchover that replaces node ``root``, recorded at either node."""
    for found in scene.operations.values():
        if found.kind is OperationKind.SWITCHOVER and found.node == root:
            return found
    return None


def rollback(scene: ClusterState, new: str) -> list[Step]:
    """The steps that undo an unfinished switchover to ``new``.

    If another node has become the root since, the old root stays closed.

    Raises StateError when none is under way, or the new root is promoted already.
    """
    noted = noted_switchover(scene, new)
    promoted = new in scene.topology.roots
    if noted is not None and not promoted and overtaken(scene, noted) is not None:
        return _forget(scene, noted)
    scene.info(new)
    if noted is None and (silent := scene.silent()):
        raise NodeUnreachable(
            f"no node that answers has recorded a switchover to {new}; nodes without an answer:"
            f" {silent}",
            hint="start its server and repeat the command",
        )
    if noted is None:
        raise StateError(
            f"no switchover to {new} is under way", hint="londiste status shows the nodes"
        )
    if promoted:
        raise StateError(
            f"node {new} is the root already, a switchover to it cannot be undone",
            hint=f"londiste switchover --to {word(new)} finishes it; afterwards"
            f" londiste switchover --to {word(noted.node)} reverses it",
        )
    _refuse_marked(scene, noted.node)
    ticket = Ticket(noted.token)
    scene.info(noted.node)
    return [
        Cancel(scene.place(new), scene.queue, ticket),
        ReopenRoot(scene.place(noted.node), scene.queue, ticket),
    ]


def overtaken(scene: ClusterState, noted: Operation) -> str | None:
    """The node that has become the root since a switchover was interrupted; None: there is none."""
    views = scene.topology.views
    roots = [name for name in scene.topology.roots if not views[name].member.dead]
    return operation_log.overtaken(noted, roots)


def refuse_overtaken(scene: ClusterState, noted: Operation) -> None:
    """Raises StateError for a switchover after which there would be two roots."""
    if (other := overtaken(scene, noted)) is not None:
        old = argument(noted.node)
        raise StateError(
            f"node {other} has become the root: the switchover from {noted.node} to {noted.new}"
            " cannot be finished",
            detail="there would be two roots",
            hint=f"remove its records: {noted.command()} --rollback; then rejoin the old root:"
            f" londiste resurrect --node {old}; or, if it will not return: londiste drop-node"
            f" {old}",
        )
    for name in (noted.node, noted.new):
        _refuse_marked(scene, name)


def _refuse_marked(scene: ClusterState, name: str) -> None:
    """Raises StateError for a node that others take for failed, and may have replaced."""
    view = scene.topology.views.get(name)
    if view is None or view.info is None or not view.member.dead:
        return
    silent = scene.silent()
    raise StateError(
        f"node {name} is marked as failed, and another node may have become the root",
        detail=f"nodes without an answer: {silent}" if silent else "",
        hint=("start the servers of these nodes; or, " if silent else "")
        + f"if no other node is the root: londiste tag-alive {argument(name)}",
    )


def _forget(scene: ClusterState, noted: Operation) -> list[Step]:
    """The steps that remove the records of a switchover while its old root stays closed."""
    ticket, queue = Ticket(noted.token), scene.queue
    steps: list[Step] = []
    if scene.answers(noted.new):
        steps.append(Cancel(scene.place(noted.new), queue, ticket))
    if scene.answers(noted.node):
        steps.append(KeepClosed(scene.place(noted.node), queue, ticket))
    return steps
