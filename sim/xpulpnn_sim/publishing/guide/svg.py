"""SVG in the colours of the guide's theme: inside a page, or as a file that brings them along, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape

from xpulpnn_sim.publishing.guide import html

STYLE = {
    "box": 'fill="var(--color-background-secondary)" stroke="var(--color-foreground-border)"',
    "accent": 'fill="var(--color-background-hover)" stroke="var(--color-brand-primary)"',
    "line": 'fill="none" stroke="currentColor" stroke-width="1.3"',
    "faint": 'fill="none" stroke="var(--color-foreground-border)" stroke-dasharray="3 3"',
}
SMALL = 'font-size="10.5"'
MONOSPACE = 'font-family="var(--font-stack--monospace)" xml:space="preserve"'
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


def svg(width: int, height: int, parts: Iterable[str], label: str) -> str:
    """Return the drawing of ``parts``, described by ``label``."""
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; min-width: {width * 3 // 4}px" '
        f'role="img" aria-label="{escape(label)}" font-size="12" font-family="var(--font-stack)">\n'
        + marker
        + "\n".join(parts)
        + "\n</svg>"
    )


def inline(drawing: str) -> str:
    """The drawing as a block of a page."""
    return html.raw(f'<div class="drawing">{drawing}</div>')


def standalone(drawing: str) -> str:
    """The drawing as the text of a file, which follows the reader's choice of light or dark."""
    light, dark = (
        "; ".join(f"{name}: {colour}" for name, colour in zip(_NAMES, colours, strict=True))
        for colours in (_LIGHT, _DARK)
    )
    style = f"svg {{ {light}; {_FONTS} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    ground = '<rect width="100%" height="100%" rx="8" fill="var(--color-background-primary)"/>'
    head, _, rest = drawing.partition("\n")
    return f"{head}\n<style>\n{style}\n</style>\n{ground}\n{rest}\n"


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """A line of text, ``x`` at its start, middle or end."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor" {extra}>{escape(words)}</text>'


def box(x: int, y: int, width: int, height: int, lines: Sequence[str], kind: str = "box") -> str:
    """A box with lines of text, the first one bold."""
    top = y + height / 2 - 7 * (len(lines) - 1) + 4
    texts = [
        text(x + width / 2, top + 14 * row, line, extra='font-weight="600"' if row == 0 else SMALL)
        for row, line in enumerate(lines)
    ]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" {STYLE[kind]}/>' + "".join(texts)


def frame(x: int, y: int, width: int, height: int, title: str) -> str:
    """A dashed frame with its title inside, at the top."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" {STYLE["faint"]}/>' + text(
        x + width / 2, y + 18, title, extra='font-weight="600"'
    )


def arrow(*points: tuple[float, float], tip: bool = True, both: bool = False) -> str:
    """A line through ``points`` with a tip at its end, at both ends, or none."""
    path = " ".join(f"{'L' if index else 'M'}{x} {y}" for index, (x, y) in enumerate(points))
    tips = ' marker-end="url(#tip)"' * tip + ' marker-start="url(#tip)"' * both
    return f'<path d="{path}" {STYLE["line"]}{tips}/>'
