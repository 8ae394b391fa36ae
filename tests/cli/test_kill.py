#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at seeded points among the writes of journal, records and seal: `report` still tells what is there,
and never accepts. KILL_POINTS sets how many (100)."""

import os
import random

import helper
from helper import check
from trial import Trial

POINTS = int(os.environ.get("KILL_POINTS", "100"))
SEED = 20261130


def short(plan):
    plan["workloads"][0]["requests"] = 20
    plan["candidates"][0]["engine"]["args"] += ["--ttft-ms", "1", "--itl-us", "100"]


def try_point(t, n):
    """True when the run was killed there, False when it ended before."""
    name = "out%d" % n
    r = t.run(name, env={"PROOFMARK_FAULT": "kill:%d" % n})
    if r.code != -9:
        check(r.code in (3, 4, 5), "kill:%d: a run that was not killed: %r" % (n, r))
        return False
    if not os.path.isdir(t.path(name)):
        return True
    again = t.report(name)
    check(again.code in (1, 2, 3, 4, 5, 130), "kill:%d: report: %r" % (n, again))
    if again.code == 2 or not again.out:
        check(again.err.startswith("proofmark: "), "kill:%d: report says nothing: %r" % (n, again))
    else:
        check(t.verdict(name)["verdict"] not in ("accepted", "accepted_with_waivers"), "kill:%d accepted" % n)
    if os.path.exists(t.path(name + ".proofmark")):
        check(t.verify(name=name).code == 0, "kill:%d: half a bundle" % n)
    return True


def last_point(t):
    """The number of write boundaries in a whole run, found by halving."""
    low, high = 1, 2
    while try_point(t, high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if try_point(t, middle) else (low, middle)
    return low


def test_every_point_leaves_a_run_that_can_be_read():
    with Trial(short) as t:
        t.lock()
        last = last_point(t)
        check(last > 20, "only %d points" % last)
        rng = random.Random(SEED)
        points = sorted(rng.sample(range(1, last + 1), min(POINTS, last)))
        for n in points:
            if not os.path.exists(t.path("out%d" % n)):
                try_point(t, n)
        helper.check(t.nothing_left_running(), "an engine is still there")
        print("# %d points of %d" % (len(points), last))


helper.main(globals())
