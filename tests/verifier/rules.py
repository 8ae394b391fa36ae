# SPDX-License-Identifier: Apache-2.0
"""Statistics rule set 1 of proofmark-bundle(5). Probabilities are decimals of 60 digits, everything else is exact."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

decimal.getcontext().prec = 60
decimal.getcontext().Emin = -999999999
SLACK = 1 + Decimal("1e-12")
QUANTILES = {"p50": (50, 100), "median": (50, 100), "p90": (90, 100), "p95": (95, 100), "p99": (99, 100),
             "p999": (999, 1000)}


def dec(x):
    x = Fraction(x)
    return Decimal(x.numerator) / Decimal(x.denominator)


def terms(n, q):
    """P(Bin(n, q) = k) for k = 0, 1, ... n, each from the one before; 0 < q < 1"""
    q = dec(q)
    odds, p = q / (1 - q), (1 - q) ** n
    for k in range(n + 1):
        yield p
        p = p * odds * (n - k) / (k + 1)


def lower_tail(n, q, t):
    """P(Bin(n, q) <= t)"""
    if t < 0:
        return Decimal(0)
    if t >= n or q <= 0:
        return Decimal(1)
    if q >= 1:
        return Decimal(0)
    return sum(p for _, p in zip(range(t + 1), terms(n, q)))


def upper_tail(n, q, t):
    """P(Bin(n, q) >= t) = P(Bin(n, 1 - q) <= n - t)"""
    return lower_tail(n, 1 - Fraction(q), n - t)


def at_most(p, alpha):
    return p <= dec(alpha) * SLACK


def n_more(n, t, q, alpha):
    if q <= 0:
        return 0
    low, high = max(t, 0) - 1, max(n, t, 1)
    while not at_most(lower_tail(high, q, t), alpha):
        low, high = high, 2 * high
        if high > 2**52:
            return 0
    while high - low > 1:
        mid = (low + high) // 2
        if at_most(lower_tail(mid, q, t), alpha):
            high = mid
        else:
            low = mid
    return high - n


def gate(n, t, q, confidence):
    """(state, p_pass, p_fail, n_more)"""
    alpha = 1 - confidence
    p_pass, p_fail = lower_tail(n, q, t), upper_tail(n, q, t)
    if at_most(p_pass, alpha):
        return "pass", p_pass, p_fail, 0
    if at_most(p_fail, alpha):
        return "fail", p_pass, p_fail, 0
    return "inconclusive", p_pass, p_fail, n_more(n, t, q, alpha)


def upper_rank(n, num, den, confidence):
    total, best = Decimal(0), None
    for t, p in enumerate(terms(n, 1 - Fraction(num, den))):
        total += p
        if not at_most(total, 1 - confidence):
            break
        best = t
    return None if best is None else n - best


def lower_rank(n, num, den, confidence):
    """The smallest t with P(Bin(n, q) >= t) at most alpha is counted down from n."""
    total, best = Decimal(0), None
    for down, p in enumerate(terms(n, Fraction(num, den))):
        total += p
        if not at_most(total, 1 - confidence):
            break
        best = n - down
    return None if best is None else n + 1 - best


def clopper_pearson(x, n, confidence, upper):
    if (upper and x == n) or (not upper and x == 0):
        return Fraction(1 if upper else 0)
    alpha, low, high = dec(1 - confidence), Fraction(0), Fraction(1)
    for _ in range(60):
        mid = (low + high) / 2
        higher = lower_tail(n, mid, x) > alpha if upper else upper_tail(n, mid, x) < alpha
        low, high = (mid, high) if higher else (low, mid)
    return (low + high) / 2


def n_eff(values):
    n = len(values)
    if n < 2:
        return Fraction(n)
    total = sum(values)
    d = [float(n * v - total) for v in values]
    var = math.fsum(x * x for x in d)
    if var <= 0:
        return Fraction(n)
    rho_sum = 0.0
    for k in range(1, min(n - 1, 2000, int(2e8 / n)) + 1):
        rho = math.fsum(a * b for a, b in zip(d, d[k:])) / var
        if rho <= 0:
            break
        rho_sum += rho
    return Fraction(n / (1 + 2 * rho_sum))


def holds(value, comparator, limit):
    return {"<=": value <= limit, "<": value < limit, ">=": value >= limit, ">": value > limit,
            "==": value == limit}[comparator]


def nearest(n, num, den):
    return max(1, -(-n * num // den))


class Series:
    """Values in the order of rows; `failed` ones have no value but count; `unknown` rows make the figure unknown."""

    def __init__(self, *parts):
        self.values = [v for p in parts for v in p.values]
        self.failed, self.unknown = sum(p.failed for p in parts), sum(p.unknown for p in parts)
        self.ordered = None

    @property
    def n(self):
        return len(self.values) + self.failed

    def at_rank(self, rank, small_is_good=True):
        if self.ordered is None:
            self.ordered = sorted(self.values)
        at = rank - 1 if small_is_good else rank - 1 - self.failed
        return self.ordered[at] if 0 <= at < len(self.ordered) else None
