# SPDX-License-Identifier: MIT
"""A strict reader of the text format of Prometheus, version 0.0.4, as far as counters need it."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Wrong(Exception):
    """A text that does not conform."""


def labels_of(text):
    """Returns the pairs of a list of labels."""
    found, at = [], 0
    while True:
        label = LABEL.match(text, at)
        if label is None:
            raise Wrong(f"labels: {text}")
        found.append((label[1], re.sub(r"\\.", lambda each: ESCAPES[each[0]], label[2])))
        at = label.end()
        if at == len(text):
            break
        if text[at] != ",":
            raise Wrong(f"labels: {text}")
        at += 1
    if len(dict(found)) != len(found):
        raise Wrong(f"a label twice: {text}")
    return tuple(found)


def parse(text):
    """Returns the value of each name and tuple of labels. Each metric must be one group: HELP, TYPE, its samples."""
    if text and not text.endswith("\n"):
        raise Wrong("no line feed at the end")
    samples, begun, state, current = {}, set(), "sample", None
    for line in text.splitlines():
        if match := re.fullmatch(rf"# HELP ({NAME}) (\S[^\\\n]*)", line):
            if state == "help" or state == "type" or match[1] in begun:
                raise Wrong(line)
            current, state = match[1], "help"
            begun.add(current)
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|untyped)", line):
            if state != "help" or match[1] != current or current.endswith("_total") != (match[2] == "counter"):
                raise Wrong(line)
            state = "type"
        elif match := re.fullmatch(rf"({NAME})\{{(.*)\}} (\d+)", line):
            key = match[1], labels_of(match[2])
            if state not in ("type", "sample") or match[1] != current or key in samples:
                raise Wrong(line)
            samples[key] = int(match[3])
            state = "sample"
        else:
            raise Wrong(line)
    if state in ("help", "type"):
        raise Wrong("a metric without samples")
    return samples
