"""Boxes, bands, arrows and words of a drawing, written as SVG."""

from pathlib import Path

INK, GREY, BLUE, GREEN, ORANGE = "#222222", "#888888", "#2563a8", "#2e7d4f", "#c2571a"
FILLS = {BLUE: "#e3edf8", GREEN: "#e2f1e7", ORANGE: "#f9e9df", GREY: "#f0f0f0"}


class Drawing:
    def __init__(self, width, height):
        self.width, self.height, self.shapes = width, height, []

    def text(self, x, y, words, size=13, color=INK, anchor="middle", weight="normal"):
        self.shapes.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
                           f'font-weight="{weight}">{words}</text>')

    def rectangle(self, x, y, width, height, fill, stroke):
        self.shapes.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{stroke}"/>')

    def box(self, x, y, width, height, title, lines, color):
        self.shapes.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{FILLS[color]}" '
                           f'stroke="{color}" stroke-width="1.5"/>')
        self.text(x + width / 2, y + 21, title, 14, color, weight="bold")
        for i, line in enumerate(lines):
            self.text(x + width / 2, y + 41 + 17 * i, line, 12)

    def band(self, y, height, lines, color):
        """A dashed frame over the whole width; the first line is its title."""
        self.shapes.append(f'<rect x="10" y="{y}" width="{self.width - 20}" height="{height}" rx="8" fill="none" '
                           f'stroke="{color}" stroke-dasharray="5 4"/>')
        for i, line in enumerate(lines):
            self.text(22, y + 26 + 17 * i, line, 12, color, anchor="start", weight="normal" if i else "bold")

    def arrow(self, points, color=INK, dashed=False):
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"{dash} '
                           f'marker-end="url(#head)"/>')

    def write(self, path):
        head = ('<defs><marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto">'
                f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>')
        Path(path).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'font-family="sans-serif">\n<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>\n{head}\n'
            + "\n".join(self.shapes) + "\n</svg>\n")
