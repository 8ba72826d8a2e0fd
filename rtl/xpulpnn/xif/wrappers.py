"""SystemVerilog wrappers between the flat ports of the coprocessor and the interface types of four cores.

Structures are type parameters, so that no wrapper needs the package of its core.
"""

from collections.abc import Mapping
from pathlib import Path
from string import Template

from xpulpnn.errors import ConfigError
from xpulpnn.xif.config import XifConfig

_OBI_PORTS = """,
  output logic        obi_req_o,
  input  logic        obi_gnt_i,
  output logic [31:0] obi_addr_o,
  input  logic        obi_rvalid_i,
  input  logic [31:0] obi_rdata_i,
  input  logic        obi_err_i"""

_OBI_PINS = """,
    .obi__req(obi_req_o), .obi__gnt(obi_gnt_i), .obi__addr(obi_addr_o), .obi__rvalid(obi_rvalid_i),
    .obi__rdata(obi_rdata_i), .obi__err(obi_err_i)"""

_MEMORY_PINS = """
    .mem__valid(mem_valid), .mem__ready(xif_mem_if.mem_ready), .mem__id(mem_id), .mem__addr(mem_addr),
    .mem__last(mem_last), .mem__exc(xif_mem_if.mem_resp.exc), .mem__exccode(xif_mem_if.mem_resp.exccode),
    .mem_result__valid(xif_mem_result_if.mem_result_valid), .mem_result__id(xif_mem_result_if.mem_result.id),
    .mem_result__rdata(xif_mem_result_if.mem_result.rdata), .mem_result__err(xif_mem_result_if.mem_result.err),"""

_NO_MEMORY = """  assign mem_valid = '0;
  assign mem_id = '0;
  assign mem_addr = '0;
  assign mem_last = '0;
"""

WRAPPERS: Mapping[str, str] = {"cv32e40x": "0.2", "cv32e40px": "0.2", "cve2": "1.0", "cva6": "1.0"}
"""Version of the interface of each core, which has a configuration and a template of the same name."""


def wrapper(host: str, config: XifConfig, module: str, *, is_async: bool = False, separator: str = "__") -> str:
    """Return the wrapper ``<module>_<host>`` of the coprocessor ``module``; ``is_async`` if its reset is ``rst_n``.

    Raises :class:`ConfigError` if the core has another version of the interface, or no memory interface to use.
    """
    if config.version != WRAPPERS[host]:
        raise ConfigError(f"version must be {WRAPPERS[host]} for {host}, not {config.version}")
    by_core, by_port = config.memory == "xif", config.memory == "obi"
    if by_core and host != "cv32e40x":
        raise ConfigError(f"memory must be none or obi for {host}, not {config.memory}")
    template = Path(__file__).parent / f"wrapper_templates/{host}.sv"
    text = Template(template.read_text()).substitute(
        wrapper=f"{module}_{host}",
        module=module,
        reset=".rst_n(rst_ni)" if is_async else ".rst(~rst_ni)",
        id_top=config.id_bits - 1,
        obi_ports=_OBI_PORTS if by_port else "",
        obi_pins=_OBI_PINS if by_port else "",
        memory_pins=_MEMORY_PINS if by_core else "",
        no_memory="" if by_core else _NO_MEMORY,
    )
    return text.replace("__", separator)
