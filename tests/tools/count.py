#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count.py [--add PASSED,FAILED,SKIPPED] TESTLOG.JSON...: adds up meson's logs and prints one line
"N passed, N failed, N skipped". Exit 1 when something failed, a log is missing, or nothing ran.

It reads testlog.json and not testlog.junit.xml: in the latter a test that was killed by its time limit, and a
TAP program that died half way, look like passes (meson 1.0)."""

import json
import re
import sys

CASE = re.compile(r"^(not )?ok\b([^#]*)(?:#\s*(skip|todo)\b)?", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)")


def count_tap(text):
    """[passed, failed, skipped], or None when the text is no TAP. Announced cases that never came failed."""
    planned, n = None, [0, 0, 0]
    for line in text.splitlines():
        plan, case = PLAN.match(line), CASE.match(line)
        if plan and planned is None:
            planned = int(plan.group(1))
        elif case and (case.group(3) or "").lower() == "skip":
            n[2] += 1
        elif case:
            n[1 if case.group(1) else 0] += 1
    if planned is None:
        return None
    n[1] += max(0, planned - sum(n))
    return n


def count_test(entry):
    result = entry.get("result")
    good = result in ("OK", "EXPECTEDFAIL")
    cases = count_tap(entry.get("stdout") or "") if result != "SKIP" else None
    if cases is None:
        return [int(good), int(not good and result != "SKIP"), int(result == "SKIP")]
    if not good and not cases[1]:
        cases[1] = 1
    return cases


def count_log(path):
    total = [0, 0, 0]
    with open(path, encoding="utf-8") as f:
        for line in f:
            total = [a + b for a, b in zip(total, count_test(json.loads(line)))]
    return total


def main(argv):
    total = [0, 0, 0]
    if argv[:1] == ["--add"]:
        total = [int(n) for n in argv[1].split(",")]
        argv = argv[2:]
    for path in argv:
        try:
            total = [a + b for a, b in zip(total, count_log(path))]
        except (OSError, ValueError) as e:
            print("count: %s: %s" % (path, e), file=sys.stderr)
            total[1] += 1
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
