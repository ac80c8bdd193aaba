"""Documentation site in build/site: docs/, the examples, a reference generated from docstrings, and llms.txt.

The pages are gathered in build/docs for Zensical; nothing on the site is loaded from another host.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gallery

import flowdebate

__all__ = ("gather", "public_modules", "reference")

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
EXAMPLES = Path(__file__).with_name("docstring_examples.py")
PROGRAMS = {"flowdebate.__main__", "flowdebate.cli"}

CONFIG = """
[project]
site_name = "flowdebate"
site_description = "Debates between language models"
docs_dir = "docs"
site_dir = "site"
use_directory_urls = false
copyright = "The flowdebate authors, MIT license"
extra_css = ["flowdebate.css"]
nav = [{nav}]

[project.theme]
font = false
features = [
  "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.top", "search.highlight",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{ icon = "lucide/sun", name = "Dark" }}

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{ icon = "lucide/moon", name = "Light" }}

[project.markdown_extensions]
tables = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {{}}
pymdownx.superfences = {{}}
pymdownx.tasklist = {{}}

[project.plugins.mkdocstrings.handlers.python]
paths = ["{sources}"]

[project.plugins.mkdocstrings.handlers.python.options]
docstring_style = "google"
extensions = ["{examples}"]
heading_level = 2
inherited_members = false
members_order = "source"
separate_signature = true
show_root_heading = true
show_root_full_path = false
show_signature_annotations = true
show_source = false
"""

STYLE = """\
/* What a program prints is read, not copied: its lines are broken. */
.language-text code { white-space: pre-wrap; overflow-wrap: break-word; }
/* Columns of figures are as narrow as they are. */
.md-typeset table:not([class]) th { min-width: 0; }
/* A picture of a page, in the colors of the reader. */
[data-md-color-scheme="slate"] img[src$="#light"], [data-md-color-scheme="default"] img[src$="#dark"] { display: none; }
"""

_LINK = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)(?:#[^)\s]*)?\)")
_PICTURE = re.compile(r"!\[([^\]]+)\]\((images/[\w-]+)-light\.png\)")
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([\w-]+\.md)\) \| (.+) \|$", re.MULTILINE)
_GROUP = re.compile(r"^## (.+)$", re.MULTILINE)
_IMPORT = re.compile(r"^(?:from|import) (flowdebate(?:\.\w+)*)", re.MULTILINE)


def public_modules() -> list[str]:
    """Return the modules that users import from: top-level modules with exports, and imports on the pages."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    modules = {name for page in pages for name in _IMPORT.findall(page.read_text("utf-8"))}
    top = {info.name for info in pkgutil.iter_modules(flowdebate.__path__, "flowdebate.")} - PROGRAMS
    return sorted(name for name in modules | top if exported(name))


def exported(module: str) -> list[str]:
    """Return the public names of a module: its exports or, if it has none, its definitions and re-exports.

    A re-export is written as `from x import A as A`.
    """
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    names: list[str] = []
    body = ast.parse(inspect.getsource(loaded)).body
    # imports only for type checkers
    lazy = [node for block in body if isinstance(block, ast.If) for node in block.body]
    for node in (*body, *lazy):
        match node:
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                names.append(name)
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=ast.Name("TypeVar"))):
                pass
            case ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]):
                names.append(name)
            case ast.ImportFrom(names=aliases):
                names += [alias.name for alias in aliases if alias.asname == alias.name]
    return [name for name in names if not name.startswith("_")]


def reference(module: str) -> str:
    """Render the reference page of a module, with its headline and each of its public names."""
    names = "\n\n".join(f"::: {module}.{name}" for name in exported(module))
    return f"# {module}\n\n{promise_of(module)}\n\n{names}\n"


def promise_of(module: str) -> str:
    """Return the first line of a module's docstring."""
    return (importlib.import_module(module).__doc__ or "").split("\n")[0]


def gather(target: Path) -> str:
    """Write all pages of the site into a new folder `target`; return the index as it is in docs/."""
    shutil.copytree(ROOT / "docs", target)
    index = (target / "index.md").read_text("utf-8")
    for example in (ROOT / "examples").rglob("*.py"):
        page = target / "examples" / f"{example.stem}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# {example.name}\n\n```python\n{example.read_text('utf-8')}```\n", "utf-8")
    modules = public_modules()
    for module in modules:
        page = target / "reference" / f"{module}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(reference(module), "utf-8")
    listed = "\n".join(f"- [{module}](reference/{module}.md): {promise_of(module)}" for module in modules)
    (target / "reference.md").write_text(f"# Reference\n\nWhat each module exports:\n\n{listed}\n", "utf-8")
    for page in target.glob("*.md"):
        text = _PICTURE.sub(_in_both_colors, page.read_text("utf-8"))
        page.write_text(_LINK.sub(_inside, text), "utf-8")
    (target / "llms.txt").write_text(llms_text(index), "utf-8")
    (target / "flowdebate.css").write_text(STYLE, "utf-8")
    return index


def add_reports(target: Path) -> None:
    """Add the HTML reports of some examples to the pages, and link each of them in the gallery."""
    page = target / "gallery.md"
    text = page.read_text("utf-8")
    gallery.reports(target / "reports")
    for name in gallery.REPORTS:
        program = f"[The program](examples/{name}.md)."
        text = text.replace(program, f"{program} [The report of such a run](reports/{name}.html).")
    page.write_text(text, "utf-8")


def groups(index: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the groups of the index: the heading of each, and the title, path and summary of its pages."""
    _, *parts = _GROUP.split(index)
    return [(title, _ROW.findall(text)) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def navigation(index: str) -> str:
    """Return the site's navigation as TOML: the groups of the index, then the reference."""
    nav: dict[str, list[str]] = {}
    for group, rows in groups(index):
        nav[group] = [f"{{ {json.dumps(title)} = {json.dumps(path)} }}" for title, path, _ in rows]
    modules = [f'{{ "{name.removeprefix("flowdebate.")}" = "reference/{name}.md" }}' for name in public_modules()]
    nav["Reference"] = ['{ "All modules" = "reference.md" }', *modules]
    listed = [f"{{ {json.dumps(group)} = [{', '.join(pages)}] }}" for group, pages in nav.items()]
    return ", ".join(['{ "flowdebate" = "index.md" }', *listed])


def llms_text(index: str) -> str:
    """Return the groups of the index as llms.txt, with titles, Markdown addresses and summaries."""
    parts = [f"# flowdebate\n\n> {(flowdebate.__doc__ or '').splitlines()[0]}\n"]
    for group, rows in groups(index):
        parts.append(
            f"## {group}\n\n" + "".join(f"- [{title}]({path}): {description}\n" for title, path, description in rows)
        )
    return "\n".join([*parts, "## Reference\n\n- [Reference](reference.md): every public name\n"])


def _in_both_colors(picture: re.Match[str]) -> str:
    """Show a picture in light colors and, if it exists, its version in dark colors."""
    words, path = picture.groups()
    if not (ROOT / "docs" / f"{path}-dark.png").exists():
        return picture[0]
    return f"![{words}]({path}-light.png#light)![{words}]({path}-dark.png#dark)"


def _inside(link: re.Match[str]) -> str:
    """Convert a link out of docs/ to one within the site, or to a path if the site does not have the file."""
    words, path = link.groups()
    example = re.fullmatch(r"examples/(?:\w+/)?(\w+)\.py", path)
    return f"[{words}](examples/{example[1]}.md)" if example else f"{words} (`{path}`)"


def main() -> None:
    """Build the site, and check that it is complete and loads nothing from elsewhere."""
    for name in ("docs", "site"):
        shutil.rmtree(BUILD / name, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    index = gather(BUILD / "docs")
    add_reports(BUILD / "docs")
    config = BUILD / "zensical.toml"
    config.write_text(CONFIG.format(nav=navigation(index), sources=ROOT / "src", examples=EXAMPLES), "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    subprocess.run(command, check=True)  # noqa: S603
    for page in (BUILD / "docs").rglob("*.md"):  # llms.txt links to these files
        shutil.copy(page, BUILD / "site" / page.relative_to(BUILD / "docs"))
    prepare_search(BUILD / "site")
    if problems := [*missing(), *foreign()]:
        sys.exit("\n".join(problems))
    print(f"{BUILD / 'site' / 'index.html'}: {len(list((BUILD / 'site').rglob('*.html')))} pages")


def prepare_search(site: Path) -> None:
    """Make search rank pages first, and work from local files.

    Four fifths of all entries belong to the reference, and would be listed before the pages that explain them. From
    local files, the theme requests `search.js`, but browsers do not start workers, so the worker gets its program as
    text.
    """
    search_index = json.loads((site / "search.json").read_text("utf-8"))
    search_index["items"] = [item for item in search_index["items"] if not item["location"].startswith("reference/")]
    (site / "search.json").write_text(index := json.dumps(search_index), "utf-8")
    [worker] = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    program = json.dumps(worker.read_text("utf-8"))
    start = f"super(URL.createObjectURL(new Blob([{program}])))"
    script = f"var __index = {index};\nwindow.Worker = class extends Worker {{ constructor() {{ {start}; }} }};\n"
    (site / "search.js").write_text(script, "utf-8")


def missing() -> list[str]:
    """List public names that are missing from the built reference."""
    problems = []
    for module in public_modules():
        page = (BUILD / "site" / "reference" / f"{module}.html").read_text("utf-8")
        problems += [f"{module}.{name} is missing" for name in exported(module) if f'id="{module}.{name}"' not in page]
    return problems


def foreign() -> list[str]:
    """List everything that pages of the site would load from another host."""
    loaded = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\s(?:src|href)=["']?((?:https?:)?//[^\s"'>]+)""")
    pages = (BUILD / "site").rglob("*.html")
    return sorted({f"{page.name} loads {host}" for page in pages for host in loaded.findall(page.read_text("utf-8"))})


if __name__ == "__main__":
    main()
