#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verify.py BUNDLE PUBLIC_KEY: a second verifier, written from proofmark-bundle(5) alone. Exit 0 = genuine and the
same verdict, 1 = not genuine or another verdict."""

import json
import math
import sys

import bundle
import recompute
import rules


def close(a, b):
    """Whole numbers exactly; others as far as the 9 digits of verdict.json reach."""
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return math.isclose(a, b, rel_tol=6e-9, abs_tol=1e-300)


def differences(run, stated):
    out = []

    def same(what, found, said):
        if not (close(found, said) if isinstance(found, (int, float)) and not isinstance(found, bool) else found == said):
            out.append("%s: stated %r, found %r" % (what, said, found))

    whole, classes, judged = recompute.verdict(run)
    same("verdict", whole, stated["verdict"])
    same("classes", classes, stated["classes"])
    for j, said in zip(judged, stated["criteria"], strict=True):
        at = j.c["id"] + "/"
        same(at + "state", j.state, said["state"])
        if said["state"] in ("pass", "fail", "inconclusive"):
            factor = rules.UNITS[j.unit]
            for key in ("n", "t", "n_more"):
                if j.metric in recompute.LATENCY + ("failed_share", "controls_failed"):
                    same(at + key, getattr(j, key), said[key])
            for key in ("value", "bound"):
                found = getattr(j, key)
                same(at + key, None if found is None else found / factor, said[key] and said[key]["value"])
            for key in ("p_pass", "p_fail"):
                found = getattr(j, key)
                if found is None or found > 1e-12:
                    same(at + key, found, said[key])
    for cell, said in zip(run.cells, stated["cells"], strict=True):
        at = cell.id + "/"
        same(at + "id", cell.id, said["id"])
        same(at + "valid", cell.valid, said["valid"])
        for key, found in (("completed", len(cell.completed)), ("failed", cell.n_failed),
                           ("cancelled", len(cell.cancelled)), ("window_ns", cell.window)):
            same(at + key, found, said[key])
        for key in ("request_s", "output_tok_s", "prefill_tok_s", "decode_tok_s"):
            same(at + key, cell.rate(key), said[key])
        for name, s in cell.series.items():
            same(at + name + "/n", len(s.values), said[name]["n"])
            for q in ("p50", "p90", "p95", "p99"):
                num, den = rules.QUANTILES[q]
                value = s.at_rank(recompute.nearest(s.n, num, den)) if s.n else None
                same("%s%s/%s" % (at, name, q), value, said[name][q + "_ns"])
                rank = rules.upper_rank(s.n, (den - num) / den, 0.95) if s.n else None
                same("%s%s/%s_ub" % (at, name, q), s.at_rank(rank) if rank else None, said[name][q + "_ub_ns"])
    return out, whole


def main(path, key_path):
    with open(path, "rb") as f, open(key_path, "rb") as k:
        try:
            statement, files = bundle.read(f.read(), k.read())
        except bundle.NotGenuine as e:
            print("not genuine:", e)
            return 1
    run = recompute.Run(files)
    out, whole = differences(run, json.loads(files["verdict.json"]))
    if statement["predicate"]["verdict"] != whole:
        out.append("predicate: verdict")
    for line in out:
        print("differs:", line)
    for line in run.missing:
        print("missing:", line)
    print("verdict", whole, "from", len(run.records), "requests")
    return 1 if out else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: verify.py BUNDLE PUBLIC_KEY")
    sys.exit(main(*sys.argv[1:]))
