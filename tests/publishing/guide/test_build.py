"""The guide builds without a warning into pages that need nothing from outside."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.flow

ROOT = Path(__file__).parents[3]
RESOURCE = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']((?:https?:)?//[^"']+)""")
IMPORT = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')]+)""")


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guide")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_takes_anything_from_outside(guide):
    pages = sorted(guide.rglob("*.html"))
    assert len(pages) > 20
    assert not {(page.name, place) for page in pages for place in RESOURCE.findall(page.read_text())}
    assert not {(sheet.name, place) for sheet in guide.rglob("*.css") for place in IMPORT.findall(sheet.read_text())}


def test_every_part_is_there(guide):
    assert not [page.name for page in guide.rglob("*.html") if "% generated:" in page.read_text()]
    assert "pv.mlsdotsup.n" in (guide / "isa/mac-load.html").read_text()
    index = (guide / "searchindex.js").read_text()
    assert '"mlsdotsup"' in index or "mlsdotsup:" in index
    assert (guide / "isa.json").stat().st_size > 100_000
