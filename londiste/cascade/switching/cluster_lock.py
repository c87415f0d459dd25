"""Lock of a command that changes a cascade: on every node, with a second look under it.

Of two commands that start at the same time, the second one has looked before the first one was
done.  So its plan is built from what it sees under the lock, and it stops when that differs.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.errors import NodeBusy, TransientError
from londiste.orchestration.connections import Connections


def lock(sites: Connections, seen: ClusterState, extra: str) -> ClusterState:
    """Locks changes at every node that answers; returns the cascade as it is under the lock.

    seen -- the cascade as it was before; its silent nodes are not asked again.
    extra -- as for ``look``.

    Nodes are locked in the order of their names, so that of two commands one succeeds.  Raises
    NodeBusy when another command has the lock, or has changed the cascade since ``seen``.
    """
    for name in sorted(info.name for info in seen.live()):
        # It has failed since, and the plan shows whether it is needed.
        with contextlib.suppress(TransientError):
            sites.alone(seen.place(name).dsn, name, seen.queue)
    views = seen.topology.views
    silent = {name: view.error for name, view in views.items() if view.error is not None}
    at = seen.place(seen.topology.local).dsn
    now = look(sites, at, seen.queue, extra, silent=silent)
    if found := differences(seen, now):
        raise NodeBusy(
            f"the cascade of queue {seen.queue} changed while this command started:"
            f" {'; '.join(found)}",
            detail="nothing was changed by this command",
            hint="check londiste status, then repeat the command",
        )
    return replace(now, astray=seen.astray)


def differences(before: ClusterState, now: ClusterState) -> list[str]:
    """Pure: what a command has changed between two looks.

    A node that does not answer any more is no difference: whoever reads ``now`` sees it.
    """
    old, new = before.topology.views, now.topology.views
    found = [f"node {name} was added" for name in new if name not in old]
    found += [f"node {name} was dropped or renamed" for name in old if name not in new]
    for name in sorted(old.keys() & new.keys()):
        was, is_ = old[name], new[name]
        if was.member.dead is not is_.member.dead:
            found.append(f"node {name} is marked as {'dead' if is_.member.dead else 'alive'}")
        if was.info is None or is_.info is None:
            continue
        if was.info.type is not is_.info.type:
            found.append(f"node {name} is a {is_.info.type.value} now")
        elif was.info.provider != is_.info.provider:
            found.append(f"node {name} reads from {is_.info.provider} now")
        noted, notes = before.operations.get(name), now.operations.get(name)
        if (noted and noted.token) == (notes and notes.token):
            continue
        if notes is not None:
            found.append(f"node {name}: {notes.describe()} is under way")
        elif noted is not None:
            found.append(f"node {name}: {noted.describe()} is over")
    return found
