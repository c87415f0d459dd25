"""Distribution of tables over queues: related ones together, none moves, and balanced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from londiste.db.names import TableName
from londiste.replicate.table_groups import Distribution, Relation, Work, distribute, groups

QUEUES = ("q", "q_2", "q_3")
NAMES = [TableName("public", f"t{number:02}") for number in range(12)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[TableName], dict[TableName, str], list[Relation]]:
    """Chosen tables, tables that are in a queue already, and relations, also of other tables."""
    chosen = draw(st.lists(st.sampled_from(NAMES), unique=True))
    placed = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(QUEUES)))
    pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
    related = draw(st.lists(pairs, max_size=10))
    return chosen, placed, [Relation(one, other, "foreign key") for one, other in related]


work = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(Work, st.integers(0, 10**14), st.integers(0, 10**12)),
)


def _places(found: Distribution) -> dict[TableName, str]:
    return {name: queue for queue, names in found.tables.items() for name in names}


@given(cases(), work)
def test_each_chosen_table_has_one_queue_or_a_reason(
    case: tuple[list[TableName], dict[TableName, str], list[Relation]],
    amounts: dict[TableName, Work],
) -> None:
    chosen, placed, relations = case
    found = distribute(chosen, placed, relations, amounts, QUEUES)
    listed = [name for names in found.tables.values() for name in names]
    assert sorted([*listed, *found.refused]) == sorted(chosen)
    place = _places(found)
    # None moves.
    assert all(place[name] == queue for name, queue in placed.items() if name in place)
    everywhere = {**placed, **place}
    apart = []
    for one in relations:
        queues = {everywhere[name] for name in one[:2] if name in everywhere}
        if len(queues) > 1:
            # Only tables that were apart before are related to another queue's.
            assert one.one in placed and one.other in placed
            apart.append(one)
    assert set(found.apart) == set(apart)
    for name, queues in found.refused.items():
        assert name not in placed and len(queues) > 1
    # The order in which the database lists things does not matter.
    again = distribute(
        list(reversed(chosen)),
        dict(reversed(placed.items())),
        list(reversed(relations)),
        dict(reversed(amounts.items())),
        QUEUES,
    )
    assert again == found


@given(cases(), work)
def test_new_tables_are_balanced_over_as_many_queues_as_there_are_groups(
    case: tuple[list[TableName], dict[TableName, str], list[Relation]],
    amounts: dict[TableName, Work],
) -> None:
    chosen, _, relations = case
    found = distribute(chosen, {}, relations, amounts, QUEUES)
    known = [one for one in relations if one.one in chosen and one.other in chosen]
    count = len(list(groups(chosen, known)))
    assert not found.refused and not found.apart
    assert sum(map(bool, found.tables.values())) == min(count, len(QUEUES))
    size = max(1, sum(amounts.get(name, Work()).size for name in chosen))
    changes = max(1, sum(amounts.get(name, Work()).changes for name in chosen))

    def weight(names: list[TableName] | tuple[TableName, ...]) -> int:
        all_work = [amounts.get(name, Work()) for name in names]
        return sum(one.size * changes + one.changes * size for one in all_work)

    loads = [weight(names) for names in found.tables.values()]
    heaviest = max((weight(group) for group in groups(chosen, known)), default=0)
    assert max(loads) - min(loads) <= heaviest


@given(cases(), work)
def test_a_repeated_command_changes_nothing(
    case: tuple[list[TableName], dict[TableName, str], list[Relation]],
    amounts: dict[TableName, Work],
) -> None:
    chosen, placed, relations = case
    first = distribute(chosen, placed, relations, amounts, QUEUES)
    placed = {**placed, **_places(first)}
    other_work = {name: Work(one.changes, one.size) for name, one in amounts.items()}
    second = distribute(chosen, placed, relations, other_work, QUEUES)
    assert second.tables == first.tables and second.refused == first.refused


def test_a_new_table_gets_into_the_queue_of_its_relatives_else_the_emptiest() -> None:
    a, b, c, d, e = NAMES[:5]
    placed = {a: "q", b: "q_2", c: "q_3"}
    amounts = {a: Work(1), b: Work(5), c: Work(9)}
    relations = [Relation(d, c, "foreign key")]
    found = distribute([d, e], placed, relations, amounts, QUEUES)
    assert found.tables == {"q": (e,), "q_2": (), "q_3": (d,)}


def test_a_table_between_two_queues_is_refused_with_what_belongs_to_it() -> None:
    a, b, c, d, _ = NAMES[:5]
    relations = [Relation(c, a, "foreign key"), Relation(c, d, "foreign key")]
    relations += [Relation(d, b, "foreign key"), Relation(a, b, "foreign key")]
    found = distribute([a, b, c, d], {a: "q", b: "q_2"}, relations, {}, QUEUES)
    assert found.tables == {"q": (a,), "q_2": (b,), "q_3": ()}
    assert found.refused == {c: ("q", "q_2"), d: ("q", "q_2")}
    assert found.apart == (relations[3],)


def test_tables_that_change_count_beside_large_ones() -> None:
    large, busy, some, more = NAMES[:4]
    amounts = {large: Work(10**9, 0), busy: Work(10**4, 10**6), some: Work(10**4), more: Work(9)}
    found = distribute([large, busy, some, more], {}, [], amounts, QUEUES[:2])
    assert found.tables == {"q": (busy,), "q_2": (large, some, more)}
