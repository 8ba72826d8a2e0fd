"""CV32E40X, a core of the OpenHW Group, as a simulated design with a coprocessor behind its extension interface.

Its sources come from the package pythondata-cpu-cv32e40x. The top module has the ports of our own core.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

from xpulpnn.config import XPULPV2_WIDTHS, CoreConfig, DotpConfig
from xpulpnn.errors import ToolError
from xpulpnn.xif.config import HOST_NAME, XifConfig, XifHost
from xpulpnn.xif.wrappers import wrapper
from xpulpnn_sim.cosimulation.model.build import NATIVE, Rig, build_model
from xpulpnn_sim.cosimulation.model.libraries import cached_emission, rig_of
from xpulpnn_sim.tools.component_names import XIF

HOSTS = {"cv32e40x": False, "cv32e40x-mended": True}
"""Names of hosts, and whether the core is mended: it offers instructions only while EX is ready."""

HOST_CORE = CoreConfig(xpulpv2=False, xpulpnn=False, mac_load_nn=False, dotp=DotpConfig(widths=XPULPV2_WIDTHS))
"""Configuration of a core of ours with the instructions of the host, RV32IMC, for references."""

OWN_CSRS = frozenset(
    {"misa", "mvendorid", "marchid", "mimpid", "mcountinhibit", "mhpmevent3", "mhpmcounter3", "mhpmcounter3h"}
) | {f"{mode}instret{half}" for mode in ("", "m") for half in ("", "h")}
"""CSRs whose values differ from those of our cores; minstret stands still until mcountinhibit is cleared."""

TOP = "xpulpnn_host"
PACKAGE = "pythondata_cpu_cv32e40x"
_PORT_MACRO = "XIF_OBI"
_LOST_WRITE = "assign xif_issue_if.issue_valid     = instr_valid &&"
"""Start of the line that offers an instruction while EX is not ready, after which the core forgets that the instruction
writes a register (CV32E40X, issue 941)."""


def host_config(named: str, settings: Mapping[str, str]) -> CoreConfig:
    """Return a host as programs see it: RV32IMC, and the coprocessor if the core ``named`` by a program or ``settings``
    ask for it."""
    name, _, words = named.partition(" ")
    if name != HOST_NAME and not settings:
        return HOST_CORE
    own = dict(word.split("=", 1) for word in words.split() if name == HOST_NAME)
    return XifHost.of({**own, **settings}, "cv32e40x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coprocessor:
    """SystemVerilog with the module ``xif_cv32e40x``."""

    text: str
    has_port: bool = False  # whether it has an OBI port of its own


def no_coprocessor() -> Coprocessor:
    return Coprocessor(text=(NATIVE / "no_coprocessor.sv").read_text())


def our_coprocessor(config: XifConfig) -> Coprocessor:
    verilog, _ = cached_emission(XIF, config)
    text = "\n".join(("`define XPULPNN_IF_XIF if_xif", verilog, wrapper("cv32e40x", config, XIF)))
    return Coprocessor(text=text, has_port=config.memory == "obi")


def _folder() -> Path:
    spec = util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ToolError("pythondata-cpu-cv32e40x must be installed to simulate CV32E40X: pip install 'xpulpnn[xif]'")
    return Path(spec.origin).parent / "system_verilog"


def core_sources(*, mended: bool = False) -> str:
    """Return the core's SystemVerilog, of simulation models only the clock gate."""
    folder = _folder()
    listed = re.findall(r"^\$\{DESIGN_RTL_DIR\}/(\S+)$", (folder / "cv32e40x_manifest.flist").read_text(), re.MULTILINE)
    names = [f"rtl/{name}" for name in listed if "/bhv/" not in f"/{name}"] + ["bhv/cv32e40x_sim_clock_gate.sv"]
    text = "\n".join((folder / name).read_text() for name in names)
    if mended:
        if _LOST_WRITE not in text:
            raise ToolError("the core must be a version with issue 941 to be mended, not one without it")
        text = text.replace(_LOST_WRITE, f"{_LOST_WRITE} ex_ready_i &&")
    return text


def host_rig(coprocessor: Coprocessor, *, mended: bool = False) -> Rig:
    top = (NATIVE / "cv32e40x.sv").read_text()
    macro = f"`define {_PORT_MACRO}\n" if coprocessor.has_port else ""
    text = "\n".join((macro, core_sources(mended=mended), coprocessor.text, top))
    return rig_of(text, {"top": TOP, "ports": list(_ports(top, has_port=coprocessor.has_port))})


def _ports(top: str, *, has_port: bool) -> Any:
    header = top.partition(");")[0]
    if not has_port:
        header = re.sub(r"`ifdef.*?`endif", "", header, flags=re.DOTALL)
    for direction, high, name in re.findall(r"^  (input|output) logic (?:\[(\d+):0\] )?(\w+)", header, re.MULTILINE):
        yield {"name": name, "direction": direction, "width": int(high or 0) + 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    name: str = next(iter(HOSTS))
    coprocessor: Coprocessor = field(default_factory=no_coprocessor)

    @classmethod
    def of(cls, name: str, config: CoreConfig) -> "Host":
        """Return the core, with our coprocessor if ``config`` has it."""
        coprocessor = our_coprocessor(config.xif) if isinstance(config, XifHost) else no_coprocessor()
        return cls(name=name, coprocessor=coprocessor)

    def library(self, *, trace: bool = False) -> Path:
        return build_model(host_rig(self.coprocessor, mended=HOSTS[self.name]), trace=trace)
