# SPDX-License-Identifier: Apache-2.0
"""The golden verdict.json is what reports/schema/verdict-1.schema.json says, and the schema refuses what it must.

usage: test_verdict_schema.py SOURCE_ROOT; prints TAP."""

import copy
import json
import os
import sys

import jsonschema


def main(root):
    with open(os.path.join(root, "reports/schema/verdict-1.schema.json"), encoding="utf-8") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with open(os.path.join(root, "tests/golden/expect/verdict.json"), encoding="utf-8") as f:
        good = json.load(f)
    results = [("accepts_the_golden_verdict", validator.is_valid(good))]
    for name in good:
        less = {k: v for k, v in good.items() if k != name}
        results.append((f"refuses_a_verdict_without_{name}", not validator.is_valid(less)))
    for path, value in (
        (("verdict",), "great"),
        (("criteria", 0, "state"), "passed"),
        (("criteria", 0, "n"), -1),
        (("criteria", 0, "value"), 250),
        (("criteria", 0, "surprise"), 1),
        (("cells", 0, "ttft", "p99_ns"), "1 ms"),
        (("classes", "gaming"), "accepted"),
    ):
        bad = copy.deepcopy(good)
        at = bad
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        results.append((f"refuses_{'_'.join(map(str, path))}_{value}".replace(" ", "_"), not validator.is_valid(bad)))
    for i, (name, ok) in enumerate(results, 1):
        print(f"{'ok' if ok else 'not ok'} {i} - {name}")
    print(f"1..{len(results)}")
    return 0 if all(ok for _, ok in results) else 1


sys.exit(main(sys.argv[1]))
