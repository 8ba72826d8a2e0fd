"""Memories built of macros: the default table, tables of users, and what memories add to times and energies."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from xpulpnn.config import ClusterConfig
from xpulpnn.errors import InputError
from xpulpnn_sim.exploration.energy.cluster import memory_energies
from xpulpnn_sim.exploration.library import Library
from xpulpnn_sim.exploration.mapped_netlist import MappedGate, MappedNetlist
from xpulpnn_sim.exploration.memories import memory_table
from xpulpnn_sim.exploration.timing import Analysis

CSV = """\
# macros of a user
name,words,bits,area_um2,access_ps,read_pj,write_pj,ports
small,64,32,1000,900,2,3,1
large,1024,32,9000,1500,8,10,
dual,64,32,2500,1100,2.5,3.5,2
"""

LIBERTY = """
library (macros) {
  time_unit : "1ns"; capacitive_load_unit (1, pf); leakage_power_unit : "1nW"; nom_voltage : 1.2;
  cell (ram) {
    area : 700; cell_leakage_power : 5;
    memory () { type : ram; address_width : 7; word_width : 16; }
    pin (CK) { direction : input; clock : true;
      internal_power () { when : "WE"; rise_power (scalar) { values (4.5); } }
      internal_power () { when : "!WE"; rise_power (scalar) { values (3.25); } } }
    bus (Q) { direction : output;
      timing () { related_pin : "CK"; timing_type : rising_edge;
        cell_rise (scalar) { values (2.5); } cell_fall (scalar) { values (2.25); } } }
  }
}
"""


def with_table(library: Library, path: Path, text: str) -> Library:
    path.write_text(text)
    changed = copy(library)
    changed.memory_files = (path,)
    return changed


def test_a_memory_takes_the_macros_with_least_area(library: Library, tmp_path: Path) -> None:
    table = memory_table(with_table(library, tmp_path / "macros.csv", CSV))
    bank = table.build("bank", 4, 2048, 32, 0)
    assert (bank.macro, bank.macros, bank.area_um2, bank.access_ps) == ("large", 2, 18000, 1500)
    # one of the two macros is read
    assert (bank.read_pj, bank.write_pj, bank.count, bank.ports) == (8, 10, 4, 1)
    lines = table.build("lines", 8, 32, 128, 0)
    assert (lines.macro, lines.macros, lines.area_um2, lines.read_pj) == ("small", 4, 4000, 8)
    # two words are read in a cycle in which one is written: two macros of two ports hold the same
    tags = table.build("tags", 8, 8, 20, 2)
    assert (tags.macro, tags.macros, tags.area_um2, tags.write_pj, tags.ports) == ("dual", 2, 5000, 7, 3)
    single = [line for line in CSV.splitlines() if not line.startswith("dual")]
    table = memory_table(with_table(library, tmp_path / "single.csv", "\n".join(single)))
    with pytest.raises(InputError, match="memories must hold macros of two ports, for tags, not of one alone"):
        table.build("tags", 8, 8, 20, 2)


def test_macros_come_from_liberty_too(library: Library, tmp_path: Path) -> None:
    table = memory_table(with_table(library, tmp_path / "macros.lib", LIBERTY))
    use = table.build("bank", 1, 256, 32, 0)
    assert (use.macro, use.macros, use.area_um2, use.access_ps) == ("ram", 4, 2800, 2500)
    # pF V^2 of the clock's edge at the unit voltage of 1 V, of the two macros that are read
    assert (use.read_pj, use.write_pj, use.leakage_nw) == pytest.approx((9, 9, 20))
    assert "macros.lib" in table.text


def test_the_default_table_is_scaled_to_the_library(library: Library) -> None:
    """A bank of 2048 words is two public macros of 1024 x 32: 336.46 x 416.64 um, 4.36 ns, 48.3 pJ, 396 nW each."""
    scales = [library.ge_area / 7.2576, library.fo4_ps / 58.8]
    bank = memory_table(library).build("bank", 16, 2048, 32, 0)
    assert (bank.macro, bank.macros) == ("1P_1024x32_c2", 2)
    assert bank.area_um2 == pytest.approx(2 * 336.46 * 416.64 * scales[0], rel=1e-4)
    assert bank.access_ps == pytest.approx(4361 * scales[1])
    assert bank.width_um * bank.height_um == pytest.approx(bank.area_um2, rel=1e-3)
    # eight words are smaller as flip-flops than in any macro, and 32 of 128 bits in two macros
    assert memory_table(library).build("lines", 1, 8, 128, 1).macro == "registers"
    shared = memory_table(library).build("lines", 1, 32, 128, 0)
    assert (shared.macro, shared.macros, shared.read_pj) == (
        "1P_64x64_c2",
        2,
        pytest.approx(2 * bank.read_pj * 39.0507 / 48.2666),
    )
    assert "SG13G2" in memory_table(library).text


@pytest.mark.parametrize("text", ["", "words,bits\n64,32\n", CSV.replace("1000", "much"), CSV.replace("64,32", "0,32")])
def test_bad_tables_are_told(library: Library, tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"memories must be a table of macros in CSV or Liberty, not \S*bad.csv"):
        memory_table(with_table(library, tmp_path / "bad.csv", text))


def test_a_path_begins_when_a_memory_has_read(library: Library) -> None:
    inverter = library.cells["INV_X1"]
    gates = [MappedGate("g", "", inverter, {"A": 2, "Y": 3}), MappedGate("h", "", inverter, {"A": 4, "Y": 5})]
    inputs, outputs = {"tcdm.bank0.words.RD_DATA[7]": 2, "a": 4}, {"x": 3, "y": 5}
    names = {net: name for name, net in {**inputs, **outputs}.items()}
    netlist = MappedNetlist(module="m", gates=gates, inputs=inputs, outputs=outputs, names=names)
    alone, _ = Analysis(netlist, library).worst()
    path, _ = Analysis(replace(netlist, read_fo4={2: 25.0}), library).worst()
    assert path.delay_ps == pytest.approx(alone.delay_ps + 1250)
    assert path.end == "x"
    assert (path.steps[0].instance, path.steps[0].cell, path.steps[0].delay_ps) == (
        "tcdm.bank0.words",
        "memory",
        pytest.approx(1250, abs=30),
    )


def test_accesses_take_the_energy_of_macros(library: Library, tmp_path: Path) -> None:
    table = memory_table(with_table(library, tmp_path / "macros.csv", CSV))
    rates = {"TCDM reads": 3.0, "TCDM writes": 0.5, "private cache lookups": 2.0, "shared cache writes": 0.25}
    config = ClusterConfig(tcdm_bytes=1 << 16, banks=16)
    energies = {energy.module: energy for energy in memory_energies(config, table, rates)}
    # 1024 words of 32 bits
    assert energies["single_port_memory_1024x32"].internal == pytest.approx(1e3 * (3 * 8 + 0.5 * 10))
    # lines of 128 bits in four macros side by side, and tags with two ports to read in two
    assert energies["two_port_memory_8x128"].internal == pytest.approx(1e3 * 2 * 4 * 2.5)
    assert energies["two_port_memory_8x25"].internal == pytest.approx(1e3 * 2 * 2 * 2.5)
    assert energies["single_port_memory_32x128"].internal == pytest.approx(1e3 * 0.25 * 4 * 3)
    assert all(energy.path == f"cluster.memories.{name}" for name, energy in energies.items())
