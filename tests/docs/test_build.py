"""The guide builds without a warning into pages that need nothing from outside."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.flow

ROOT = Path(__file__).parents[2]
RESOURCE = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']((?:https?:)?//[^"']+)""")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
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


class Targets(HTMLParser):
    """Names of the places of a page, and the links and resources it names."""

    def __init__(self, page: Path):
        super().__init__()
        self.places: set[str | None] = {""}
        self.links: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.places |= {value for key, value in attrs if key == "id"}
        self.links += [value for key, value in attrs if key in ("href", "src") and value]


def test_every_link_inside_the_guide_leads_somewhere(guide):
    targets = {page: Targets(page) for page in guide.rglob("*.html")}
    links = [(page, link) for page, target in targets.items() for link in target.links if "://" not in link]
    assert len(links) > 1000
    for page, link in links:
        name, _, place = unquote(link).partition("#")
        name = name.split("?")[0]
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), (page, link)
        assert path not in targets or place in targets[path].places, (page, link)


WIDTHS = """<pre id="probe"></pre>
<script>onload = () => {
  const frames = [...document.querySelectorAll("iframe")];
  const wide = frames.filter((frame) => frame.contentDocument.documentElement.scrollWidth > frame.width);
  document.getElementById("probe").textContent = JSON.stringify(wide.map((frame) => frame.getAttribute("src")));
}</script>"""


@pytest.mark.skipif(BROWSER is None, reason="chromium or google-chrome must be on PATH")
def test_no_page_is_wider_than_a_window_of_1024_pixels(guide, tmp_path):
    pages = [page.relative_to(guide) for page in guide.rglob("*.html") if "_modules" not in page.parts]
    frames = [f'<iframe width="1024" src="{page.as_posix()}"></iframe>' for page in pages]
    (guide / "all.htm").write_text("\n".join([*frames, WIDTHS]))
    command = [
        str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--allow-file-access-from-files", f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000", "--dump-dom",
        (guide / "all.htm").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    match = re.search(r'<pre id="probe">(.+?)</pre>', done.stdout)
    assert match
    assert json.loads(match[1]) == []
