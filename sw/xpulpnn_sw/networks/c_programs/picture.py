"""A picture of a memory plan: which bytes are whose in which step."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from xpulpnn_sw.networks.c_programs.c_network import CNetwork
from xpulpnn_sw.networks.lifetimes import Piece

_STEP, _HEIGHT = 92, 420
_LEFT, _TOP, _BOTTOM, _RIGHT = 70, 44, 74, 16
_TEXT = 11
_LETTER = 6.2  # width of a letter, about
_TICKS = 8
_KIB = 1024
_COLOURS = {"maps": "#56b4e9", "weights": "#009e73", "buffers": "#e69f00"}
_BY_ENDING = {"weights": "weights", "buffer": "buffers"}

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="{text}">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{left}" y="18" font-size="14">{title}</text>
"""


def plan_picture(network: CNetwork) -> str:
    """The plan of a network as SVG: steps from left to right, addresses upwards."""
    plan = network.plan
    width, height = _LEFT + _STEP * len(plan.steps) + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    whole = max(plan.extent, 1)
    where = "memory" if network.cores is None else "TCDM"
    title = f"{network.network.name}: {plan.extent} bytes of {where} over the steps"
    if network.outside:
        title += f", {len(network.outside)} pieces outside"
    lines = [_HEAD.format(width=max(width, 420), height=height, text=_TEXT, left=_LEFT, title=escape(title))]
    lines += _axes(network, whole)
    for piece in plan.pieces:
        lines += _box(piece, plan.places[piece.name], whole)
    kinds = {_kind(piece) for piece in plan.pieces}
    for number, kind in enumerate(kind for kind in _COLOURS if kind in kinds):
        colour = _COLOURS[kind]
        x = _LEFT + 110 * number
        lines.append(f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 15}" y="35">{kind}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _y(address: int, whole: int) -> float:
    return round(_TOP + _HEIGHT - _HEIGHT * address / whole, 1)


def _axes(network: CNetwork, whole: int) -> Iterator[str]:
    end = _LEFT + _STEP * len(network.plan.steps)
    unit = next(step for power in range(31) for step in (1 << power,) if whole / step <= _TICKS)
    for address in range(0, whole + 1, unit):
        y = _y(address, whole)
        shown = f"{address // _KIB} KiB" if unit >= _KIB else str(address)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{end}" y2="{y}" stroke="#e6e9ee"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{shown}</text>'
    for number, step in enumerate(network.plan.steps):
        x = _LEFT + _STEP * number + _STEP / 2
        name = "" if step.layer is None else network.layers[step.layer].stage.name
        load = "" if step.load is None else f"loads {network.layers[step.load].stage.name}"
        texts = [name or ("input" if number == 0 else ""), f"{network.plan.demand(number)} bytes", load]
        for row, text in enumerate(texts):
            y = _TOP + _HEIGHT + 16 + 15 * row
            yield f'<text x="{x}" y="{y}" text-anchor="middle">{escape(_short(text, _STEP))}</text>'


def _box(piece: Piece, place: int, whole: int) -> Iterator[str]:
    x, width = _LEFT + _STEP * piece.first + 1, _STEP * (piece.last - piece.first + 1) - 2
    top, bottom = _y(place + piece.size, whole), _y(place, whole)
    height = round(max(bottom - top, 1), 1)
    kind = _kind(piece)
    title = f"{piece.name}: {piece.size} bytes from {place} on"
    box = f'x="{x}" y="{top}" width="{width}" height="{height}" fill="{_COLOURS[kind]}" stroke="#fff"'
    yield f"<rect {box}><title>{escape(title)}</title></rect>"
    if height > _TEXT:
        name = escape(_short(piece.name, width))
        yield f'<text x="{x + width / 2}" y="{round(top + height / 2 + 4, 1)}" text-anchor="middle">{name}</text>'


def _kind(piece: Piece) -> str:
    return _BY_ENDING.get(piece.name.rpartition(".")[2], "maps")


def _short(text: str, width: float) -> str:
    most = int(width / _LETTER)
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}\N{HORIZONTAL ELLIPSIS}"
