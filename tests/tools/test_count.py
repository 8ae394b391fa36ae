#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The closing line must never count as passed what did not pass."""

import json
import os
import subprocess
import sys
import tempfile

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "count.py")

CASES = [
    ("counts_plain_tests", [("", "OK"), ("", "FAIL"), ("", "SKIP")], [], "1 passed, 1 failed, 1 skipped", 1),
    ("passes_when_all_passed", [("", "OK")], [], "1 passed, 0 failed, 0 skipped", 0),
    ("fails_when_nothing_ran", [("", "SKIP")], [], "0 passed, 0 failed, 1 skipped", 1),
    ("fails_without_a_test", [], [], "0 passed, 0 failed, 0 skipped", 1),
    ("counts_a_time_limit_as_failed", [("", "OK"), ("", "TIMEOUT")], [], "1 passed, 1 failed, 0 skipped", 1),
    ("counts_tap_cases", [("1..3\nok 1 - a\nok 2 - b # SKIP none\nnot ok 3 - c\n", "FAIL")], [],
     "1 passed, 1 failed, 1 skipped", 1),
    ("counts_announced_cases_that_never_came", [("1..3\nok 1 - a\n", "ERROR")], [], "1 passed, 2 failed, 0 skipped", 1),
    ("counts_an_error_behind_good_cases", [("1..1\nok 1 - a\n", "ERROR")], [], "1 passed, 1 failed, 0 skipped", 1),
    ("adds_what_ran_elsewhere", [("", "OK")], ["--add", "1,0,2"], "2 passed, 0 failed, 2 skipped", 0),
    ("adds_a_failure_elsewhere", [("", "OK")], ["--add", "0,1,0"], "1 passed, 1 failed, 0 skipped", 1),
]


def try_case(folder, entries, args, line, code):
    path = os.path.join(folder, "testlog.json")
    with open(path, "w", encoding="utf-8") as f:
        for stdout, result in entries:
            f.write(json.dumps({"name": "x", "stdout": stdout, "result": result}) + "\n")
    p = subprocess.run([sys.executable, COUNT, *args, path], stdout=subprocess.PIPE, check=False)
    return p.returncode == code and p.stdout.decode() == line + "\n"


def missing_log_fails():
    p = subprocess.run([sys.executable, COUNT, "--add", "5,0,0", "/nonexistent"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, check=False)
    return p.returncode == 1 and p.stdout == b"5 passed, 1 failed, 0 skipped\n"


def main():
    failed = 0
    print("1..%d" % (len(CASES) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, *rest) in enumerate(CASES, 1):
            good = try_case(folder, *rest)
            failed += not good
            print("%s %d - %s" % ("ok" if good else "not ok", i, name))
    good = missing_log_fails()
    print("%s %d - %s" % ("ok" if good else "not ok", len(CASES) + 1, "counts_a_missing_log_as_failed"))
    sys.exit(1 if failed or not good else 0)


main()
