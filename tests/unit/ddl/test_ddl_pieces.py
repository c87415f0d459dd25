"""Stored DDL statements are split into their parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from londiste.db.ddl import Piece, Removable, pieces, script

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
ITEMS = st.builds(
    Removable,
    name=TEXT,
    drop=st.just("drop"),
    build=st.lists(TEXT | st.just('x\n-- 3 characters: build "a"\ny'), max_size=3).map(tuple),
    finish=st.lists(TEXT, max_size=3).map(tuple),
)


@given(st.lists(ITEMS, max_size=4))
def test_the_parts_are_the_text_and_each_build_has_its_index(items: list[Removable]) -> None:
    text = script(items)
    found = pieces(text)
    assert "".join(piece.text for piece in found) == text
    assert [p.name for p in found if p.name is not None] == [i.name for i in items if i.build]
    for piece, item in zip(
        (p for p in found if p.name is not None), (i for i in items if i.build), strict=True
    ):
        assert piece.text.endswith("".join(f"{statement};\n" for statement in item.build))


def test_what_another_program_has_stored_is_one_part() -> None:
    assert pieces("") == []
    text = "create index a on b (c);\n"
    assert pieces(text) == [Piece(None, text, marked=False)]


def test_marked_parts_behind_a_text_of_another_program_are_not_told_apart() -> None:
    text = "create index a on b (c);\n" + script([Removable("i", "d", ("create",), ())])
    assert pieces(text) == [Piece(None, text, marked=False)]
