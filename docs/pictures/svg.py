"""Shapes and text as an SVG file that is legible on light and on dark pages: it has a ground of its
own, which goes with the text.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

__all__ = ["COLOURS", "Picture"]

COLOURS = ("#4c8dd6", "#e08a2e", "#3fa37a", "#c2568f", "#8a73d0", "#b39a2b")
"""Of areas: each stands out from both grounds."""

_STYLE = """
svg { --ground: #ffffff; --ink: #24292f; --faint: #6e7781; --line: #d0d7de }
@media (prefers-color-scheme: dark) { svg { --ground: #161b22; --ink: #e6edf3; --faint: #9198a1; --line: #3d444d } }
.ground { fill: var(--ground); stroke: var(--line) }
text { font-family: system-ui, sans-serif; fill: var(--ink) }
.faint { fill: var(--faint) }
.mono { font-family: ui-monospace, Menlo, Consolas, monospace }
.line { stroke: var(--line); fill: none }
.ink { stroke: var(--ink); fill: none }
.box { fill: var(--ground); stroke: var(--ink) }
"""


class Picture:
    """An SVG file that grows by shapes; places and sizes are in pixels from the upper left
    corner.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}"'
            f' role="img">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>'
        )
        self._shapes = [
            (
                f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}"'
                ' rx="8"/>'
            ),
            (
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
                ' markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:'
                ' var(--ink)"/></marker></defs>'
            ),
        ]

    def text(
        self, x: float, y: float, text: str, size: int = 13, anchor: str = "start", kind: str = ""
    ) -> None:
        """One line; `kind` is any of "faint", "mono" and "bold"."""
        weight = ' font-weight="600"' if "bold" in kind else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
            f' class="{kind}"{weight}>{escape(text)}</text>'
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = "",
        *,
        hint: str = "",
        opacity: float = 1,
    ) -> None:
        """A filled area, or without a colour a box with an outline; `hint` is shown under the
        pointer.
        """
        look = f'fill="{colour}" fill-opacity="{opacity}"' if colour else 'class="box"'
        inner = f"<title>{escape(hint)}</title>" if hint else ""
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"'
            f" {look}>{inner}</rect>"
        )

    def circle(self, x: float, y: float, radius: float, colour: str, *, hint: str = "") -> None:
        inner = f"<title>{escape(hint)}</title>" if hint else ""
        self._shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"'
            f' fill-opacity="0.75">{inner}</circle>'
        )

    def line(
        self,
        *points: tuple[float, float],
        kind: str = "line",
        width: float = 1,
        is_arrow: bool = False,
        colour: str = "",
    ) -> None:
        """A line through points: faint ("line"), in the colour of the text ("ink"), or in another
        colour.
        """
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        tip = ' marker-end="url(#tip)"' if is_arrow else ""
        look = f'fill="none" stroke="{colour}"' if colour else f'class="{kind}"'
        self._shapes.append(f'<polyline points="{places}" {look} stroke-width="{width}"{tip}/>')

    def save(self, path: Path) -> None:
        path.write_text("\n".join([self._head, *self._shapes, "</svg>\n"]))
        print(path)
