# SPDX-License-Identifier: MIT
"""Draws stored benchmark results: one SVG per file of bench/results, with goals and limits.

`./dev bench --plot` and the build of the site run this script with the system Python, which has Debian's matplotlib.
The output is reproducible: equal results produce equal bytes.
"""
import argparse
import json
import pathlib
import re
import sys
import textwrap

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "verbena"
matplotlib.rcParams["svg.fonttype"] = "path"
matplotlib.rcParams["font.family"] = "DejaVu Sans"
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
# The colours of Okabe and Ito are distinguishable with any colour vision. The marks also differ in shape.
OURS, OTHER, GOAL, LIMIT, BEYOND, INK, GRID = "#0072B2", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#222222", "#dddddd"
COMPILER_MARKS = {"gcc": ("o", OURS), "clang": ("^", "#E69F00")}
WIDTH = 8.6
ROW = 0.27
CAPTION_COLUMNS = 132
MOST_ROWS_OF_BARS = 30
TITLES = {
    "overhead": "Posting and polling, compared with the same calls in C",
    "local": "soft0 between two processes, compared with its peers",
    "scale": "soft0 with many queue pairs, threads and processes, compared with one",
    "channel": "Operations of a channel, compared with raw post and poll",
    "connect": "Connecting by librdmacm on soft0, compared with TCP",
    "compile": "Compile time of the public headers",
    "loss": "Goodput of soft0 over UDP if packets are lost",
}


def bound(text):
    """Returns the number of a bound such as `<=1.6x` or `>=0.9x`; None if there is no bound."""
    if not text:
        return None
    return float(re.search(r"[-\d.]+", text.replace("<=", "").replace(">=", "")).group(0))


class Row:
    """One figure: its label, its number, its goal and its limit."""

    def __init__(self, figure):
        self.figure = figure
        bounded = figure.get("limit") or figure.get("goal")
        self.what = "ratio" if not bounded or bounded.endswith("x") else next(
            (name for name in figure["numbers"] if name in ("extra", "count", "allocations")), "ratio")
        self.number = figure["numbers"].get(self.what)
        self.goal, self.limit = bound(figure.get("goal")), bound(figure.get("limit"))
        self.compiler = figure.get("compiler")
        self.beyond = figure["verdict"] == "beyond limit"
        more = bounded.startswith(">=") if bounded else figure.get("unit", "ns") not in ("ns", "lines", "s")
        self.better = "more" if more else "less"

    @property
    def label(self):
        # The label omits the value of the peer: "UCX tag" for "UCX tag 177 ns" and "UCX tag 14.60 M/s".
        peer = re.sub(r"\s+[\d.]+ ?(ns|us|M/s|GB/s|s|lines|ms|M)?$", "", self.figure["peer"]).strip(" -")
        named = peer and not re.fullmatch(r"[\d./]+( [\d.]+ns)?", peer)
        return self.figure["figure"] + (f"  ÷ {peer}" if named else "")


def rows_of(document):
    rows = [Row(one) for one in document["figures"]]
    return [one for one in rows if one.number is not None], [one for one in rows if one.number is None]


def wrapped_caption(document):
    machine = document["machine"]
    text = (f"{document['date'][:10]}. {machine['processor']}, {machine['processors']} processors, {machine['architecture']}, "
            f"{machine['system']}, Linux {machine['kernel']}, load {machine['load']}. "
            + ", ".join(f"{key}: {value}" for key, value in document["versions"].items()) + f". {document['command']}")
    return "\n".join(textwrap.wrap(text, CAPTION_COLUMNS))


def panels_of(rows):
    """Returns the rows of each axis: ratios (less is better), ratios (more is better), extra instructions."""
    titles = {
        ("ratio", "less"): "ratio to the peer (1 = equal): less is better",
        ("ratio", "more"): "ratio to the peer (1 = equal): more is better",
        ("extra", "less"): "extra instructions per request: less is better",
    }
    return [(title, [row for row in rows if (row.what, row.better) == key]) for key, title in titles.items()
            if any((row.what, row.better) == key for row in rows)]


def marks(axis, row, y, height):
    """Draws goal and limit of a row as short lines across the row."""
    for value, colour, style in ((row.goal, GOAL, "-"), (row.limit, LIMIT, "-")):
        if value is not None:
            axis.plot([value, value], [y - height, y + height], color=colour, linestyle=style, linewidth=2.4,
                      solid_capstyle="butt", zorder=4)


def plain(value, _):
    return f"{value:g}"


def number_text(number, what):
    if what == "extra":
        return f"{number:+g}"
    return f"{number:.3g}×"


def bars(axis, rows):
    """Draws one bar per row, with its number. On a logarithmic axis, bars start at 1, the value of the peer."""
    numbers = [row.number for row in rows]
    wide = max(numbers) / max(min(numbers), 1e-9) > 12
    if wide:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(plain))
        axis.xaxis.set_minor_formatter(NullFormatter())
    base = 1.0 if wide else 0.0
    ends = numbers + [value for row in rows for value in (row.goal, row.limit) if value is not None]
    for y, row in enumerate(rows):
        colour = BEYOND if row.beyond else OURS if row.limit is not None else OTHER
        axis.barh(y, row.number - base, left=base, height=0.62, color=colour, hatch="///" if row.beyond else None,
                  edgecolor="white" if row.beyond else colour, linewidth=0.4, zorder=2)
        marks(axis, row, y, 0.42)
        axis.annotate(number_text(row.number, row.what), (1.0, y), xycoords=("axes fraction", "data"), xytext=(6, 0),
                      textcoords="offset points", va="center", ha="left", color=INK, fontsize=8.5)
    axis.set_yticks(range(len(rows)), [row.label + (f" ({row.compiler})" if row.compiler else "") for row in rows])
    axis.axvline(1.0, color=INK, linewidth=1, zorder=3)
    if wide:
        axis.set_xlim(min(ends + [0.5]) * 0.8, max(ends) * 1.3)
    else:
        axis.set_xlim(0, max(ends) * 1.08)


def dots(axis, rows):
    """Draws one line per case with one mark per compiler; used if there are many rows."""
    names = list(dict.fromkeys(row.figure["figure"] for row in rows))
    for y, name in enumerate(names):
        same = [row for row in rows if row.figure["figure"] == name]
        axis.axhline(y, color=GRID, linewidth=0.6, zorder=0)
        marks(axis, same[0], y, 0.36)
        for row in same:
            mark, colour = COMPILER_MARKS.get(row.compiler, ("o", OURS))
            axis.plot(row.number, y, mark, color=colour, markersize=5.5, zorder=5, markeredgecolor="white", markeredgewidth=0.5)
    axis.set_yticks(range(len(names)), names)
    if rows[0].what == "extra":
        axis.set_xlim(min(row.number for row in rows) - 1, max([row.limit or 0 for row in rows] + [row.number for row in rows]) + 1)
    else:
        axis.set_xlim(min([row.number for row in rows] + [0.95]) - 0.03,
                      max([row.number for row in rows] + [row.limit or 1 for row in rows]) + 0.03)
        axis.axvline(1.0, color=INK, linewidth=0.8, zorder=1)


def legend_items(rows, dotted):
    items = []
    if dotted:
        items += [Line2D([], [], marker=mark, color=colour, linestyle="", label=name) for name, (mark, colour) in COMPILER_MARKS.items()
                  if any(row.compiler == name for row in rows)]
    else:
        if any(row.limit is not None and not row.beyond for row in rows):
            items.append(Patch(color=OURS, label="within its limit"))
        if any(row.beyond for row in rows):
            items.append(Patch(facecolor=BEYOND, hatch="///", edgecolor="white", label="beyond its limit"))
        if any(row.limit is None for row in rows):
            items.append(Patch(color=OTHER, label="no limit stated"))
    if any(row.goal is not None for row in rows):
        items.append(Line2D([], [], color=GOAL, linewidth=2.4, label="goal"))
    if any(row.limit is not None for row in rows):
        items.append(Line2D([], [], color=LIMIT, linewidth=2.4, label="limit"))
    return items


def counted_text(rows, missing):
    """Returns the text about counts, which have no axis, and about figures without a result."""
    counts = [row for row in rows if row.what in ("count", "allocations")]
    parts = []
    if counts:
        bad = [row for row in counts if row.beyond]
        names = list(dict.fromkeys(row.figure["figure"] for row in counts))
        parts.append("; ".join(f"{row.figure['figure']}: {row.number:g}" for row in bad) if bad
                     else f"Counted, and all 0: {', '.join(names)}." if all(row.number == 0 for row in counts)
                     else "; ".join(f"{row.figure['figure']}: {row.number:g}" for row in counts))
    if missing:
        parts.append("Without a result: " + ", ".join(row.figure["figure"] for row in missing) + ".")
    return "\n".join(textwrap.wrap(" ".join(parts), CAPTION_COLUMNS))


def save(figure, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    pyplot.close(figure)


def draw_loss(document, target):
    """Draws the goodput over the loss rate, with the rates at equal distances: a line for each network, whose points have numbers."""
    figure, axis = pyplot.subplots(figsize=(WIDTH, 4.4))
    figure.subplots_adjust(left=0.09, right=0.97, top=0.85, bottom=0.24)
    measured = [one for one in document["figures"] if one["numbers"]]
    labels = list(dict.fromkeys(one["figure"].rpartition(" lost, ")[0] for one in measured))
    networks = list(dict.fromkeys(one["network"] for one in measured))
    for network, (mark, colour), above in zip(networks, COMPILER_MARKS.values(), (1, -1)):
        line = [one for one in measured if one["network"] == network]
        places = [labels.index(one["figure"].rpartition(" lost, ")[0]) for one in line]
        ratios = [100 * one["numbers"]["ratio"] for one in line]
        axis.plot(places, ratios, marker=mark, color=colour, linewidth=2, markersize=6, zorder=3,
                  label=f"{network}, {line[0]['numbers']['ours'] / 1e9:.2f} GB/s without loss")
        for place, ratio in zip(places[1:], ratios[1:]):
            axis.annotate(f"{ratio:.0f} %", (place, ratio), xytext=(0, 10 * above), textcoords="offset points", ha="center", va="center",
                          color=colour, fontsize=8.5)
    axis.set_xticks(range(len(labels)), labels)
    axis.set_xlabel("packets that are lost")
    axis.set_ylabel("goodput, % of that without loss")
    axis.set_ylim(0, max([100] + [100 * one["numbers"]["ratio"] for one in measured]) * 1.12)
    axis.grid(axis="y", color=GRID, linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(loc="lower left", frameon=False, fontsize=8.5)
    figure.text(0.012, 0.965, TITLES["loss"], fontsize=12, fontweight="bold", color=INK, va="top")
    figure.text(0.012, 0.02, wrapped_caption(document), fontsize=7.8, color="#444444", va="bottom", linespacing=1.35)
    save(figure, target)


def draw(path, target):
    document = json.loads(path.read_text())
    if document["bench"] == "loss":
        draw_loss(document, target)
        return
    rows, missing = rows_of(document)
    if any(row.compiler for row in rows):  # place the results of all compilers for a case next to each other
        names = list(dict.fromkeys(row.label for row in rows))
        rows.sort(key=lambda row: names.index(row.label))
    panels = panels_of(rows)
    dotted = len(rows) > MOST_ROWS_OF_BARS
    heights = [max(2, len({row.figure["figure"] for row in some} if dotted else some)) for _, some in panels]
    notes = counted_text(rows, missing)
    caption = wrapped_caption(document)
    below = 0.17 * (caption.count("\n") + 1 + (notes.count("\n") + 2 if notes else 0)) + 0.15
    total = sum(heights) * (0.2 if dotted else ROW) + 0.75 * len(panels) + 0.75 + below
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(WIDTH, total), squeeze=False,
                                   gridspec_kw={"height_ratios": heights, "hspace": 0.75 / (total / len(panels)) * 1.6})
    figure.subplots_adjust(left=0.31, right=0.91, top=1 - 0.95 / total, bottom=(below + 0.35) / total)
    for axis, (title, some) in zip(axes[:, 0], panels):
        (dots if dotted else bars)(axis, some)
        axis.set_title(title, loc="left", fontsize=9.5, color=INK)
        axis.invert_yaxis()
        axis.set_ylim(heights[[t for t, _ in panels].index(title)] - 0.4, -0.6)
        axis.grid(axis="x", color=GRID, linewidth=0.6, zorder=0)
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
    shown = [row for _, some in panels for row in some]
    figure.legend(handles=legend_items(shown, dotted), loc="upper left", bbox_to_anchor=(0.012, 1 - 0.36 / total), ncol=6,
                  frameon=False, fontsize=8.5, handlelength=1.6, columnspacing=1.4, borderaxespad=0)
    figure.text(0.012, 1 - 0.12 / total, TITLES.get(document["bench"], document["bench"]), fontsize=12, fontweight="bold",
                color=INK, va="top")
    text = (notes + "\n\n" if notes else "") + caption
    figure.text(0.012, 0.1 / total, text, fontsize=7.8, color="#444444", va="bottom", linespacing=1.35)
    save(figure, target)


def draw_all(results, folder):
    """Draws every result and returns the SVG paths by the name of the result file without suffix."""
    made = {}
    for path in sorted(results.glob("*.json")):
        made[path.stem] = folder / f"{path.stem}.svg"
        draw(path, made[path.stem])
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    made = draw_all(options.results, options.folder)
    print("\n".join(str(path) for path in made.values()))
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
