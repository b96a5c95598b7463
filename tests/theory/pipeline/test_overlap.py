"""DualPipe's four slots: the table keeps both passes in order, and one that doesn't is found out."""

from __future__ import annotations

from itertools import permutations

import pytest

from labtui.theory.pipeline.overlap import TABLE, OverlapError, Piece, Slot, check, hops, lines


def test_the_published_table_holds():
    check()
    assert hops() == {"forward": (4, 1, 2, 3), "backward": (4, 1, 2, 3)}


def test_only_the_right_orders_of_the_slots_hold():
    """Of the 24 orders of the four slots the four that are rotations of one another hold, and no other."""
    holding = []
    for slots in permutations(TABLE):
        try:
            check(slots)
        except OverlapError:
            continue
        holding.append(slots)
    assert sorted(holding) == sorted((*TABLE[turn:], *TABLE[:turn]) for turn in range(4))


def test_an_empty_slot_more_holds_no_pieces_twice():
    with pytest.raises(OverlapError, match=r"slot 5: MLP backward A is in slot 1 already"):
        check((*TABLE, TABLE[0]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({1: TABLE[2], 2: TABLE[1]}, "the forward goes attention, dispatch, combine, MLP, but each needs the"),
        ({0: TABLE[0]._replace(travels=Piece("dispatch", "backward"))}, "slot 1: MLP backward A and dispatch backw"),
        ({0: TABLE[0]._replace(computes=Piece("dispatch", "forward"))}, "slot 1: dispatch forward B is nothing that"),
        ({0: TABLE[0]._replace(travels=Piece("MLP", "forward"))}, "slot 1: MLP forward B is nothing that travels"),
        ({0: TABLE[0]._replace(computes=Piece("MLP", "sideways"))}, "slot 1: MLP sideways ? is nothing that computes"),
    ],
)  # fmt: skip
def test_a_broken_table_fails(change, sentence):
    broken = [change.get(number, slot) for number, slot in enumerate(TABLE)]
    with pytest.raises(OverlapError) as raised:
        check(broken)
    assert str(raised.value).startswith(sentence)
    with pytest.raises(OverlapError):
        lines(broken)


def test_a_missing_slot_fails():
    with pytest.raises(OverlapError, match="there is no slot for"):
        check(TABLE[:3])


def test_two_transfers_swapped_between_the_passes_fail():
    """The same pieces, each once, and of two micro-batches in every slot: only the order is wrong."""
    slots = [
        Slot(Piece("MLP", "backward"), Piece("combine", "forward")),
        Slot(Piece("MLP", "forward"), Piece("dispatch", "backward")),
        Slot(Piece("attention", "backward"), Piece("dispatch", "forward")),
        Slot(Piece("attention", "forward"), Piece("combine", "backward")),
    ]
    with pytest.raises(OverlapError, match="the forward goes attention, combine, MLP, dispatch, but"):
        check(slots)


def test_the_drawing():
    text = lines()
    assert max(map(len, text)) <= 80 and "".join(text).isascii()
    assert text[1].split("|")[1:3] == [" MLP bwd A      ", " MLP fwd B      "]
    assert text[2].split("|")[1:3] == [" dispatch fwd B ", " dispatch bwd A "]
    assert "forward of B:  attention 4 > dispatch 1* > MLP 2 > combine 3" in text
