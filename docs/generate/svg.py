"""SVG drawings, inside a page in the colours of the guide's theme, or as a file with light and dark colours."""

import re
from collections.abc import Iterable
from html import escape

from docs.generate import html

STYLE = {
    "box": 'fill="var(--color-background-secondary)" stroke="var(--color-foreground-border)"',
    "line": 'fill="none" stroke="currentColor" stroke-width="1.3"',
    "faint": 'fill="none" stroke="var(--color-foreground-border)" stroke-dasharray="3 3"',
}
SMALL = 'font-size="10.5"'
MONOSPACE = 'font-family="var(--font-stack--monospace)"'
_NAMES = (
    "--color-background-primary",
    "--color-background-secondary",
    "--color-background-hover",
    "--color-foreground-border",
    "--color-brand-primary",
    "color",
)
_LIGHT = ("#ffffff", "#f8f9fb", "#efeff4", "#878787", "#0a4bff", "#000000")
_DARK = ("#131416", "#1a1c1e", "#1e2124", "#666666", "#3d94ff", "#cfd0d0")
_FONTS = "--font-stack: system-ui, sans-serif; --font-stack--monospace: ui-monospace, monospace"
_GROUND = '<rect width="100%" height="100%" rx="8" fill="var(--color-background-primary)"/>\n'


def svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; min-width: {width * 3 // 4}px" '
        f'role="img" aria-label="{escape(label)}" font-size="12" font-family="var(--font-stack)">'
    )
    return "\n".join([head, *parts, "</svg>"])


def inline(drawing: str) -> str:
    """Return a drawing as part of a page, whose theme sets the colours."""
    themed = re.sub(r"<style>.*?</style>\n", "", drawing, flags=re.DOTALL).replace(_GROUND, "").strip()
    return html.raw(f'<div class="drawing">{themed}</div>')


def standalone(drawing: str) -> str:
    """Return a drawing as a file that follows the reader's choice of light or dark."""
    light, dark = (
        "; ".join(f"{name}: {colour}" for name, colour in zip(_NAMES, colours, strict=True))
        for colours in (_LIGHT, _DARK)
    )
    style = f"svg {{ {light}; {_FONTS} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    head, _, rest = drawing.partition("\n")
    return f"{head}\n<style>\n{style}\n</style>\n{_GROUND}{rest}\n"


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor" {extra}>{escape(words)}</text>'


def line(*points: tuple[float, float]) -> str:
    path = " ".join(f"{'L' if index else 'M'}{x} {y}" for index, (x, y) in enumerate(points))
    return f'<path d="{path}" {STYLE["line"]}/>'
