#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws overview.svg beside this file: programs, the library, the forwarders, and the two kinds of device.

--check only compares: it fails if overview.svg is not what this script draws. Boxes and arrows are data below; the
colours follow the reader's light or dark mode.
"""
import pathlib
import sys

TARGET = pathlib.Path(__file__).resolve().with_suffix(".svg")
WIDTH, HEIGHT = 880, 430
PIXELS_PER_LETTER = 7  # of the widest font in STYLE
TITLE = "How programs reach RDMA hardware and soft0 with Verbena"
DESCRIPTION = ("A C++ program uses the Verbena library, which reaches adapters through libibverbs or the software device "
               "soft0. Any other verbs program reaches soft0 through Verbena's forwarders.")

# name: (x, y, width, height, style, lines); the first line is bold.
BOXES = {
    "user": (70, 36, 300, 62, "program", ["Your program", "C++20"]),
    "any": (510, 36, 300, 62, "program", ["Any verbs program", "unchanged: perftest, rping, pyverbs"]),
    "library": (70, 150, 300, 86, "ours", ["Verbena library", "typed queue pairs, channels, errors", "no allocation, no lock on the data path"]),
    "forwarders": (510, 150, 300, 86, "ours", ["Verbena forwarders", "verbena run: preload, drop-in", "libibverbs, librdmacm and libefa symbols"]),
    "verbs": (70, 300, 300, 86, "system", ["libibverbs + NIC", "InfiniBand, RoCE, iWARP, EFA,", "and the kernel's rxe and siw"]),
    "soft": (510, 300, 300, 86, "ours", ["soft0, the software device", "shared memory between processes", "no NIC, no kernel module, no root"]),
}
# (from, to, where the arrow begins and ends on the horizontal, label, its place)
ARROWS = [
    ("user", "library", 220, 220, "", None),
    ("library", "verbs", 160, 160, "hardware", (172, 273)),
    ("library", "soft", 320, 560, "no hardware", (400, 288)),
    ("any", "forwarders", 660, 660, "", None),
    ("forwarders", "soft", 660, 660, "", None),
]
STYLE = """
    .panel { fill: #fbfaf8; stroke: #ded9d2; }
    .program { fill: #ffffff; stroke: #6b7280; }
    .ours { fill: #fdeee4; stroke: #b4521b; }
    .system { fill: #e8f0f8; stroke: #2f6ea5; }
    .box { stroke-width: 1.6; }
    .name { fill: #1f2328; font-weight: 600; font-size: 17px; }
    .text { fill: #4b5563; font-size: 13px; }
    .label { fill: #4b5563; font-size: 13px; font-style: italic; }
    .arrow { stroke: #57606a; stroke-width: 1.8; fill: none; }
    .head { fill: #57606a; }
    text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif; }
    @media (prefers-color-scheme: dark) {
      .panel { fill: #16181c; stroke: #343941; }
      .program { fill: #20242a; stroke: #8b949e; }
      .ours { fill: #3a2216; stroke: #f0925c; }
      .system { fill: #16293b; stroke: #6cb0ea; }
      .name { fill: #f0f3f6; }
      .text, .label { fill: #c3c9d0; }
      .arrow { stroke: #aeb6bf; }
      .head { fill: #aeb6bf; }
    }
"""


def box(x, y, width, height, style, lines):
    step = 19
    first = y + height / 2 - step * (len(lines) - 1) / 2 + 5
    made = [f'  <rect class="box {style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>']
    for index, line in enumerate(lines):
        if len(line) * PIXELS_PER_LETTER > width - 20:
            raise ValueError(f"{line!r} is wider than its box of {width} pixels")
        made.append(f'  <text class="{"text" if index else "name"}" x="{x + width / 2:g}" y="{first + step * index:g}" '
                    f'text-anchor="middle">{line}</text>')
    return made


def arrow(start, end, x1, x2, label, place):
    y1, y2 = BOXES[start][1] + BOXES[start][3], BOXES[end][1] - 9
    middle = (y1 + y2) / 2
    path = f"M {x1} {y1} V {y2}" if x1 == x2 else f"M {x1} {y1} C {x1} {middle + 18:g} {x2} {middle - 18:g} {x2} {y2}"
    made = [f'  <path class="arrow" d="{path}"/>', f'  <path class="head" d="M {x2 - 6} {y2 - 2} h 12 l -6 11 z"/>']
    if label:
        made.append(f'  <text class="label" x="{place[0]}" y="{place[1]}">{label}</text>')
    return made


def picture():
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
             "  <!-- SPDX-License-Identifier: MIT. Drawn by overview.py; do not edit. -->", f"  <title>{TITLE}</title>",
             f"  <desc>{DESCRIPTION}</desc>", f"  <style>{STYLE}  </style>",
             f'  <rect class="panel" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="12"/>']
    for one in ARROWS:
        lines += arrow(*one)
    for one in BOXES.values():
        lines += box(*one)
    return "\n".join([*lines, "</svg>", ""])


def main(arguments):
    if arguments == ["--check"]:
        if TARGET.is_file() and TARGET.read_text() == picture():
            return 0
        print(f"{TARGET.name} is not what {pathlib.Path(__file__).name} draws: run it")
        return 1
    TARGET.write_text(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
