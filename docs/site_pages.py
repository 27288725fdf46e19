"""Hooks of the site for pages outside of docs/ and for links to files.

A link in a page is relative to the file in a clone. On the site it leads to the page generated from
its target. A target without a page becomes a link into the repository if `repo_url` is set, and
plain text otherwise. A missing target is a warning, which fails the build."""

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
# Names on the site, and paths in the repository.
PAGES = {
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "benchmarks.md": "benchmarks/README.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```|^~~~.*?^~~~|`[^`\n]+`(?!\]))", re.DOTALL | re.MULTILINE)

log = getLogger("mkdocs.hooks.site_pages")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from other folders."""
    for name, path in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the site."""
    source = PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def write(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if (name := _find_page(path, files)) is not None:
            relative = posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or ".")
            return f"[{text}]({relative}{anchor})"
        if not (ROOT / path).exists():
            log.warning("%s links to %s, which does not exist", source, path)
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})"
        return text if path in text else f"{text} (`{path}`)"

    # The odd segments are code, in which links stay as they are.
    segments = CODE.split(markdown)
    segments[::2] = [LINK.sub(write, text) for text in segments[::2]]
    return "".join(segments)


def _find_page(path: str, files: Files) -> str | None:
    """Return the page generated from a file, or from the README of a folder."""
    for name, source in PAGES.items():
        if path in (source, posixpath.dirname(source)):
            return name
    if path == "docs":
        return "index.md"
    name = path.removeprefix("docs/")
    return name if path != name and files.get_file_from_path(name) is not None else None
