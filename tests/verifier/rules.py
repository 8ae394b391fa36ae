# SPDX-License-Identifier: Apache-2.0
"""Statistics rule set 1 of proofmark-bundle(5), written from the page."""

import math

UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "tok/s": 1, "requests/s": 1,
         "requests/min": 1 / 60, "share": 1, "%": 0.01, "count": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9,
         "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "ratio": 1}
QUANTILES = {"p50": (50, 100), "median": (50, 100), "p90": (90, 100), "p95": (95, 100), "p99": (99, 100),
             "p999": (999, 1000)}


def log_pmf(n, q, k):
    if q <= 0:
        return 0.0 if k == 0 else -math.inf
    if q >= 1:
        return 0.0 if k == n else -math.inf
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(q)
            + (n - k) * math.log1p(-q))


def lower_tail(n, q, t):
    """P(Bin(n, q) <= t)"""
    if t >= n:
        return 1.0
    return min(1.0, math.fsum(math.exp(log_pmf(n, q, k)) for k in range(0, t + 1))) if t >= 0 else 0.0


def upper_tail(n, q, t):
    """P(Bin(n, q) >= t)"""
    if t <= 0:
        return 1.0
    return min(1.0, math.fsum(math.exp(log_pmf(n, q, k)) for k in range(t, n + 1))) if t <= n else 0.0


def at_most(p, alpha):
    return p <= alpha * (1 + 1e-12)


def gate(n, t, q, confidence):
    """(state, p_pass, p_fail, n_more)"""
    alpha = 1 - confidence
    p_pass, p_fail = lower_tail(n, q, t), upper_tail(n, q, t)
    if at_most(p_pass, alpha):
        return "pass", p_pass, p_fail, 0
    if at_most(p_fail, alpha):
        return "fail", p_pass, p_fail, 0
    if q <= 0:
        return "inconclusive", p_pass, p_fail, 0
    high = max(n, 1)
    while not at_most(lower_tail(high, q, t), alpha):
        high *= 2
    low = max(t, 0)
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if at_most(lower_tail(mid, q, t), alpha) else (mid, high)
    return "inconclusive", p_pass, p_fail, max(0, high - n)


def upper_rank(n, q, confidence):
    best = None
    for t in range(0, n + 1):
        if not at_most(lower_tail(n, q, t), 1 - confidence):
            break
        best = t
    return None if best is None else n - best


def lower_rank(n, q, confidence):
    for t in range(0, n + 1):
        if at_most(upper_tail(n, q, t), 1 - confidence):
            return n + 1 - t
    return None


def clopper_pearson(x, n, confidence, upper):
    if (upper and x == n) or (not upper and x == 0):
        return 1.0 if upper else 0.0
    low, high = 0.0, 1.0
    for _ in range(200):
        mid = (low + high) / 2
        if upper:
            above = lower_tail(n, mid, x) < 1 - confidence
        else:
            above = upper_tail(n, mid, x) > 1 - confidence
        low, high = (low, mid) if above else (mid, high)
    return (low + high) / 2


def n_eff(values):
    n = len(values)
    if n < 2:
        return float(n)
    mean = math.fsum(values) / n
    d = [v - mean for v in values]
    var = math.fsum(x * x for x in d)
    if var <= 0 or min(values) == max(values):
        return float(n)
    total = 0.0
    for k in range(1, min(n - 1, 2000, int(2e8 / n)) + 1):
        rho = math.fsum(d[i] * d[i + k] for i in range(n - k)) / var
        if rho <= 0:
            break
        total += rho
    return n / (1 + 2 * total)


def holds(value, comparator, limit):
    return {"<=": value <= limit, "<": value < limit, ">=": value >= limit, ">": value > limit,
            "==": value == limit}[comparator]
