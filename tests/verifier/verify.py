#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verify.py BUNDLE PUBLIC_KEY: a second verifier, written from proofmark-bundle(5) alone. Exit 0 = genuine and the
same verdict, 1 = not genuine or another verdict."""

import decimal
import json
import sys
from fractions import Fraction

import bundle
import recompute

# Sentences; a program that does not know ours leaves them out.
SENTENCES = {"reason", "reasons", "where", "invalid_reason", "first_failure", "rule", "missing", "not_tested",
             "differences", "self_declared", "not_ready", "error"}


def same(found, said):
    if found is None or said is None or isinstance(found, (str, bool)) or isinstance(said, (str, bool)):
        return type(found) is type(said) and found == said
    if isinstance(found, int):
        return found == said
    a, b = Fraction(found), Fraction(said)
    return abs(a - b) <= max(abs(a), abs(b)) * Fraction(6, 10**9) or max(abs(a), abs(b)) < Fraction(1, 10**300)


def compare(at, found, said, out):
    if isinstance(found, dict) and isinstance(said, dict):
        for key in sorted(set(found) | (set(said) - SENTENCES)):
            if key not in found or key not in said:
                out.append("%s/%s: only %s has it" % (at, key, "verdict.json" if key in said else "the page"))
            else:
                compare(at + "/" + key, found[key], said[key], out)
    elif isinstance(found, list) and isinstance(said, list):
        if len(found) != len(said):
            out.append("%s: stated %d elements, found %d" % (at, len(said), len(found)))
        for i, (f, s) in enumerate(zip(found, said)):
            compare("%s/%s" % (at, f.get("id", i) if isinstance(f, dict) else i), f, s, out)
    elif not same(found, said):
        shown = float(found) if isinstance(found, (Fraction, decimal.Decimal)) else found
        out.append("%s: stated %r, found %r" % (at, said, shown))


def claims(predicate, run, verdict):
    """What the signed statement says of itself."""
    begin = run.begin or {}
    found = {"verdict": verdict, "run_id": begin.get("run_id"), "candidate": begin.get("candidate"),
             "challenge": run.plan["plan"].get("challenge")}
    return ["predicate/%s: stated %r, found %r" % (k, predicate.get(k), v) for k, v in found.items()
            if predicate.get(k) != v]


def main(path, key_path):
    with open(path, "rb") as f, open(key_path, "rb") as k:
        try:
            statement, files = bundle.read(f.read(), k.read())
        except bundle.NotGenuine as e:
            print("not genuine:", e)
            return 1
    run = recompute.Run(files)
    found = run.document()
    out = claims(statement["predicate"], run, found["verdict"])
    stated = json.loads(files["verdict.json"])
    compare("", found, stated, out)
    if bool(run.ev.problems) != bool(stated["missing"]):
        out.append("/missing: stated %r, found %r" % (stated["missing"], run.ev.problems))
    for line in out:
        print("differs:", line.lstrip("/"))
    for line in run.ev.problems:
        print("missing:", line)
    print("verdict", found["verdict"], "from", len(run.ev.records), "requests")
    return 1 if out else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: verify.py BUNDLE PUBLIC_KEY")
    sys.exit(main(*sys.argv[1:]))
