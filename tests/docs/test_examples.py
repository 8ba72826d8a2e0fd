"""Commands and examples of README and guide do what the pages say; ``make examples`` also runs those that take long."""

import os

import pytest
from tests.docs.examples import (
    ROOT,
    ExampleBlock,
    ExamplePage,
    blocks,
    example_place,
    matches,
    needed_packages,
    page_commands,
    pages,
)

SLOW = "SLOW_EXAMPLES" in os.environ  # also what takes long
RUN = [page for page in pages() if any(SLOW or not block.slow for block in blocks(page))]


@pytest.mark.flow
@pytest.mark.parametrize("path", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_a_page(tmp_path, path):
    for package in needed_packages(path):
        pytest.importorskip(package)
    example_place(tmp_path)
    page = ExamplePage(tmp_path)
    assert not [line for block in blocks(path) if SLOW or not block.slow for line in page.run(block)]


def test_every_page_that_names_a_command_of_ours_shows_it_to_be_run():
    """A command outside the blocks that are executed would go untested."""
    for page in pages():
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            if line.startswith(("xpulpnn ", ".venv/bin/xpulpnn ", "    .venv/bin/", "$ ")):
                assert any(b.line <= number < b.line + len(b.lines) for b in blocks(page)), f"{page.name}:{number}"


def test_blocks_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\none \\\n  more\n# no command\ntwo\n```\n\n<!-- slow -->\n```console\n$ three\nout\n...\n```\n"
        "```text\nnothing\n```\n```{code-block} c\n:caption: a.c\n\nint a;\n```\n"
    )
    first, second, third = blocks(page)
    assert (first.line, first.slow, second.slow) == (2, False, True)
    assert page_commands(first) == [("one    more", None), ("two", None)]
    assert page_commands(second) == [("three", ["out", "..."])]
    assert (third.file, third.lines) == ("a.c", ("int a;",))


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b"], False),
        (["in ... s"], ["in 1.2 s"], True),
        (["in ... s"], ["in 1.2 ms?"], False),
    ],
)
def test_lines_as_expected(expected, printed, same):
    assert matches(expected, printed) is same


def test_a_wrong_example_is_told(tmp_path):
    page = ExamplePage(tmp_path)
    assert not page.run(ExampleBlock("p", 1, "sh", ("true",)))
    assert "ends with 3" in page.run(ExampleBlock("p", 1, "sh", ("exit 3",)))[0]
    assert "instead of\nb" in page.run(ExampleBlock("p", 1, "console", ("$ echo a", "b")))[0]
    assert "Expected:" in page.run(ExampleBlock("p", 1, "pycon", (">>> 1 + 1", "3")))[0]
    assert "ZeroDivisionError" in page.run(ExampleBlock("p", 1, "python", ("1 / 0",)))[0]
