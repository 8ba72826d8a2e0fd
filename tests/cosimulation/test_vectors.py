"""Single-instruction vectors: hand-computed ones pass on both engines, spoilt and malformed ones do not."""

import gzip
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from tests.programs import read_results

from xpulpnn.config import PRESETS, preset
from xpulpnn.errors import InputError
from xpulpnn.isa.table import Decoder, enabled, find
from xpulpnn_sim.cli.main import main
from xpulpnn_sim.cosimulation.checks.vector_stream import VectorBench
from xpulpnn_sim.cosimulation.checks.vectors import VectorReader, check_golden, registers_of
from xpulpnn_sim.cosimulation.model.libraries import simulated
from xpulpnn_sim.reference.iss.core import Iss
from xpulpnn_sim.verification.random.drawn_vectors import drawn_vectors

RTL = pytest.param("rtl", marks=pytest.mark.cosim)
ENGINES = [RTL, "golden"]


def word(mnemonic, operands=None, **values):
    return find(mnemonic, operands).encode(**{"rd": 10, "rs1": 11, **values})


def plain(mnemonic, rs1, rs2, rd_in, rd_out, **immediates):
    return {
        "insn": mnemonic,
        "word": word(mnemonic, **(immediates or {"rs2": 12})),
        "rs1": rs1,
        "rs2": rs2,
        "rd_in": rd_in,
        "rd_out": rd_out,
    }


def mac_load(mnemonic, imm, rs1, rd_in, nnrf_in, mem, rd_out, rs1_out, nnrf_out, rd=10):
    return {
        "insn": mnemonic,
        "word": word(mnemonic, rd=rd, nnimm5=imm),
        "imm": imm,
        "rs1": rs1,
        "rd_in": rd_in,
        "rd_is_x0": rd == 0,
        "nnrf_in": nnrf_in,
        "mem": mem,
        "rd_out": rd_out,
        "rs1_out": rs1_out,
        "nnrf_out": nnrf_out,
    }


ENTRIES = [0x01010101, 0x02020202, 0x03030303, 0xFFFFFFFF, 0x05050505, 0x06060606]

GOOD = [
    # 8 lanes of 15 * -1, plus 1000
    plain("pv.sdotusp.n", 0xFFFF_FFFF, 0xFFFF_FFFF, 1000, 1000 - 8 * 15),
    plain("pv.dotsp.c", 0xAAAA_AAAA, 0x5555_5555, 7, (1 << 32) - 32),
    plain("p.insert", 0b1011, 2 << 5 | 4, 0xFFFF_FFFF, 0xFFFF_FFBF),
    plain("p.extractui", 0xABCD_1234, 0, 0, 0xD1, Is3=7, Is2=12),
    plain("mulhu", 0xFFFF_FFFF, 0xFFFF_FFFF, 0, 0xFFFF_FFFE),
    plain("div", 0x8000_0000, 0xFFFF_FFFF, 0, 0x8000_0000),
    plain("p.macu", 3, 5, 1, 16),
    # four lanes of act 1 * wgt -1; the weight entry is reloaded from a misaligned address
    mac_load(
        "pv.nnsdotusp.b", 0b10010, 0x8000_0001, 10, ENTRIES, {"0x80000001": 0xCAFE_BABE}, 6, 0x8000_0005,
        [*ENTRIES[:3], 0xCAFE_BABE, *ENTRIES[4:]],
    ),
    # no update: nothing is loaded, rs1 stays
    mac_load("pv.mlsdotup.b", 0b00001, 0x123, 0, ENTRIES, {}, 4 * 2 * 3, 0x123, ENTRIES),
    # rd = x0: the product is lost; the activation comes from two words
    mac_load(
        "pv.mlsdotup.b", 0b01000, 6, 0, ENTRIES, {"4": 0x4444_1111, "8": 0x9999_2222}, 0, 10,
        [0x2222_4444, *ENTRIES[1:]], rd=0,
    ),
]  # fmt: skip

COMPUTE_UPDATE = {
    "insn": "pv.cusdotsp.h.2",
    "word": word("pv.cusdotsp.h.2", rs2=12),
    "rs1": 64,
    "rs2": 0x0002_0001,
    "rd_in": 0,
    "rd_is_x0": False,
    "nnrf_in": [0, 0, 0, 0, 0xFFFF_0003, 0],
    "mem": {"64": 99},
    "rd_out": 1,
    "rs1_out": 68,
    "nnrf_out": [0, 0, 0, 0, 99, 0],
}

TEN = [*ENTRIES, 0, 0, 0x01010101, 0x02020202]
MIXED = {
    # the upper four of eight nibbles 3 4 5 6 ... by lanes of act 1 and act 2; no activation is loaded
    "insn": "pv.mlsduosp.b.n1",
    "word": find("pv.mlsduosp.b.n1", "rd2~,w,p").encode(rd=10, w=3, p=1),
    "rs1": 64,
    "rd_in": 10,
    "rd2_in": 20,
    "nnrf_in": [*ENTRIES[:5], 0x6543_0000, 0, 0, 0x01010101, 0x02020202],
    "rd_out": 10 + 3 + 4 + 5 + 6,
    "rd2_out": 20 + 2 * (3 + 4 + 5 + 6),
    "rs1_out": 64,
    "nnrf_out": [*ENTRIES[:5], 0x6543_0000, 0, 0, 0x01010101, 0x02020202],
}
PAIR = {
    # four lanes of wgt -1 with act 1 and act 2; the second one is loaded anew
    "insn": "pv.mlsduosup.b",
    "word": word("pv.mlsduosup.b", rs1=12, w=1, p=1, t=9),
    "rs1": 64,
    "rd_in": 10,
    "rd2_in": 20,
    "nnrf_in": TEN,
    "mem": {"64": 99},
    "rd_out": 6,
    "rd2_out": 12,
    "rs1_out": 68,
    "nnrf_out": [*TEN[:9], 99],
}

EVERY = [*GOOD, COMPUTE_UPDATE, MIXED, PAIR]


@pytest.fixture
def check(tmp_path, capsys):
    def run(lines, *options, name="vectors.jsonl"):
        path, report = tmp_path / name, tmp_path / "report.json"
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        code = main(["verify", "vectors", str(path), "--json", str(report), *options])
        result = read_results(report)[0] if report.exists() else None
        return code, result, capsys.readouterr().err

    return run


DESIGN = ("--preset", "xpulpnn3", "--set", "mac_load_cu=true")  # a model for all tests


@pytest.mark.flow
@pytest.mark.parametrize("engine", ENGINES)
def test_correct_vectors_pass(check, engine):
    """Out of a compressed file with an empty line."""
    code, result, _ = check([*EVERY, "\n"], "--engine", engine, *DESIGN, name="vectors.jsonl.gz")
    assert (code, result["vectors"], result["mismatches"], result["skipped"]) == (0, len(EVERY), 0, 0)


def spoilt(vector):
    """The vector with each of its results changed, and the name of that."""
    for name in ("rd_out", "rd2_out", "rs1_out"):
        if name in vector and not (name == "rd_out" and vector.get("rd_is_x0")):
            yield name, {**vector, name: vector[name] ^ 4}
    for number, entry in enumerate(vector.get("nnrf_out", ())):
        entries = [*vector["nnrf_out"]]
        entries[number] = entry ^ 1
        yield f"nnrf_out[{number}]", {**vector, "nnrf_out": entries}


@pytest.mark.flow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_spoilt_field_is_found(check, engine):
    fields, vectors = zip(*(each for vector in EVERY for each in spoilt(vector)), strict=True)
    code, result, _ = check(vectors, "--engine", engine, *DESIGN)
    assert (code, result["mismatches"]) == (1, len(vectors))
    first = [mismatch["field"] for mismatch in result["first"]]
    assert (*first,) == fields[: len(first)]
    right = GOOD[0]["rd_out"]
    mismatch = {"field": "rd_out", "expected": right ^ 4, "got": right, "line": 1}
    assert mismatch.items() <= result["first"][0].items()


@pytest.mark.flow
@pytest.mark.parametrize("preset_name", ["xpulpnn-cu", "ri5cy"])
def test_unknown_and_absent_instructions_are_skipped(check, preset_name):
    vectors = [{**GOOD[0], "insn": "pv.frobnicate.q"}, *EVERY]
    absent = {"xpulpnn-cu": ("pv.frob", "pv.nn", "pv.ml"), "ri5cy": "pv."}[preset_name]
    code, result, _ = check(vectors, "--engine", "golden", "--preset", preset_name)
    skipped = sum(vector["insn"].startswith(absent) for vector in vectors)
    assert (code, result["vectors"], result["skipped"]) == (0, len(vectors) - skipped, skipped)


def without(vector, name):
    return {key: value for key, value in vector.items() if key != name}


NN = GOOD[-3]
MALFORMED = {
    "no JSON": ("{]\n", "vector must be a JSON object, not: {]"),
    "field left out": (without(GOOD[0], "rs1"), "rs1 must be an unsigned 32-bit integer, not left out"),
    "other word": ({**GOOD[0], "word": word("add", rs2=12)}, "word must encode pv.sdotusp.n, not add (0x00c58533)"),
    "other register": (
        {**GOOD[0], "word": find("pv.sdotusp.n").encode(rd=10, rs1=9, rs2=12)},
        "rs1 field of word must be x11, not x9",
    ),
    "no NN-RF": ({**without(NN, "nnrf_in"), "rs2": 0}, "nnrf_in must be given for pv.mlsdotsup.b, not left out"),
    "other immediate": ({**NN, "imm": 3}, "imm must be the immediate of word, 18, not 3"),
    "other rd": ({**NN, "rd_is_x0": True}, "rd_is_x0 must tell whether the rd field of word is 0, not True"),
    "memory address": ({**NN, "mem": {"zero": 1}}, "mem address must be an unsigned 32-bit integer, not zero"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_lines_are_named(check, case):
    line, text = MALFORMED[case]
    code, result, error = check([GOOD[0], line], "--engine", "golden")
    assert (code, result, error.count("\n")) == (2, None, 1)
    assert f"vectors.jsonl line 2: {text}" in error


@pytest.mark.parametrize(
    ("name", "content"), [("v.jsonl.gz", b"\x1f\x8b\x08broken"), ("v.jsonl.gz", b"plain"), ("v.jsonl", b"\xff\xfe\xfd")]
)
def test_unreadable_files_are_named(tmp_path, refused, name, content):
    (tmp_path / name).write_bytes(content)
    line = refused("verify", "vectors", "--engine", "golden", tmp_path / name)
    assert line.startswith(f"vector file must be readable text or gzip, not {tmp_path / name}")


NAMES = ("xpulpnn", "xpulpnn-cu", "xpulpnn-full", "xpulpnn2")
DRAWN_CONFIGS = {name: simulated(PRESETS[name]) for name in NAMES}
# the core of DESIGN, so that its model serves for both
DRAWN_CONFIGS["all forms"] = replace(PRESETS["xpulpnn3"], mac_load_cu=True)


def rows_with_entries(config):
    return {row.key: row for row in enabled(config.extensions, config.widths) if row.uses_nnrf}


def drawn_file(path, config, per_row):
    lines = list(drawn_vectors(config, per_row * len(rows_with_entries(config)), 7))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(VectorReader(config).read(path))


@pytest.mark.parametrize("name", DRAWN_CONFIGS)
def test_drawn_vectors_agree_with_the_instruction_reference(tmp_path, name):
    config = DRAWN_CONFIGS[name]
    vectors = drawn_file(tmp_path / "drawn.jsonl", config, 10)
    assert len({vector.insn.key for vector in vectors}) > 0.9 * len(rows_with_entries(config))
    assert check_golden(vectors) == []
    iss = Iss.of(config, 0)
    for vector in vectors:
        state, registers = iss.state, registers_of(vector.insn)
        state.pc = (vector.rs1 ^ 1 << 31) & ~3
        iss.memory.write_bytes(state.pc, vector.word.to_bytes(4, "little"))
        for address, value in vector.mem.items():
            iss.memory.write(address, 4, value)
        second = vector.rd2_in if vector.insn.is_pair else vector.rs2
        state.regs[10:13] = vector.rd_in, *((second, vector.rs1) if vector.insn.is_pair else (vector.rs1, second))
        state.nn[: len(vector.nnrf_in)] = vector.nnrf_in
        assert iss.step().cause is None
        assert state.regs[10] == vector.rd_out, vector
        assert state.nn[: len(vector.nnrf_out)] == list(vector.nnrf_out), vector
        assert vector.rs1_out in (None, state.regs[registers["rs1"]]), vector
        assert not vector.insn.is_pair or state.regs[11] == vector.rd2_out, vector


@pytest.mark.cosim
@pytest.mark.parametrize("name", ["xpulpnn-full", "all forms"])
def test_drawn_vectors_pass_on_the_design(tmp_path, name):
    config = DRAWN_CONFIGS[name]
    assert VectorBench(config).check(drawn_file(tmp_path / "drawn.jsonl", config, 10)) == []


@pytest.mark.flow
def test_drawn_vectors_reach_everything():
    config = preset("xpulpnn2")
    drawn = list(drawn_vectors(config, 1500, 1))
    decoder = Decoder(enabled(config.extensions, config.widths))
    counts = Counter(decoder.decode(vector["word"]).key for vector in drawn)
    expected = {row.key for row in enabled(config.extensions, config.widths) if row.uses_nnrf}
    assert counts.keys() == expected
    requantised = [vector for vector in drawn if vector["insn"].startswith(("pv.rqu", "pv.rqs"))]
    assert {vector["word"] >> 28 for vector in requantised} == set(range(16))
    # most are within the bounds of their format
    inside = 0
    for vector in requantised:
        row = decoder.decode(vector["word"])
        width, lane = row.fmt.width, vector["word"] >> 28
        code = vector["rd_out"] >> width * lane & (1 << width) - 1
        least = 1 << width - 1 if row.a_signed else 0
        inside += code not in (least, (least - 1) % (1 << width))
    assert inside > len(requantised) / 3


@pytest.mark.flow
@pytest.mark.parametrize(("option", "absent"), [("mac_load_cross", 3 << 23), ("mac_load_dot", 1 << 25)])
def test_drawn_vectors_are_those_of_the_configuration(option, absent):
    config = replace(preset("xpulpnn2"), **{option: False}, requantise=False)
    words = [vector["word"] for vector in drawn_vectors(config, 200, 2)]
    assert not [word for word in words if word & absent == absent]
    assert {len(vector["nnrf_in"]) for vector in drawn_vectors(config, 5, 2)} == {6}


@pytest.mark.flow
def test_drawn_vectors_become_a_file(tmp_path, capfd, refused):
    path = tmp_path / "drawn.jsonl.gz"
    command = ["verify", "vectors", str(path), "--preset", "xpulpnn2", "--engine", "golden", "--seed", "3"]
    assert main([*command, "--draw", "20"]) == 0
    first = path.read_bytes()
    assert "20 vectors on golden, 0 mismatches" in capfd.readouterr().out
    assert main([*command, "--draw", "20"]) == 0
    assert path.read_bytes() == first
    for wrong, named in (
        ([*command[:-1], "-1", "--draw", "1"], "--seed"),
        (["verify", "vectors", str(path), str(path), "--draw", "1"], "FILE"),
        (["verify", "vectors", str(path), "--draw", "1", "--preset", "ri5cy"], "mac_load_nn"),
    ):
        assert re.match(rf".*{named}.* must be ", refused(*wrong))
    assert path.read_bytes() == first


def golden_mismatches(folder, vector):
    (folder / "one.jsonl").write_text(json.dumps(vector))
    return check_golden(VectorReader(preset("xpulpnn2")).read(folder / "one.jsonl"))


@pytest.mark.flow
@pytest.mark.parametrize(
    ("mnemonic", "before", "after", "rule"),
    [
        ("pv.mlsdotup.b", 7, 7, "nnrf_in must be a list of 6 or 8 words, not [0, 0, 0, 0, 0, 0, 0]"),
        ("pv.mlsdotup.b", 6, 8, "nnrf_out must be as long as nnrf_in, not 8 words"),
        ("pv.rqld", 6, 6, "nnrf_in must be a list of 8 words, not [0, 0, 0, 0, 0, 0]"),
        ("pv.mlsdotup.b", 6, 6, None),
        ("pv.mlsdotup.b", 8, 8, None),
    ],
)
def test_entries_of_a_core_with_requantisation(tmp_path, mnemonic, before, after, rule):
    operands = {"uimm1": 0} if mnemonic == "pv.rqld" else {"rd": 10, "nnimm5": 0}
    vector = {"insn": mnemonic, "word": find(mnemonic).encode(rs1=11, **operands), "rs1": 0, "rd_in": 0, "rd_out": 0}
    vector |= {"rs1_out": 4 if mnemonic == "pv.rqld" else 0, "nnrf_in": [0] * before, "nnrf_out": [0] * after}
    if rule is None:
        assert golden_mismatches(tmp_path, vector) == []
        return
    with pytest.raises(InputError) as caught:
        golden_mismatches(tmp_path, vector)
    assert str(caught.value).endswith(f"line 1: {rule}")


@pytest.mark.flow
def test_a_wrong_parameter_is_found(tmp_path):
    vector = {"insn": "pv.rqld", "word": find("pv.rqld").encode(uimm1=1, rs1=11), "rs1": 16, "rd_in": 0, "rd_out": 0}
    vector |= {"rs1_out": 20, "nnrf_in": list(range(8)), "nnrf_out": [*range(7), 9], "mem": {"16": 5}}
    (mismatch,) = golden_mismatches(tmp_path, vector)
    assert (mismatch.field, mismatch.expected, mismatch.got) == ("nnrf_out[7]", 9, 5)
