"""Documents of a package: port table, instantiation template, IP-XACT (IEEE 1685-2014)."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from xpulpnn.emit.members import field_texts
from xpulpnn_sim.publishing.packages.design import CLOCK, GENERATED, LICENCE, Design, Port

_COMMENT_COLUMNS = 110


def _meaning(port: Port) -> str:
    fields = "; ".join(field_texts(port.fields))
    return port.meaning.replace("``", "") + (f" Bits {fields}." if fields else "")


def port_table(design: Design) -> str:
    rows = [f"<!-- {GENERATED} -->", "", f"# Ports of {design.module}", ""]
    rows += ["| port | direction | bits | meaning |", "|---|---|---|---|"]
    for port in design.ports:
        meaning = _meaning(port).replace("|", "\\|")
        rows.append(f"| `{port.name}` | {port.direction} | {port.width} | {meaning} |")
    return "\n".join([*rows, ""])


def instance(design: Design) -> str:
    lines = [f"// {GENERATED}", f"// {LICENCE}", f"// Instantiation template of {design.module}: copy, then connect."]
    lines += ["", f"{design.module} {design.identifier}_i ("]
    for port in design.ports:
        kind = f"{port.direction} {port.range}".rstrip()
        comment = f"{kind} - {port.meaning.replace('``', '')}"
        lines += [f"    // {line}" for line in wrap(comment, _COMMENT_COLUMNS)]
        lines.append(f"    .{port.name}(){'' if port is design.ports[-1] else ','}")
    return "\n".join([*lines, ");", ""])


NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_SCHEMA = f"{NAMESPACE} {NAMESPACE}/index.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
VENDOR, LIBRARY = "xpulpnn", "ip"
_BUS_LIBRARY, _BUS_VERSION = "interface", "1.0"

OBI_SIGNALS = {
    "req": (True, 1, "Request; stays high with its attributes until granted."),
    "gnt": (False, 1, "The request is accepted in this cycle."),
    "addr": (True, 32, "Byte address of a word."),
    "we": (True, 1, "Write."),
    "be": (True, 4, "Byte enables."),
    "wdata": (True, 32, "Write data."),
    "rvalid": (False, 1, "Response to the oldest granted request."),
    "rdata": (False, 32, "Read data, with rvalid."),
    "err": (False, 1, "The access failed, with rvalid."),
}
"""Signals of an OBI interface: whether the initiator drives it, width, and meaning; mandatory signals first."""

_AXI_READS = frozenset({"araddr", "arvalid", "arready", "rdata", "rvalid", "rready"})
"""Signals by whose presence a group of ports is recognised as an AXI4 interface."""

_OBI_BUS = {"vendor": VENDOR, "library": _BUS_LIBRARY, "version": _BUS_VERSION}
_AHB_SIGNALS = frozenset({"haddr", "htrans", "hready"})
_AHB_BUS = {"vendor": "amba.com", "library": "AMBA3", "version": "r2p0_0"}
_AXI_BUS = {"vendor": "amba.com", "library": "AMBA4", "version": "r0p0_0"}
_ALWAYS = ("req", "gnt", "addr", "rvalid", "rdata")
_FILE_TYPES = {".v": "verilogSource-2001", ".sdc": "SDC", ".xdc": "user"}
"""IP-XACT file types by suffix; the type of other files is ``user``, with the suffix as attribute."""


def _node(tag: str, *content: str | ElementTree.Element, **attributes: str) -> ElementTree.Element:
    element = ElementTree.Element(f"{{{NAMESPACE}}}{tag}", attributes)
    for item in content:
        if isinstance(item, str):
            element.text = item
        else:
            element.append(item)
    return element


def _nodes(**texts: str) -> list[ElementTree.Element]:
    return [_node(tag, text) for tag, text in texts.items()]


def _document(tag: str, library: str, name: str, version: str, content: Iterable[ElementTree.Element]) -> str:
    root = _node(tag, *_nodes(vendor=VENDOR, library=library, name=name, version=version), *content)
    root.set(f"{{{_INSTANCE}}}schemaLocation", _SCHEMA)
    ElementTree.register_namespace("ipxact", NAMESPACE)
    ElementTree.register_namespace("xsi", _INSTANCE)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {GENERATED} -->\n{body}\n'


def _signal(port: Port) -> str:
    return port.name.rpartition("__")[2]


def _buses(ports: Iterable[Port], signals: Iterable[str]) -> dict[str, list[Port]]:
    """Group ports into buses by the name before the last double underscore; return buses with all ``signals``."""
    groups: dict[str, list[Port]] = {}
    for port in ports:
        bus, separator, _name = port.name.rpartition("__")
        if separator:
            groups.setdefault(bus, []).append(port)
    return {bus: members for bus, members in groups.items() if {_signal(port) for port in members}.issuperset(signals)}


def _obi_buses(design: Design) -> dict[str, list[Port]]:
    ports = [port for port in design.ports if port.width == OBI_SIGNALS.get(_signal(port), (True, 0))[1]]
    return _buses(ports, _ALWAYS)


def has_obi(design: Design) -> bool:
    return bool(_obi_buses(design))


def obi_checks(design: Design) -> str:
    """Return SystemVerilog with checks of OBI's rules that are bound to the ports of a design."""
    text, reset = (Path(__file__).parent / "templates/obi_checks.sv").read_text(), "~" * design.resets_low
    for bus, ports in _obi_buses(design).items():
        names = {_signal(port): port.name for port in ports}
        pins = "".join(f", .{name}({names[name]})" for name in ("req", "gnt", "rvalid"))
        pins += f", .attributes(128'({{{', '.join(names[name] for name in ('addr', 'we', 'be') if name in names)}}}))"
        text += f"bind {design.module} obi_checks {bus}_checks (.clk(clk), .rst({reset}{design.reset}){pins});\n"
    return f"// {GENERATED}\n// {LICENCE}\n{text}"


def component(design: Design, files: Sequence[str]) -> str:
    interfaces = [_bus_interface(bus, ports, "obi", _OBI_BUS) for bus, ports in _obi_buses(design).items()]
    for kind, bus_type, signals in (("AXI4", _AXI_BUS, _AXI_READS), ("AHBLite", _AHB_BUS, _AHB_SIGNALS)):
        of_kind = _buses(design.ports, signals).items()
        interfaces += [_bus_interface(bus, ports, kind, bus_type) for bus, ports in of_kind]
    view = _node("view", *_nodes(name="rtl", envIdentifier="verilog:any:", componentInstantiationRef="rtl"))
    instantiation = _node("componentInstantiation", *_nodes(name="rtl", language="verilog", moduleName=design.module))
    instantiation.append(_node("fileSetRef", _node("localName", "rtl")))
    chosen = {name: [_file(path) for path in files if path.startswith(f"{name}/")] for name in ("rtl", "constraints")}
    sets = [_node("fileSet", _node("name", name), *members) for name, members in chosen.items() if members]
    content = [
        *([_node("busInterfaces", *interfaces)] if interfaces else []),
        _node(
            "model",
            _node("views", view),
            _node("instantiations", instantiation),
            _node("ports", *(_port(port, design) for port in design.ports)),
        ),
        _node("fileSets", *sets),
        _node("description", f"{design.top} of the xpulpnn generator: {design.command}"),
    ]
    return _document("component", LIBRARY, design.module, design.version, content)


def _file(path: str) -> ElementTree.Element:
    suffix = path[path.rindex(".") :]
    kind = _FILE_TYPES[suffix]
    attributes = {"user": suffix[1:]} if kind == "user" else {}
    return _node("file", _node("name", f"../{path}"), _node("fileType", kind, **attributes))


def _bus_interface(bus: str, ports: Sequence[Port], kind: str, reference: Mapping[str, str]) -> ElementTree.Element:
    """Return the IP-XACT element of a bus interface; signals of AMBA have capital letters in IP-XACT."""
    maps = [
        _node(
            "portMap",
            _node("logicalPort", *_nodes(name=_signal(port) if reference is _OBI_BUS else _signal(port).upper())),
            _node("physicalPort", *_nodes(name=port.name)),
        )
        for port in ports
    ]
    abstraction = _node("abstractionRef", name=f"{kind}_rtl", **reference)
    return _node(
        "busInterface",
        _node("name", bus),
        _node("busType", name=kind, **reference),
        _node("abstractionTypes", _node("abstractionType", abstraction, _node("portMaps", *maps))),
        _node("slave" if any(port.is_input and _signal(port) in ("req", "arvalid") for port in ports) else "master"),
    )


def _port(port: Port, design: Design) -> ElementTree.Element:
    wire = _node("wire", _node("direction", "in" if port.is_input else "out"))
    if port.width > 1:
        wire.append(_node("vectors", _node("vector", *_nodes(left=str(port.width - 1), right="0"))))
    if port.name == CLOCK:
        times = {"clockPeriod": design.clock_ns, "clockPulseOffset": 0, "clockPulseValue": 1}
        times["clockPulseDuration"] = design.clock_ns / 2
        driver = _node("clockDriver", *_nodes(**{tag: f"{value:g}" for tag, value in times.items()}), clockName=CLOCK)
        wire.append(_node("drivers", _node("driver", driver)))
    return _node("port", _node("name", port.name), _node("description", _meaning(port)), wire)


def obi_definitions() -> dict[str, str]:
    about = "Open Bus Interface, version 1.2: the mandatory signals and err, with 32-bit address and data."
    bus = _nodes(directConnection="true", isAddressable="true", description=about)
    ports: list[ElementTree.Element] = []
    for name, (driven, width, meaning) in OBI_SIGNALS.items():
        wire = _node("wire")
        for side, outward in (("onMaster", driven), ("onSlave", not driven)):
            presence = "required" if name in _ALWAYS else "optional"
            wire.append(_node(side, *_nodes(presence=presence, width=str(width), direction="out" if outward else "in")))
        ports.append(_node("port", *_nodes(logicalName=name, description=meaning), wire))
    content = [_node("busType", name="obi", **_OBI_BUS), _node("ports", *ports)]
    return {
        "obi.xml": _document("busDefinition", _BUS_LIBRARY, "obi", _BUS_VERSION, bus),
        "obi_rtl.xml": _document("abstractionDefinition", _BUS_LIBRARY, "obi_rtl", _BUS_VERSION, content),
    }
