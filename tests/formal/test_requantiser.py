"""The second half of pv.rq* is proved equal to its definition, for all operands."""

import pytest
from amaranth.lib import data

from xpulpnn.config import preset
from xpulpnn.core.requantiser import RequantiseCtrl, Requantiser
from xpulpnn.errors import ToolError
from xpulpnn.isa.formats import ElemFmt
from xpulpnn.verilog import emit
from xpulpnn_sim.yosys import find_yosys

pytestmark = pytest.mark.flow

SCRIPT = """
read_verilog -sv emitted.v definition.v
hierarchy -top claim
proc
flatten
opt -full
sat -verify -prove holds 1
tee -o proved.txt stat
"""

DEFINITION = """
module claim(input [{ctrl_bits} - 1:0] ctrl, input [3:0] lane, input [4:0] places, input signed [31:0] sum,
             input [31:0] old, output holds);
    wire [31:0] result;
    requantiser unit(.ctrl(ctrl), .lane(lane), .places(places), .sum(sum), .old(old), .result(result));
    wire valid = ctrl[{valid}], to_signed = ctrl[{to_signed}];
    wire [1:0] fmt = ctrl[{fmt} +: 2];
    wire [5:0] width = fmt == {b} ? 8 : fmt == {n} ? 4 : 2;
    wire signed [31:0] least = to_signed ? -(32'sd1 <<< width - 1) : 0;
    wire signed [31:0] most = least + (32'sd1 <<< width) - 1;
    wire signed [31:0] shifted = sum >>> places;
    wire signed [31:0] clipped = shifted < least ? least : shifted > most ? most : shifted;
    wire [31:0] mask = (32'd1 << width) - 1;
    wire [31:0] inserted = (old & ~(mask << width * lane)) | ((clipped & mask) << width * lane);
    wire is_lane = fmt != {h} && lane < 32 / width;
    assign holds = valid ? !is_lane || result == inserted : result == 0;
endmodule
"""


def prove(folder, change=("", "")):
    """Prove the emitted unit; raises ToolError if it is not what the definition, with a change, says."""
    emitted = emit(Requantiser(preset("xpulpnn2")), "requantiser", config={}).text
    layout = data.Layout.cast(RequantiseCtrl)
    places = {name: layout[name].offset for name in ("valid", "to_signed", "fmt")}
    formats = {fmt.suffix: fmt.value for fmt in ElemFmt}
    text = DEFINITION.format(ctrl_bits=layout.size, **places, **formats)
    assert text.count(change[0]) == 1 or not change[0]
    (folder / "emitted.v").write_text(emitted)
    (folder / "definition.v").write_text(text.replace(*change) if change[0] else text)
    find_yosys().run(SCRIPT, folder, what="the requantiser", results=["proved.txt"], timeout_s=60)


def test_every_operand(tmp_path):
    prove(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        ("sum >>> places", "sum >> places"),
        ("(32'sd1 <<< width) - 1", "(32'sd1 <<< width) - 2"),
        ("(old & ~(mask << width * lane))", "(old & ~mask)"),
    ],
)
def test_another_definition_is_refuted(tmp_path, change):
    with pytest.raises(ToolError, match="proof did fail"):
        prove(tmp_path, change)
