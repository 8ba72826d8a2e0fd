"""Emission of components as Verilog-2005, with a manifest of ports, configuration and names."""

import gc
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from importlib.metadata import version
from itertools import takewhile
from textwrap import wrap
from typing import Any, Literal

from amaranth.hdl import Fragment, Instance, MemoryInstance
from amaranth.lib import wiring

from xpulpnn.emit import hierarchy, rtlil
from xpulpnn.emit.hierarchy import ModulePort, component_ports
from xpulpnn.emit.layout import Interface, Style, comment
from xpulpnn.emit.members import field_texts, member_fields, member_meanings, summary
from xpulpnn.emit.module import ModuleText, ModuleWriter
from xpulpnn.emit.names import IDENTIFIER, port_name, snake_case
from xpulpnn.emit.process import Note, no_note
from xpulpnn.errors import InputError

_COLUMNS = 110  # width of comments

Reset = Literal["sync", "async-low"]
RESETS: tuple[Reset, ...] = ("sync", "async-low")
"""Reset of registers: synchronous by ``rst``, active high, or asynchronous by ``rst_n``, active low."""

Separator = Literal["__", "_"]
"""Separator between interface and member in the names of ports: ``instr__req`` or ``instr_req``."""

_CELL = re.compile(r"^ *cell \\(\S+) ", re.MULTILINE)  # modules that are instantiated in RTLIL
_CACHED_MODULES = 1 << 10  # modules whose text is cached for later designs
LICENCE = "Apache-2.0"  # SPDX identifier of the licence of emitted text


@dataclass(frozen=True, slots=True)
class EmittedVerilog:
    """The Verilog of a component and of all components in it."""

    header: str  #: Comment lines for the top of a file: generator, licence, command and configuration.
    #: modules: Text of each module by its name: one module per distinct component, submodules first, the top module
    #:   last.
    modules: dict[str, str]
    #: manifest: JSON-ready: ``top``, ``ports`` (name, direction, width, meaning, and the fields of control words),
    #:   ``configuration``, ``hierarchy`` (instance path to module name) and ``modules`` (component, ports, registers,
    #:   signals and instances of each).
    manifest: dict[str, Any]
    #: rtlil: Amaranth's RTLIL of each module, for equivalence checks: one text for every component that shares the
    #:   module. Instances bear the names of the emitted modules.
    rtlil: dict[str, tuple[str, ...]]

    @property
    def text(self) -> str:
        """The source as one file, which begins with a list of its modules."""
        return self.header + _contents(self.modules) + "".join(f"\n{text}" for text in self.modules.values())

    def files(self) -> dict[str, str]:
        """Return the source as one file per module, by file names, submodules first."""
        return {f"{name}.v": f"{self.header}\n{text}" for name, text in self.modules.items()}


def _contents(modules: Mapping[str, str]) -> str:
    entries = ["Modules, each behind those that it contains:"]
    for name, text in modules.items():
        about = " ".join(line[3:] for line in takewhile(lambda line: line.startswith("// "), text.split("\n")))
        entries.append(f"{name}: {about.partition('. ')[0].rstrip('.')}." if about else name)
    return "".join(f"{line}\n" for line in comment("\n".join(entries))) if len(modules) > 1 else ""


def plain(value: object) -> Any:
    """Convert a configuration to JSON types: dataclasses to objects, enums to names, sets to sorted lists."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {item.name: getattr(value, item.name) for item in fields(value)}
        omitted = {
            item.name for item in fields(value) if "omit_default" in item.metadata and values[item.name] == item.default
        }
        return {name: plain(item) for name, item in values.items() if name not in omitted}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=lambda item: (str(type(item)), item))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


@lru_cache(_CACHED_MODULES)
def _module_text(
    text: str,
    ports: tuple[tuple[str, str], ...],
    submodules: tuple[tuple[str, Interface], ...],
    style: Style,
    about: str,
    note: Note,
) -> tuple[tuple[str, ...], ModuleText]:
    """Return the clocks and resets of a module and its Verilog; cached, as designs have many modules in common.

    ``text`` is the RTLIL of the module, ``ports`` are names and descriptions, ``submodules`` are the instantiated
    modules; ``about`` and ``note`` are comments on the module and on cases.
    """
    module, meanings = rtlil.parse(text), dict(ports)
    inputs = (wire.name[1:] for wire in module.wires.values() if wire.port == "input")
    # Amaranth adds clocks and resets in no fixed order
    clocking = tuple(
        sorted((name for name in inputs if name not in meanings), key=lambda name: name.rpartition("_")[::2])
    )
    meanings = {name: style.clocking_meaning(name) for name in clocking} | meanings
    return clocking, ModuleWriter(module, clocking, meanings, dict(submodules), style, note).write(about)


class _Emission:
    def __init__(self, top: wiring.Component, name: str, style: Style) -> None:
        self.top = top
        self.name = name
        self.style = style
        self.texts: dict[str, ModuleText] = {}
        self.known: dict[str, Interface] = {}
        self.described: dict[str, dict[str, Any]] = {}
        self.rtlil: dict[str, tuple[str, ...]] = {}
        self._converted: dict[Hashable, str] = {}

    def convert(self, component: wiring.Component, fragment: Fragment | None = None) -> str:
        """Emit a component after its children, equal components once, and return the name of its module.

        ``fragment`` is the elaborated component, if it has been elaborated already.
        """
        if hasattr(component, "VERILOG"):
            return self._add_text(component)
        fragment = fragment or Fragment.get(component, None)
        hierarchy.flatten(component, fragment)
        children: list[tuple[str, str | None]] = []
        foreign: dict[str, Interface] = {}
        for index, (child, name, src_loc) in enumerate(fragment.subfragments):
            inner = hierarchy.component_of(child)
            if isinstance(child, Instance):
                foreign[child.type] = Interface(frozenset(name for name, (_, io) in child.ports.items() if io == "o"))
            if isinstance(child, Instance | MemoryInstance) or inner is None:
                children.append((name, None))
                continue
            child, domain = hierarchy.renamed(child)
            module = self.convert(inner, child)
            children.append((name, module))
            instance = hierarchy.instance(module, self.known[module].clocking, inner, domain)
            fragment.subfragments[index] = (instance, name, src_loc)
        key = hierarchy.likeness(component, fragment, children)
        if key is None or key not in self._converted:
            self._converted[key] = self._add(component, hierarchy.component_rtlil(component, fragment), foreign)
        return self._converted[key]

    def _add(self, component: wiring.Component, text: str, foreign: Mapping[str, Interface]) -> str:
        interfaces = {**self.known, **foreign}
        submodules = sorted(interfaces.keys() & set(_CELL.findall(text)))
        ports = [port for port in component_ports(component) if port.width]
        meanings, note = member_meanings(component), getattr(component, "case_note", no_note)
        fields = {port: "\n".join(["", *field_texts(rows)]) for port, rows in member_fields(component).items()}
        # a component that writes comments of its own may write others the next time
        write = _module_text if note is no_note else _module_text.__wrapped__
        clocking, written = write(
            text,
            tuple((port.name, meanings.get(port.name, "") + fields.get(port.name, "")) for port in ports),
            tuple((name, interfaces[name]) for name in submodules),
            self._style_of(component),
            summary(component),
            note,
        )
        name = self.name if component is self.top else self._module_name(component, written)
        self.texts[name] = written
        self.rtlil[name] = tuple(dict.fromkeys((*self.rtlil.get(name, ()), text)))
        outputs = frozenset(port.name for port in ports if port.direction == "output")
        self.known[name] = Interface(outputs, clocking)
        self.described[name] = {
            "component": f"{type(component).__module__}.{type(component).__qualname__}",
            "ports": self._ports(component, clocking, ports),
            "registers": written.registers,
            "signals": written.signals,
            "instances": dict(written.instances),
        }
        return name

    def _add_text(self, component: Any) -> str:
        """Add a module with a latch, which Amaranth cannot describe: its Verilog is an attribute of the component."""
        if self.style.both_edges:
            raise InputError("clock_gate must be false in a model whose clock has two edges per cycle, not true")
        written = ModuleText(component.VERILOG, tuple(comment(summary(component))), [], [], ())
        name, ports, clocking = self._module_name(component, written), list(component_ports(component)), ("clk",)
        self.texts[name] = written
        outputs = frozenset(port.name for port in ports if port.direction == "output")
        self.known[name] = Interface(outputs, clocking)
        names = {"component": f"{type(component).__module__}.{type(component).__qualname__}"}
        nothing = {"registers": [], "signals": [], "instances": {}}
        self.described[name] = names | {"ports": self._ports(component, clocking, ports)} | nothing
        return name

    def _style_of(self, component: wiring.Component) -> Style:
        return self.style if component is self.top else replace(self.style, separator="__")

    def _module_name(self, component: wiring.Component, written: ModuleText) -> str:
        variant = getattr(component, "module_variant", "")
        kind = "_".join(filter(None, (snake_case(type(component).__name__), variant)))
        kind = f"{self.style.prefix}{kind}"
        name, number = kind, 1
        while name == self.name or (name in self.texts and self.texts[name] != written):
            number += 1
            name = f"{kind}_{number}"
        return name

    def instances(self, path: str, module: str) -> Iterator[tuple[str, str]]:
        yield path, module
        for instance, inner in self.texts[module].instances if module in self.texts else ():
            yield from self.instances(f"{path}.{instance}", inner)

    def _ports(
        self, component: wiring.Component, clocking: tuple[str, ...], ports: list[ModulePort]
    ) -> list[dict[str, Any]]:
        meanings, fields = member_meanings(component), member_fields(component)
        separator, names = self._style_of(component).separator, ("name", "direction", "width", "meaning")
        rows = [(self.style.clocking_name(name), "input", 1, self.style.clocking_meaning(name)) for name in clocking]
        described: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
        for port in ports:
            row = port_name(port.name, separator), port.direction, port.width, meanings.get(port.name, "")
            more = {"fields": fields[port.name]} if port.name in fields else {}
            described.append(dict(zip(names, row, strict=True)) | more)
        taken = Counter(row["name"] for row in described)
        for name in (name for name, count in taken.items() if count > 1):
            raise InputError(f"separator must be __ where two ports would be called {name}, not {separator}")
        return described


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which would search the growing graph of live objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _settings(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _settings(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        yield f"{name} = {','.join(map(str, value))}"
    else:
        yield f"{name} = {str(value).lower() if isinstance(value, bool) else value}"


def _header(configuration: Any, command: str, style: Style) -> str:
    lines = [f"Generated by xpulpnn {version('xpulpnn')} (xpulpnn.verilog); do not edit."]
    lines.append(f"SPDX-License-Identifier: {LICENCE}")
    for title, text in (("Command", command), ("Configuration", "; ".join(_settings(configuration)))):
        if text:
            lines += wrap(f"{title}: {text}", _COLUMNS, subsequent_indent="    ", break_on_hyphens=False)
    initial = "with" if style.initial else "without"
    lines.append(f"Reset: {style.reset}; registers {initial} initial values.")
    return "".join(f"// {line}\n" for line in lines)


def emit(
    component: wiring.Component,
    name: str,
    *,
    config: object = None,
    prefix: str = "",
    reset: Reset = "sync",
    initial: bool = True,
    command: str = "",
    both_edges: bool = False,
    separator: Separator = "__",
) -> EmittedVerilog:
    """Emit ``component`` as the Verilog module ``name``, with a module for each distinct component in it.

    The same component and configuration give the same bytes. Elaborates ``component``, which can be done once only.

    ``config``, by default the component's, is written as ``configuration`` in the manifest and in the header, which
    also shows the ``command`` line. ``prefix`` begins the name of every module, so that designs with different prefixes
    can be compiled together. Registers are reset at the clock edge by ``rst``, active high, or at once by ``rst_n``,
    active low (``async-low``); with ``initial`` they also have their reset values before the first reset. With
    ``both_edges`` every change of a clock is an edge, which halves the changes that a simulator follows; it needs
    SystemVerilog. ``separator`` is the text between interface and member in the port names of ``component``.

    Raises :class:`InputError` if the prefix cannot begin an identifier, and :class:`ToolError` if the component
    contains something that cannot be written as Verilog.
    """
    if prefix and not IDENTIFIER.fullmatch(prefix):
        raise InputError(f"prefix must be letters, digits and underscores, a letter first, not {prefix}")
    style = Style(prefix=prefix, reset=reset, initial=initial, both_edges=both_edges, separator=separator)
    top = f"{prefix}{name}"
    emission = _Emission(component, top, style)
    with _without_garbage_collection():
        emission.convert(component)
    configuration = plain(getattr(component, "config", config) or {} if config is None else config)
    modules = {
        module: "".join(f"{line}\n" for line in written.summary) + f"module {module}{written.text}"
        for module, written in emission.texts.items()
    }
    manifest = {
        "top": top,
        "ports": emission.described[top]["ports"],
        "configuration": configuration,
        "hierarchy": dict(sorted(emission.instances(top, top))),
        "modules": emission.described,
    }
    return EmittedVerilog(_header(configuration, command, style), modules, manifest, emission.rtlil)
