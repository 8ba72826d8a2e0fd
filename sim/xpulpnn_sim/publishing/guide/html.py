"""Tables of the generated parts of pages, as HTML inside Markdown."""

import inspect
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from html import escape
from typing import TypeVar

E = TypeVar("E", bound=Enum)


def comments_beside(kind: type[E]) -> dict[E, str]:
    """Return the comment beside each member that has one, in the order of the source."""
    comments = re.findall(r"^    (\w+) = .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE)
    return {kind[name]: text for name, text in comments}


def code(text: str) -> str:
    """``text`` in the font of code."""
    return f'<code class="docutils literal">{escape(text)}</code>'


def block(lines: Iterable[str]) -> str:
    """Lines of code."""
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table whose cells are HTML; narrow screens scroll it."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return raw(
        f'<div class="table-wrapper container"><table class="docutils {kind}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def raw(text: str) -> str:
    """HTML as a block of Markdown for Sphinx."""
    return f"```{{raw}} html\n{text}\n```\n"
