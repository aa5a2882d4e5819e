# SPDX-License-Identifier: Apache-2.0
"""Learning curves as SVG."""

import numpy as np

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 60, 40, 40, 300
COLOURS = ("#0b6bcb", "#c4501b", "#2e8540", "#8250c8")
RANDOM = "#8a8f98"
LEGEND = 110


def draw(path, title, curves, steps):
    """Writes a picture of mean returns over steps.

    Args:
        path: Path of the file to write.
        title: Title above the picture.
        curves: Curves by name, each a list of pairs (steps so far, mean return).
        steps: Number of steps at the end of the axis.
    """
    returns = [value for points in curves.values() for _, value in points]
    low, high = min(0.0, *returns), max(returns) * 1.05

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / steps

    def y(value):
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="10" y="24" font-size="16" font-weight="600">{title}</text>',
    ]
    for value in np.linspace(low, high / 1.05, 5):
        lines.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#e4e7eb"/>')
        lines.append(
            f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    for step in np.linspace(0, steps, 5):
        lines.append(
            f'<text x="{x(step):.1f}" y="{BOTTOM + 20}" text-anchor="middle">{step:,.0f}</text>'
        )
    for index, (name, points) in enumerate(curves.items()):
        colour = RANDOM if name == "random" else COLOURS[index]
        path_data = " ".join(f"{x(step):.1f} {y(value):.1f}" for step, value in points)
        lines.append(f'<path d="M{path_data}" fill="none" stroke="{colour}" stroke-width="2"/>')
        left, top = LEFT + LEGEND * index, BOTTOM + 44
        lines.append(f'<rect x="{left}" y="{top - 9}" width="12" height="4" fill="{colour}"/>')
        lines.append(f'<text x="{left + 18}" y="{top}">{name}</text>')
    path.write_text("\n".join([*lines, "</svg>", ""]))


def smoothed(ends, steps, points=60):
    """Returns the mean return of the sequences that ended in each part of the steps."""
    bins = [[] for _ in range(points)]
    for step, value in ends:
        bins[min(points - 1, step * points // steps)].append(value)
    return [
        ((index + 0.5) * steps / points, float(np.mean(part)))
        for index, part in enumerate(bins)
        if part
    ]
