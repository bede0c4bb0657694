"""Draws what compare.py found: how many times as good as TensorFlow's server each figure is.

    python e2e/comparison/plot.py docs/comparison.json docs/images/comparison
"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "troupe", "font.family": "sans-serif", "font.size": 10})
from matplotlib import pyplot  # noqa: E402

BETTER, WORSE, INK = "#2b6cb0", "#c05621", "#4a5568"


def draw(result, path):
    """Writes path.svg: a bar for each figure, on a logarithmic scale around 1."""
    rows = sorted(result["rows"], key=lambda r: r["ratio"])
    fig, ax = pyplot.subplots(figsize=(9, 0.36 * len(rows) + 1.2))
    ratios = [r["ratio"] for r in rows]
    ax.barh(range(len(rows)), [r - 1 for r in ratios], left=1, height=0.62, color=[BETTER if r >= 1 else WORSE for r in ratios])
    ax.set_xscale("log")
    ax.set_xlim(min(0.5, min(ratios) / 1.2), max(ratios) * 2)
    ax.axvline(1, color=INK, linewidth=1)
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100) if ax.get_xlim()[0] <= t <= ax.get_xlim()[1]]
    ax.set_xticks(ticks, ["%g×" % t for t in ticks])
    ax.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    ax.set_yticks(range(len(rows)), [r["name"] for r in rows])
    for i, r in enumerate(rows):
        ax.text(max(r["ratio"], 1) * 1.04, i, "%.2g×" % r["ratio"] if r["ratio"] < 10 else "%.0f×" % r["ratio"], va="center", color=INK)
    ax.set_title("Troupe beside TensorFlow %s's own server (right: Troupe is better)" % result["tensorflow"], loc="left", fontsize=11)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0, colors=INK)
    fig.savefig(path + ".svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    pyplot.close(fig)


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        draw(json.load(f), sys.argv[2])
