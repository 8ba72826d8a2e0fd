"""Accesses that a bus serves as several transfers of a word."""

from amaranth.hdl import Cat, Module, Signal, Value


def collect_words(m: Module, port, valid: Value, word: Value, error: Value, *, registered: bool = False):
    """Answer accesses at ``port`` with the words of their transfers, the first lowest, of which one ends if ``valid``.

    Return the number of the current word and whether it ends the access. The answer is given in that cycle or, if
    ``registered``, in the next one.
    """
    count = len(port.rdata) // len(word)
    number = Signal(range(count), name="word")
    last = Signal(name="last")
    # words and errors of earlier transfers, the oldest lowest; of all transfers if registered
    stored = count if registered else count - 1
    words = Signal(len(word) * stored, name="words")
    failed = Signal(stored, name="failed")
    read, failures = Cat(words, word), Cat(failed, error)
    answer, answer_failures = (words, failed) if registered else (read, failures)
    parts = count // len(port.err)
    m.d.comb += [
        last.eq(valid & number.all()),
        port.rdata.eq(answer),
        port.err.eq(Cat(answer_failures.word_select(part, parts).any() for part in range(len(port.err)))),
    ]
    m.d["sync" if registered else "comb"] += port.rvalid.eq(last)
    if stored:
        with m.If(valid):
            next_word = [number.eq(number + 1)] if count > 1 else []
            m.d.sync += [*next_word, words.eq(read[len(word) :]), failed.eq(failures[1:])]
    return number, last
