"""What a fresh run removes, and what it leaves."""

import json

import pytest

from xpulpnn_sim.exploration.loop import remove_earlier

pytestmark = pytest.mark.unit


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def point(folder, *names, **extra):
    record = {"keys": {"flows": ["k"]}, "files": [*names, "result.json"], **extra}
    write(folder, **dict.fromkeys(names, ""), **{"result.json": json.dumps(record)})


def test_only_what_runs_wrote_goes(tmp_path):
    point(tmp_path / "points" / "gone", "dotp.v", "asic-area/netlist.v")
    point(tmp_path / "points" / "kept", "dotp.v")
    write(tmp_path / "points" / "kept", **{"notes.txt": "mine"})
    write(tmp_path / "points" / "other", **{"result.json": "{}", "dotp.v": ""})
    write(tmp_path, **{"results.json": json.dumps({"command": "xpulpnn explore --top dotp", "points": []})})
    write(tmp_path, **{"results.csv": "", "report.html": "", "thesis.tex": ""})
    remove_earlier(tmp_path)
    assert files(tmp_path) == ["points/kept/notes.txt", "points/other/dotp.v", "points/other/result.json", "thesis.tex"]
    assert not (tmp_path / "points" / "gone").exists()


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"points": [], "command": "make all"}'])
def test_tables_of_somebody_else_stay(tmp_path, text):
    write(tmp_path, **{"results.json": text, "results.csv": "", "report.html": ""})
    remove_earlier(tmp_path)
    assert files(tmp_path) == ["report.html", "results.csv", "results.json"]


def test_nothing_outside_the_folder_is_ever_meant(tmp_path):
    point(tmp_path / "run" / "points" / "a")
    write(tmp_path, precious="")
    record = {"keys": {"flows": []}, "files": ["../../../precious", str(tmp_path / "precious"), "result.json"]}
    write(tmp_path / "run" / "points" / "a", **{"result.json": json.dumps(record)})
    remove_earlier(tmp_path / "run")
    assert files(tmp_path) == ["precious"]
