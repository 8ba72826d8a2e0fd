"""HTML tables and code for use inside Markdown pages."""

import inspect
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from html import escape
from typing import TypeVar

E = TypeVar("E", bound=Enum)


def comments_beside(kind: type[E]) -> dict[E, str]:
    comments = re.findall(r"^    (\w+) = .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE)
    return {kind[name]: text for name, text in comments}


def code(text: str) -> str:
    return f'<code class="docutils literal">{escape(text)}</code>'


def block(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return raw(
        f'<div class="table-wrapper container"><table class="docutils {kind}">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def raw(text: str) -> str:
    """Wrap HTML as a Markdown block for Sphinx."""
    return f"```{{raw}} html\n{text}\n```\n"
