# SPDX-License-Identifier: Apache-2.0
"""Canaries, foreign nonces, suspicious texts and the engine's own metrics, after proofmark-bundle(5)."""

import math
import re
from fractions import Fraction

import schedule

NONCE = re.compile(r"(?=(PMK[A-Z2-7]{13}))")
SAMPLE = re.compile(r'^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?\s+(\S+)(?:\s+-?\d+)?\s*$')


def nonces(ev, run):
    """Those of all canaries that were planned."""
    out = set()
    cells = {c.id: c for c in run.cells}
    for line in ev.planned:
        if line["kind"] == "load" and line["canary"] and line["cell"] in cells:
            seed = cells[line["cell"]].wl.get("arrival", {}).get("seed", 1)
            out.add(schedule.nonce(line["cell"], line["k"], seed))
    return out


def foreign_in(text, own, known):
    return len({m[1] for m in NONCE.finditer(text)} & known - {own})


def fold(text):
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def canary_failed(row, answer):
    if row["outcome"] != "ok" or answer is None or answer["text"] is None:
        return True
    text = answer["text"]
    return answer["nonce"] not in text or fold(answer["expected"]) not in fold(text)


def suspicious(a):
    def has(key, test):
        return a[key] is not None and test(a[key])
    return has("max_run", lambda v: v >= 24) or (has("distinct", lambda v: v <= 8) and a["chars"] >= 64) or \
        has("zlib_share", lambda v: v < Fraction(1, 5)) or has("rep4_share", lambda v: v > Fraction(1, 2)) or \
        has("special", lambda v: v > 0)


# --- Prometheus ------------------------------------------------------------------------------------------------

def number(word):
    try:
        return float({"+Inf": "inf", "-Inf": "-inf"}.get(word, word))
    except ValueError:
        return None


def sums(page):
    """{name: sum of its samples}"""
    out = {}
    for line in page.split("\n"):
        m = None if line.lstrip().startswith("#") else SAMPLE.match(line)
        value = number(m[2]) if m else None
        if value is not None:
            out[m[1]] = out.get(m[1], 0.0) + value
    return out


def deltas(pages, names):
    """None when this line of the table cannot be used."""
    before, after = pages
    out = []
    for name in names:
        if name not in after:
            return None
        values = after[name], before.get(name, 0.0)
        if not all(map(math.isfinite, values)) or values[0] < values[1]:
            return None
        out.append(values[0] - values[1])
    return out


def quotient(a, b):
    return a / b if b else None


HITS = (("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
        ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"),
        ("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
        ("llamacpp:prompt_tokens_cached_total", "llamacpp:prompt_tokens_total"))
QUEUES = (("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"),
          ("sglang:queue_time_seconds_sum", "sglang:queue_time_seconds_count"))


def first_used(pages, table):
    if None in pages:
        return None, None
    for names in table:
        got = deltas(pages, names)
        if got is not None:
            if names[0].startswith("llamacpp:"):
                got[1] += got[0]
            return got
    return None, None


def engine_figures(pages):
    """(prefix_cache_hit_share or None, queue_time_mean_ms or None)"""
    a, b = first_used(pages, HITS)
    share = None if a is None else quotient(a, b)
    if share is not None and share > 1:
        share = None
    a, b = first_used(pages, QUEUES)
    return share, None if a is None else quotient(1000 * a, b)
