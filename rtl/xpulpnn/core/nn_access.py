"""The NN-RF in ID: entries read, the entry that is going to be loaded, and waiting for one."""

from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Mux, Signal, Value

from xpulpnn.config import CoreConfig
from xpulpnn.core.control import MacLoad
from xpulpnn.isa.machine import FIRST_PARAMETER, FIRST_WEIGHT


class EntryLoad(NamedTuple):
    """The entry of the NN-RF that the instruction in ID loads."""

    is_mac_load: Value
    reloads: Value
    valid: Value  # it loads an entry: so does pv.rqld
    entry: Value


def _first_weight(config: CoreConfig) -> int:
    return FIRST_WEIGHT if config.mac_load_nn else 0


def nn_waits(m: Module, config: CoreConfig, stage: Any, decoder: Any) -> Value:
    """Address the NN-RF; returns whether the instruction in EX is going to load an entry that the one in ID reads."""
    word, ctrl, id_ex = stage.insn.payload.word, decoder.ctrl, stage.id_ex
    reload = Signal()
    nn_form = ctrl.mac_load == MacLoad.NN
    cu_form = ctrl.mac_load == MacLoad.CU
    m.d.comb += [
        reload.eq(id_ex.valid & id_ex.nn_we),
        # 0 for other instructions, which keeps the read ports quiet
        stage.nn_wgt_addr.eq((word[21:23] & nn_form.replicate(2)) | (word[25:27] & cu_form.replicate(2))),
    ]
    waits = (nn_form | cu_form) & (id_ex.nn_addr == stage.nn_wgt_addr + _first_weight(config))
    if config.mac_load_nn:
        m.d.comb += stage.nn_act_addr.eq(word[20] & nn_form)
        waits |= nn_form & (id_ex.nn_addr == stage.nn_act_addr)
    if config.requantise:
        waits |= decoder.requantise.valid & id_ex.requantise.load
    return reload & waits


def entry_load(m: Module, config: CoreConfig, stage: Any, decoder: Any) -> EntryLoad:
    """The entry that the instruction in ID loads; parameters as of :func:`nn_waits`."""
    word, ctrl = stage.insn.payload.word, decoder.ctrl
    reload_act, reload_wgt = word[23], word[24]
    reload = Signal(name="reload")
    is_nn, is_cu = ctrl.mac_load == MacLoad.NN, ctrl.mac_load == MacLoad.CU
    m.d.comb += reload.eq(is_cu | (is_nn & (reload_act | reload_wgt)))
    entry: Value = stage.nn_wgt_addr + _first_weight(config)
    valid: Value = reload
    if config.mac_load_nn:
        # both bits reload the activation that the product does not use
        other = reload_wgt if config.mac_load_cross else Const(0, 1)
        entry = Mux(is_nn & reload_act, stage.nn_act_addr ^ other, entry)
    if config.requantise:
        entry = Mux(decoder.requantise.load, FIRST_PARAMETER + word[20], entry)
        valid |= decoder.requantise.load
    return EntryLoad(is_nn | is_cu, reload, valid, entry)
