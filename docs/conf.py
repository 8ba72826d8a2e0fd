"""Sphinx: how the pages become the guide; ``make docs`` runs it."""

import json
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from xpulpnn_sim.cli.tree import commands

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.generate.instructions import records
from docs.generate.pages import expand_page, members_section

project = "xpulpnn"
author = "the xpulpnn authors"
project_copyright = "the xpulpnn authors; Apache-2.0"
release = version = version_of("xpulpnn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []
nitpicky = False

napoleon_google_docstring = False
napoleon_custom_sections = [("Members", "params_style")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = f"xpulpnn {release}"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sphinx = False


def _fill(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = expand_page(source[0], commands=commands)


def _arrange(_app: Sphinx, what: str, _name: str, item: Any, _options: object, lines: list[str]) -> None:
    lines += members_section(item) if what == "class" else ()


def _write_table(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        Path(app.outdir, "isa.json").write_text(json.dumps(records(), indent=1) + "\n")


def setup(app: Sphinx) -> None:
    """Fill in what is generated before a page is read."""
    app.connect("source-read", _fill)
    app.connect("build-finished", _write_table)
    # before napoleon
    app.connect("autodoc-process-docstring", _arrange, priority=400)
