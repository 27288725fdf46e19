"""What the site is made of besides the files of docs/: pages from other folders, and links that
lead out of it.

A link in a page is written as it holds in a clone, relative to the file. On the site it leads to
the page made of the file that it names; a file that is no page is looked up in the repository where
`repo_url` says one, and is named otherwise. A file that is not there is a warning, which ends the
build."""

from __future__ import annotations

import posixpath
import re
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
# What the site calls them, and where they are.
PAGES = {
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "benchmarks.md": "benchmarks/README.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```|^~~~.*?^~~~|`[^`\n]+`(?!\]))", re.DOTALL | re.MULTILINE)

log = getLogger("mkdocs.hooks.site_pages")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere."""
    for name, path in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write links as they hold on the site."""
    source = PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def write(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (name := _find_page(path, files)) is not None:
            relative = posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or ".")
            return f"[{text}]({relative}{anchor})"
        if not (ROOT / path).exists():
            log.warning("%s links to %s, which is not there", source, path)
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})"
        return text if path in text else f"{text} (`{path}`)"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(write, part) for part in parts[::2]]
    return "".join(parts)


def _find_page(path: str, files: Files) -> str | None:
    """The page that is made of a file, or of the README in a folder."""
    for name, source in PAGES.items():
        if path in (source, posixpath.dirname(source)):
            return name
    if path == "docs":
        return "index.md"
    name = path.removeprefix("docs/")
    return name if path != name and files.get_file_from_path(name) is not None else None
