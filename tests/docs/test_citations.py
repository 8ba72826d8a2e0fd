"""Whatever the sources cite exists: sections of the guide by their headings, documents by their names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".c", ".h", ".S", ".cpp", ".hpp", ".md", ".j2", ".js", ".css", ".toml", ".sh"}
FOLDERS = ("benchmarks", "docs", "examples", "rtl", "scripts", "sim", "sw", "tests")
CITATION = re.compile(r'guide,((?:(?:,| and)? "[^"]+")+)')
DOCUMENT = re.compile(r"\b[A-Z][A-Z0-9]+\.md\b")


def sources() -> list[Path]:
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")))]
    return [
        path
        for path in paths
        if path.is_file() and path != Path(__file__) and (path.suffix in SUFFIXES or path.name == "Makefile")
    ]


def plain(path: Path) -> str:
    """The text with line breaks and the marks of comments behind them as single blanks."""
    return re.sub(r"\s*\n\s*(?:#|//|\*)?\s*", " ", path.read_text())


def cited_sections(path: Path) -> set[str]:
    return {title for match in CITATION.finditer(plain(path)) for title in re.findall('"([^"]+)"', match[1])}


@pytest.mark.flow
def test_sections_of_the_guide():
    cited = {(str(path.relative_to(ROOT)), title) for path in sources() for title in cited_sections(path)}
    assert len(cited) > 40
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    titles = {title.strip() for page in pages for title in re.findall("^#+ (.*)", page, re.MULTILINE)}
    assert not {(path, title) for path, title in cited if title not in titles}


@pytest.mark.flow
def test_documents():
    cited = {(str(path.relative_to(ROOT)), name) for path in sources() for name in DOCUMENT.findall(path.read_text())}
    known = {path.name for folder in (ROOT, ROOT / "docs") for path in folder.glob("*.md")}
    assert not {(path, name) for path, name in cited if name not in known}
