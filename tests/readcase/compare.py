#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py READCASE CASES_DIR [KIND…]: runs readcase on every case and compares it with `expect` (TAP)."""
import json
import pathlib
import subprocess
import sys

PROSE = {"rule", "rules", "must_not", "note", "notes", "scope", "error_says", "limits", "reason", "warning",
         "formula", "tolerance", "tensor_parallel", "check", "reference_library"}


def is_prose(key):
    return key in PROSE or key.endswith("_rule")


def differences(want, got, at, out):
    """Every fact of `want` that `got` does not hold, as lines in `out`."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            out.append(f"{at or '(top)'}: want an object, got {got!r}")
            return
        for key, value in want.items():
            if key.startswith("wrong_value_seen"):  # a misreading: no value beside it may be this
                out.extend(f"{at}.{k}: is the wrong value {value!r}" for k, v in got.items() if v == value)
            elif is_prose(key):
                if key in ("reason", "warning") and not got.get(key):
                    out.append(f"{at}.{key}: is missing")
            elif key not in got:
                out.append(f"{at}.{key}: is missing, want {value!r}")
            else:
                differences(value, got[key], f"{at}.{key}", out)
    elif isinstance(want, list):
        if not isinstance(got, list) or len(want) != len(got):
            out.append(f"{at}: want {want!r}, got {got!r}")
            return
        for i, (w, g) in enumerate(zip(want, got)):
            differences(w, g, f"{at}[{i}]", out)
    elif isinstance(want, str) and at.endswith(".status") and " if " in want and got != want:
        if got not in (want.split(" if ")[0], want.split("else ")[-1]):
            out.append(f"{at}: want {want!r}, got {got!r}")
    elif want == "either" and at.endswith(".status"):
        if got not in ("ok", "error"):
            out.append(f"{at}: want ok or error, got {got!r}")
    elif isinstance(want, bool) or want is None or isinstance(want, str):
        if type(want) is not type(got) or want != got:
            out.append(f"{at}: want {want!r}, got {got!r}")
    elif isinstance(got, bool) or not isinstance(got, (int, float)):
        out.append(f"{at}: want {want!r}, got {got!r}")
    elif abs(want - got) > 1e-6 * max(1, abs(want)):
        out.append(f"{at}: want {want!r}, got {got!r}")


def check(readcase, case):
    want = json.loads((case / "case.json").read_text(encoding="utf-8"))["expect"]
    run = subprocess.run([readcase, str(case)], capture_output=True, timeout=60)
    try:
        got = json.loads(run.stdout)
    except ValueError as why:
        return [f"exit {run.returncode}, no JSON: {why}", run.stderr.decode("utf-8", "replace")[:500]]
    out = []
    if got.get("status") == "not_read":
        out.append(got.get("reason", "not read"))
    differences(want, got, "", out)
    return out


def main():
    readcase, folder, kinds = sys.argv[1], pathlib.Path(sys.argv[2]), set(sys.argv[3:])
    cases = []
    for file in sorted(folder.glob("*/case.json")):
        if not kinds or json.loads(file.read_text(encoding="utf-8"))["kind"] in kinds:
            cases.append(file.parent)
    print(f"1..{len(cases)}")
    failed = 0
    for i, case in enumerate(cases, 1):
        wrong = check(readcase, case)
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {i} - {case.name}")
        for line in wrong[:40]:
            print(f"# {line}")
    return 1 if failed or not cases else 0


sys.exit(main())
