# SPDX-License-Identifier: MIT
"""Parses the rows of numbers that perftest's programs print, and checks that they are plausible."""
import re

MEBI = 1 << 20
COMPLAINTS = re.compile(r"couldn't|can't|failed|failure|error|invalid|unable|not supported|warning", re.IGNORECASE)
# perftest prints this for every device that it does not know, and then uses no inline data by default.
HARMLESS = re.compile(r"Device not recognized to implement inline feature")


def complaints(text):
    return [line for line in text.splitlines() if COMPLAINTS.search(line) and not HARMLESS.search(line)]


def rows(text):
    """Returns the numbers of each line between the column headings and the final rule."""
    found = []
    within = False
    for line in text.splitlines():
        if line.strip().startswith("#bytes"):
            within = True
        elif within and line.startswith("---"):
            break
        elif within and line.strip():
            found.append([float(word) for word in line.split()])
    return found


def doubt_latency(row):
    """Returns the reason why a row of latencies is not plausible, or None."""
    if len(row) != 9:
        return "it has not nine columns"
    _, _, lowest, highest, typical, average, deviation, most, nearly_all = row
    if not 0 < lowest <= typical <= highest:
        return "minimum, typical and maximum are not in order"
    if not lowest <= average <= highest:
        return "the average is outside"
    if not typical <= most <= nearly_all <= highest:
        return "the percentiles are not in order"
    return "the deviation is negative" if deviation < 0 else None


def doubt_bandwidth(row):
    """Returns the reason why a row of bandwidths is not plausible, or None."""
    if len(row) != 5:
        return "it has not five columns"
    size, _, peak, average, million_per_second = row
    if not million_per_second > 0:
        return "there is no message rate"
    # The printed numbers are rounded to 0.01 MiB/s and one message a second.
    if abs(average - million_per_second * 1e6 * size / MEBI) > 0.01 + size / MEBI:
        return "bandwidth and message rate do not fit"
    return "the peak is below the average" if peak < average - 0.01 else None
