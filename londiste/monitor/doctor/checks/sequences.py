"""Checks of sequences: values that cannot be read, and different ones of the same name."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "sequence": "sequence that the user may not read",
    "sequence-differs": "sequence with other properties on the target",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about sequences of the source, and their counterparts."""
    old, source = pair.source, pair.names[0]
    for name in old.hidden_sequences:
        yield critical(
            "sequence",
            f"{old.user} may not read sequence {name}",
            "without its value the new database would return numbers twice",
            f"grant select, update on sequence {name} to {quote(old.user)}",
            side=source,
            object=name,
            admin_sql=[f"grant select, update on sequence {name} to {quote(old.user)}"],
        )
    if pair.target is None:
        return
    there = {one.name: one for one in pair.target.more.sequences}
    for one in old.more.sequences:
        other = there.get(one.name)
        if other is None or other.words == one.words:
            continue
        yield warning(
            "sequence-differs",
            f"sequence {one.name} is {other.words} in the {pair.names[1]} database, and"
            f" {one.words} in the {source} one",
            "values of one may be invalid in the other; numbers may repeat after a switch",
            side=pair.names[1],
            object=str(one.name),
            sql=[
                f"alter sequence {one.name.quoted} as {one.type} increment by {one.increment}"
                f" minvalue {one.low} maxvalue {one.high} {'' if one.cycle else 'no '}cycle"
            ],
        )
