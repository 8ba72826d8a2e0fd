"""Sums of many words."""

from amaranth.hdl import Fragment, Module, Signal

from xpulpnn.arith.carry_save import carry_save


def levels(rows: list) -> list[int]:
    m = Module()
    (first, _), (second, _) = carry_save(m, rows, 8, "tree")
    Fragment.get(m, None)
    return sorted((first, second))


def test_late_words_enter_late() -> None:
    words = [Signal(8, name=f"word{i}") for i in range(7)]
    # six words take three levels, which leaves one more for the seventh
    assert levels([*words[:6], (3, words[6])]) == [4, 4]
    assert levels([(9, words[0]), (2, words[1])]) == [2, 9]
