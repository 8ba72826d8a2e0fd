# amaranth: UnusedElaboratable=no
# A constructor that raises leaves an object behind, of which Amaranth would warn.

import pytest
from amaranth.hdl import Fragment

from xpulpnn.dotp.nnrf import NnRf
from xpulpnn.errors import ConfigError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("entries", "present"), [(6, True), (4, False)])
def test_only_the_nn_form_has_an_activation_port(entries: int, present: bool) -> None:
    dut = NnRf(entries)
    Fragment.get(dut, None)
    assert ("act" in dut.signature.members) is present


def test_number_of_entries_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"^entries must be 4, 6 or 8, not 5$"):
        NnRf(5)
