"""IP-XACT (IEEE 1685-2014) description of the component: ports, OBI and AXI4 interfaces, files."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from xpulpnn_sim.publishing.packages.design import CLOCK, GENERATED, Design, Port
from xpulpnn_sim.publishing.packages.port_documents import field_text, plain_text

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
"""Signals of an OBI interface: whether the initiator drives them, bits, meaning. Those it always has come first."""

_AXI_READS = frozenset({"araddr", "arvalid", "arready", "rdata", "rvalid", "rready"})
"""Ports by which an AXI4 interface is known."""

_OBI_BUS = {"vendor": VENDOR, "library": _BUS_LIBRARY, "version": _BUS_VERSION}
_AXI_BUS = {"vendor": "amba.com", "library": "AMBA4", "version": "r0p0_0"}

_ALWAYS = ("req", "gnt", "addr", "rvalid", "rdata")

_FILE_TYPES = {".v": "verilogSource-2001", ".sdc": "SDC"}


def _name(tag: str) -> str:
    return f"{{{NAMESPACE}}}{tag}"


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, _name(tag), attributes)
    element.text = text
    return element


def _root(tag: str, library: str, name: str, version: str) -> ElementTree.Element:
    root = ElementTree.Element(_name(tag), {f"{{{_INSTANCE}}}schemaLocation": _SCHEMA})
    for part, text in (("vendor", VENDOR), ("library", library), ("name", name), ("version", version)):
        _add(root, part, text)
    return root


def _text(root: ElementTree.Element) -> str:
    ElementTree.register_namespace("ipxact", NAMESPACE)
    ElementTree.register_namespace("xsi", _INSTANCE)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- {GENERATED} -->\n{body}\n'


def _buses(design: Design) -> Mapping[str, list[Port]]:
    """OBI interfaces with 32-bit data: ports by the name before the last two underscores."""
    groups: dict[str, list[Port]] = {}
    for port in design.ports:
        bus, separator, signal = port.name.rpartition("__")
        if separator and signal in OBI_SIGNALS and port.width == OBI_SIGNALS[signal][1]:
            groups.setdefault(bus, []).append(port)
    return {bus: ports for bus, ports in groups.items() if {_signal(port) for port in ports} >= set(_ALWAYS)}


def _signal(port: Port) -> str:
    """The signal of its bus that a port is."""
    return port.name.rpartition("__")[2]


def _axi_buses(design: Design) -> Mapping[str, list[Port]]:
    """AXI4 interfaces: ports by the name before the last two underscores."""
    groups: dict[str, list[Port]] = {}
    for port in design.ports:
        bus, separator, _signal_name = port.name.rpartition("__")
        if separator:
            groups.setdefault(bus, []).append(port)
    return {bus: ports for bus, ports in groups.items() if {_signal(port) for port in ports} >= _AXI_READS}


def has_obi(design: Design) -> bool:
    """Return whether the component has an OBI interface."""
    return bool(_buses(design))


def component(design: Design, files: Sequence[str]) -> str:
    """The component; ``files`` are paths from the root of the package, the document lies in ``doc``."""
    root = _root("component", LIBRARY, design.module, design.version)
    buses, axi_buses = _buses(design), _axi_buses(design)
    if buses or axi_buses:
        interfaces = _add(root, "busInterfaces")
        for bus, ports in buses.items():
            is_target = any(port.is_input and _signal(port) == "req" for port in ports)
            _bus_interface(interfaces, bus, ports, "obi", _OBI_BUS, "slave" if is_target else "master")
        for bus, ports in axi_buses.items():
            _bus_interface(interfaces, bus, ports, "AXI4", _AXI_BUS, "master")
    model = _add(root, "model")
    view = _add(_add(model, "views"), "view")
    _add(view, "name", "rtl")
    _add(view, "envIdentifier", "verilog:any:")
    _add(view, "componentInstantiationRef", "rtl")
    instantiation = _add(_add(model, "instantiations"), "componentInstantiation")
    _add(instantiation, "name", "rtl")
    _add(instantiation, "language", "verilog")
    _add(instantiation, "moduleName", design.module)
    _add(_add(instantiation, "fileSetRef"), "localName", "rtl")
    ports = _add(model, "ports")
    for port in design.ports:
        _port(ports, port, design)
    sets = _add(root, "fileSets")
    for name in ("rtl", "constraints"):
        chosen = [path for path in files if path.startswith(f"{name}/")]
        if chosen:
            file_set = _add(sets, "fileSet")
            _add(file_set, "name", name)
            for path in chosen:
                file = _add(file_set, "file")
                _add(file, "name", f"../{path}")
                _add(file, "fileType", _FILE_TYPES[path[path.rindex(".") :]])
    _add(root, "description", f"{design.top} of the xpulpnn generator: {design.command}")
    return _text(root)


def _bus_interface(
    parent: ElementTree.Element, bus: str, ports: Sequence[Port], kind: str, reference: Mapping[str, str], side: str
) -> None:
    """An interface of the bus ``kind``; the signals of AXI4 have capital letters in its definition."""
    interface = _add(parent, "busInterface")
    _add(interface, "name", bus)
    _add(interface, "busType", None, name=kind, **reference)
    abstraction = _add(_add(interface, "abstractionTypes"), "abstractionType")
    _add(abstraction, "abstractionRef", None, name=f"{kind}_rtl", **reference)
    maps = _add(abstraction, "portMaps")
    for port in ports:
        mapping = _add(maps, "portMap")
        signal = _signal(port)
        _add(_add(mapping, "logicalPort"), "name", signal.upper() if reference is _AXI_BUS else signal)
        _add(_add(mapping, "physicalPort"), "name", port.name)
    _add(interface, side)


def _port(parent: ElementTree.Element, port: Port, design: Design) -> None:
    element = _add(parent, "port")
    _add(element, "name", port.name)
    fields = field_text(port)
    _add(element, "description", plain_text(port.meaning) + (f" Bits {fields}." if fields else ""))
    wire = _add(element, "wire")
    _add(wire, "direction", "in" if port.is_input else "out")
    if port.width > 1:
        vector = _add(_add(wire, "vectors"), "vector")
        _add(vector, "left", str(port.width - 1))
        _add(vector, "right", "0")
    if port.name == CLOCK:
        driver = _add(_add(_add(wire, "drivers"), "driver"), "clockDriver", None, clockName=CLOCK)
        half = design.clock_ns / 2
        for tag, value in (("clockPeriod", design.clock_ns), ("clockPulseOffset", 0), ("clockPulseValue", 1)):
            _add(driver, tag, f"{value:g}")
        _add(driver, "clockPulseDuration", f"{half:g}")


def obi_definitions() -> dict[str, str]:
    """The bus and its signals, by file name."""
    bus = _root("busDefinition", _BUS_LIBRARY, "obi", _BUS_VERSION)
    _add(bus, "directConnection", "true")
    _add(bus, "isAddressable", "true")
    _add(bus, "description", "Open Bus Interface, version 1 with 32-bit address and data.")
    abstraction = _root("abstractionDefinition", _BUS_LIBRARY, "obi_rtl", _BUS_VERSION)
    _add(abstraction, "busType", None, vendor=VENDOR, library=_BUS_LIBRARY, name="obi", version=_BUS_VERSION)
    ports = _add(abstraction, "ports")
    for name, (driven, width, meaning) in OBI_SIGNALS.items():
        port = _add(ports, "port")
        _add(port, "logicalName", name)
        _add(port, "description", meaning)
        wire = _add(port, "wire")
        for side, outward in (("onMaster", driven), ("onSlave", not driven)):
            element = _add(wire, side)
            _add(element, "presence", "required" if name in _ALWAYS else "optional")
            _add(element, "width", str(width))
            _add(element, "direction", "out" if outward else "in")
    return {"obi.xml": _text(bus), "obi_rtl.xml": _text(abstraction)}
