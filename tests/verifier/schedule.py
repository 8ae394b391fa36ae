# SPDX-License-Identifier: Apache-2.0
"""The lines of schedule.jsonl from the plan alone, after SCHEDULE of proofmark-bundle(5); and over-saturation."""

import base64
import hashlib
import json
import math
from fractions import Fraction

MASK = 2**64 - 1
LN2 = 0.6931471805599453


def splitmix64(state):
    while True:
        state = (state + 0x9e3779b97f4a7c15) & MASK
        z = state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        yield z ^ z >> 31


def draws(state):
    for x in splitmix64(state):
        yield (x >> 11) / 2**53


def ln(y):
    m, e = math.frexp(y)
    while m < 0.7071067811865476:
        m, e = m * 2, e - 1
    while m >= 2 * 0.7071067811865476:
        m, e = m / 2, e + 1
    s = (m - 1) / (m + 1)
    z = s * s
    p = 1 / 21
    for j in range(19, 0, -2):
        p = p * z + 1 / j
    return e * LN2 + 2 * s * p


def exp(x):
    if x < -700:
        return 0.0
    n = math.floor(x / LN2 + 0.5)
    r = x - n * 0.6931471803691238 - n * 1.9082149292705877e-10
    p = 1.0
    for j in range(14, 0, -1):
        p = 1 + p * r / j
    return p * 2.0**n


def normal(u):
    while True:
        p, q = 2 * next(u) - 1, 2 * next(u) - 1
        s = p * p + q * q
        if 0 < s < 1:
            return p * math.sqrt(-2 * ln(s) / s)


def gamma(u, b):
    a = b + 1 if b < 1 else b
    d = a - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = normal(u)
        h = 1 + c * x
        if not h > 0:
            continue
        v = h * h * h
        if ln(1 - next(u)) < 0.5 * x * x + d * ((1 - v) + ln(v)):
            break
    g = d * v
    if b < 1:
        g = g * exp(ln(1 - next(u)) / b)
    return g


def whole_ns(due):
    return math.floor(Fraction(due * 1e9) + Fraction(1, 2))


def due_times(arrival, rate, duration):
    """Seconds, without an end but for a ramp."""
    u, kind = draws(arrival.get("seed", 1)), arrival["kind"]
    t, k = 0.0, 0
    if kind == "ramp":
        end = float(arrival["rate_end_rps"])
        while True:
            t = t + -ln(1 - next(u))
            w = rate * rate + 2 * (end - rate) * t / duration
            if w < 0:
                return
            due = 2 * t / (rate + math.sqrt(w))
            if not due < duration:
                return
            yield due
    while True:
        if kind == "constant":
            yield k / rate
            k += 1
            continue
        if kind == "poisson":
            t = t + -ln(1 - next(u)) / rate
        else:
            b = float(arrival.get("burstiness", 1))
            t = t + gamma(u, b) / (b * rate)
        yield t


def tagged(seed, tag):
    """First state of the generator whose draws are those of request 0, 1, 2 ..."""
    return next(splitmix64((seed ^ int.from_bytes(tag.encode(), "big")) & MASK))


def draw_number(first, k):
    state = (first + k * 0x9e3779b97f4a7c15) & MASK
    return next(draws(state))


class Schedule:
    """Of one cell and kind."""

    def __init__(self, cell, kind):
        wl = cell.wl
        self.cell, self.kind, self.arrival = cell, kind, {"kind": "closed", **wl.get("arrival", {})}
        self.seed = self.arrival.get("seed", 1)
        self.open = kind == "load" and self.arrival["kind"] != "closed"
        self.turns = wl.get("conversation", {}).get("turns", 0) if kind == "load" else 0
        self.mix = wl.get("mix", [])
        self.parts = tagged(self.seed, "mix/load" if kind == "load" else "mix/warm")
        self.canaries = tagged(self.seed, "can/load")
        self.dues = self.all_dues() if self.open else None
        self.count = self.how_many()

    def all_dues(self):
        wl, out = self.cell.wl, []
        duration, most = float(wl.get("duration_s", 0)), self.cell.requests
        if self.turns:
            most = most // self.turns
        for due in due_times(self.arrival, float(self.cell.rate_rps), duration):
            if (most and len(out) >= most) or (duration and whole_ns(due) >= whole_ns(duration)):
                break
            out.append(whole_ns(due))
        return out

    def how_many(self):
        """None = no last one."""
        if self.kind == "warmup":
            return self.cell.wl.get("warmup_requests", 2)
        if self.open:
            return len(self.dues) * (self.turns or 1)
        return self.cell.requests or None

    def part_of(self, k):
        if not self.mix:
            return None
        weights = [float(p["weight"]) for p in self.mix]
        total = 0.0
        for w in weights:
            total = total + w
        t, reached = draw_number(self.parts, k) * total, 0.0
        for i, w in enumerate(weights):
            reached = reached + w
            if t < reached:
                return i
        return len(weights) - 1

    def is_canary(self, k, output_tok):
        share = float(self.cell.wl.get("canary_share", 0))
        if self.kind == "warmup" or output_tok < 24 or not share:
            return False
        if self.turns:
            if k % self.turns != self.turns - 1:
                return False
            share = share * self.turns
        return draw_number(self.canaries, k) < share

    def item(self, k):
        conv, turn = divmod(k, self.turns) if self.turns else (None, None)
        part = self.part_of(conv * self.turns if self.turns else k)
        shape = self.mix[part] if part is not None else None
        prompt = shape["prompt_tok"] if shape else self.cell.prompt_tok
        output = shape["output_tok"] if shape else self.cell.wl["output_tok"]
        due = None
        if self.open and not turn:
            due = self.dues[conv if self.turns else k]
        return {"cell": self.cell.id, "kind": self.kind, "k": k, "due_ns": due,
                "prompt_tok": None if turn else prompt, "output_tok": output, "conv": conv, "turn": turn,
                "part": part, "canary": self.is_canary(k, output)}

    def line(self, k):
        return json.dumps(self.item(k), separators=(",", ":"), ensure_ascii=False)


def nonce(cell, k, seed):
    text = "\n".join(("proofmark nonce 1", cell, "load", str(k), str(seed)))
    return "PMK" + base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()[:13]


ANSWERS = "Paris Rome Tokyo Berlin Madrid Moscow Cairo Athens cold Tuesday July summer Earth dog blue honey".split()


# --- over-saturation -------------------------------------------------------------------------------------------

def trend(points):
    """(one-sided p that the values rise, median of the pairwise slopes) of (time, value), by Mann-Kendall and Sen."""
    n, values = len(points), [x for _, x in points]
    s = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1:])
    var = (n * (n - 1) * (2 * n + 5) - sum(g * (g - 1) * (2 * g + 5) for g in map(values.count, set(values)))) / 18
    z = (s - (s > 0) + (s < 0)) / math.sqrt(var) if var > 0 else 0.0
    slopes = [(x2 - x1) / (t2 - t1) for i, (t1, x1) in enumerate(points) for t2, x2 in points[i + 1:]]
    return 0.5 * math.erfc(z / math.sqrt(2)), median(slopes)


def median(values):
    values, n = sorted(values), len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2


def ttft_of(r):
    if r["first_token_ns"] is not None:
        return r["first_token_ns"] - r["due_ns"]
    return r["end_ns"] - r["due_ns"] if r["outcome"] in ("ok", "timeout", "stalled", "cancelled") else None


def in_flight(rows, first, last, part):
    """Mean number in flight of each of the 20 parts."""
    out = [0.0] * 20
    for r in rows:
        due, end = r["due_ns"] - first, r["end_ns"]
        end = float(last - first if end is None or end >= last else max(0, end - first))
        for i in range(min(19, int(due / part)), 20):
            a, b = max(float(due), i * part), min(end, (i + 1) * part)
            if b <= a:
                break
            out[i] += (b - a) / part
    return out


def ttft_parts(rows, first, part):
    """(part, TTFT in ms) where there is one"""
    out = []
    for i in range(20):
        mine = (ttft_of(r) for r in rows if min(19, int((r["due_ns"] - first) / part)) == i)
        got = sorted(t for t in mine if t is not None)
        if got:
            out.append((i, got[(len(got) - 1) // 2] / 1e6))
    return out


def saturation(rows):
    out = {"state": "unknown", "p_in_flight": None, "p_ttft": None, "in_flight_slope_per_s": None,
           "ttft_slope_ms_per_s": None, "in_flight_growth": None, "n_parts": 0}
    dues = [r["due_ns"] for r in rows if r["due_ns"] is not None]
    if len(rows) < 60 or max(dues) == min(dues):
        return out
    first, last = min(dues), max(dues)
    part = (last - first) / 20
    flight, ttft = in_flight(rows, first, last, part), ttft_parts(rows, first, part)
    out["n_parts"] = len(ttft)
    out["p_in_flight"], slope = trend([((i + 0.5) * part / 1e9, x) for i, x in enumerate(flight)])
    out["in_flight_slope_per_s"], middle = slope, median(flight)
    growth = slope * part * 20 / 1e9 / middle if middle else math.inf if slope > 0 else None
    out["in_flight_growth"] = growth if growth != math.inf else None
    if len(ttft) < 8:
        return out
    out["p_ttft"], out["ttft_slope_ms_per_s"] = trend([((i + 0.5) * part / 1e9, x) for i, x in ttft])
    yes = out["p_in_flight"] < 0.01 and out["p_ttft"] < 0.01 and growth is not None and growth > 0.5
    out["state"] = "yes" if yes else "no"
    return out
