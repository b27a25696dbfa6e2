"""Settings of the documentation site. `make docs` builds it; build/docs/index.html works offline."""

from __future__ import annotations

import ast
import re
import shutil
from importlib.metadata import version as installed
from pathlib import Path

from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "cosight"
author = "The cosight authors"
copyright = author
version = release = installed("cosight")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures; links between pages are checked
smartquotes_action = "qe"  # no dashes: options begin with two hyphens
default_role = "code"  # docstrings write `name` as Markdown does

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "cosight"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(HERE / "scorer.js")
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# files outside docs/ that are pages of the site
PROJECT_PAGES = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "src/cosight/samples/ATTRIBUTION.md": "project/attribution.md",
}


def write_pages(app, config):
    """Write the pages that are made from other files: of the project, of the scripts and notebooks in examples/."""
    for source, page in PROJECT_PAGES.items():
        (HERE / page).parent.mkdir(exist_ok=True)
        (HERE / page).write_text((ROOT / source).read_text("utf-8").replace("](docs/", "](../"), "utf-8")
    folder = HERE / "examples"
    folder.mkdir(exist_ok=True)
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        shutil.copy2(notebook, folder)
    for script in sorted((ROOT / "examples").glob("*.py")):
        text = script.read_text("utf-8")
        title, _, rest = ast.get_docstring(ast.parse(text)).partition("\n")
        code = text.split('"""\n', 1)[1].strip()
        page = f"# {title.rstrip('.')}\n{rest}\n\n`examples/{script.name}`:\n\n```python\n{code}\n```\n"
        (folder / f"{script.stem}.md").write_text(page, "utf-8")
    contents = "\n".join(
        path.stem for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".py", ".ipynb")
    )
    intro = "Short scripts and notebooks. They are in the folder `examples/` and run in the tests."
    toctree = f"```{{toctree}}\n:maxdepth: 1\n{contents}\n```\n"
    (folder / "index.md").write_text(f"# Examples\n\n{intro}\n\n{toctree}", "utf-8")


def keep_intervals_together(app, docname, source):
    """In tables, a value and its interval stay on one line."""
    interval = re.compile(r"(?<=\d) (\[-?[\d.]+,) (?=-?[\d.]+\])")
    lines = source[0].split("\n")
    source[0] = "\n".join(interval.sub("\xa0\\1\xa0", line) if line.startswith("|") else line for line in lines)


def link_project_pages(app, docname, source):
    """Links that lead out of docs/ lead to the site's pages of these files."""
    for path, page in PROJECT_PAGES.items():
        source[0] = source[0].replace(f"](../../{path}", f"](../{page}")


def escape_docstring(app, what, name, obj, options, lines):
    """Docstrings are plain text with `code`: characters that mean something in reStructuredText only are escaped.

    Lists of a package's modules have two columns, which become "module: what it has".
    """
    for index, line in enumerate(lines):
        if what == "module":
            line = re.sub(r"^(\* .*?\S) {2,}(?=\S)", r"\1: ", re.sub(r"^ {5,}", "  ", line))
            lines[index] = line
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [re.sub(r"([|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
            lines[index] = "`".join(parts)


def setup(app):
    app.add_lexer("csv", TextLexer)
    app.connect("config-inited", write_pages)
    app.connect("source-read", keep_intervals_together)
    app.connect("source-read", link_project_pages)
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)
