# SPDX-License-Identifier: Apache-2.0
"""The plan's shape in the product and plans/schema/plan-1.schema.json accept and refuse the same documents.

Mutants are generated from the schema itself: over every example plan and over a document that holds every
member the schema knows. usage: test_plan_schema.py SHAPECHECK SOURCE_ROOT; prints TAP.
"""

import copy
import glob
import json
import os
import random
import re
import subprocess
import sys

import jsonschema

SEED = 20260101
MUTANTS_MIN = 300
SAMPLE_PER_EXAMPLE = 150
SAMPLE_STRINGS = ["a", "abc", "2026-01-31", "EUR", "f" * 40, "f" * 64, "sm_90"]
WRONG_TYPES = [None, True, 7, 1.5, "text", [], {}]


class Schema:
    def __init__(self, document):
        self.document = document
        self.validator = jsonschema.Draft202012Validator(document)

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = target
        return node

    def accepts(self, document):
        return self.validator.is_valid(document)

    def sample(self, node, choice):
        """A valid value with every optional member; `choice` picks among exclusive members."""
        node = self.resolve(node)
        kind = node.get("type")
        if kind == "object":
            return self.sample_object(node, choice)
        if kind == "array":
            count = max(1, node.get("minItems", 0))
            return [self.sample(node["items"], choice) for _ in range(count)]
        if kind == "boolean":
            return True
        if kind in ("integer", "number"):
            return sample_number(node)
        if "enum" in node:
            return node["enum"][choice % len(node["enum"])]
        if "pattern" in node:
            return next(s for s in SAMPLE_STRINGS if re.search(node["pattern"], s))
        return "text"

    def sample_object(self, node, choice):
        exclusive = [alternative["required"][0] for alternative in node.get("oneOf", [])]
        kept = exclusive[choice % len(exclusive)] if exclusive else None
        return {
            key: self.sample(value, choice)
            for key, value in node["properties"].items()
            if key not in exclusive or key == kept
        }


def sample_number(node):
    low = node.get("minimum", node.get("exclusiveMinimum", 0))
    if "exclusiveMinimum" in node:
        low += 1 if node["type"] == "integer" else min(0.25, (node["maximum"] - low) / 2)
    return low


def string_mutants(node, value):
    yield "empty string", ""
    if "enum" in node:
        yield "out of enum", value + "x"
        yield "other case", value.upper()
        for word in node["enum"]:
            yield "word", word
    if "pattern" in node:
        for bad in ["!" + value, value + " ", value * 80, "-", "é" + value]:
            yield "pattern", bad


def number_mutants(node, value):
    low = node.get("minimum", node.get("exclusiveMinimum"))
    yield "at the lower bound", low
    yield "below the lower bound", low - 1
    yield "at the upper bound", node["maximum"]
    yield "above the upper bound", node["maximum"] + max(1, node["maximum"] * 1e-6)
    yield "fraction", value + 0.5
    yield "whole number with a point", float(int(value)) if value >= 1 else 1.0


def array_mutants(node, value):
    yield "empty array", []
    if not value:
        return
    yield "one twice", value + [value[0]]
    yield "fewest", value[: node.get("minItems", 0)]
    if 0 < node.get("maxItems", 0) <= 257:
        yield "too many", (value * (node["maxItems"] + 1))[: node["maxItems"] + 1]


def object_mutants(schema, node, value, choice):
    for key in value:
        yield f"without {key}", {k: v for k, v in value.items() if k != key}
    for key, member in node["properties"].items():
        if key not in value:
            yield f"with {key}", {**value, key: schema.sample(member, choice)}
    yield "extra key", {**value, "extra_key": 1}
    yield "key in other case", {**value, "Note": 1}
    yield "note", {**value, "note": {"any": [1, None]}}
    yield "$schema", {**value, "$schema": "x"}


def mutants(schema, node, value, path, choice=0):
    """(what, path, new value) for every value inside `value`."""
    node = schema.resolve(node)
    for wrong in WRONG_TYPES:
        yield f"type {json.dumps(wrong)}", path, wrong
    if isinstance(value, dict) and node.get("type") == "object":
        for what, new in object_mutants(schema, node, value, choice):
            yield what, path, new
        for key, member in value.items():
            if key in node["properties"]:
                yield from mutants(schema, node["properties"][key], member, path + [key], choice)
    elif isinstance(value, list) and node.get("type") == "array":
        for what, new in array_mutants(node, value):
            yield what, path, new
        for index, member in enumerate(value):
            yield from mutants(schema, node["items"], member, path + [index], choice)
    elif isinstance(value, str) and node.get("type") == "string":
        for what, new in string_mutants(node, value):
            yield what, path, new
    elif node.get("type") in ("integer", "number") and not isinstance(value, (bool, str, type(None))):
        for what, new in number_mutants(node, value):
            yield what, path, new


def with_value(document, path, new):
    if not path:
        return new
    document = copy.deepcopy(document)
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = new
    return document


def cases(schema, root, rng):
    """(name, document), the same list each time."""
    plans = sorted(glob.glob(os.path.join(root, "plans/*.json")) + glob.glob(os.path.join(root, "plans/examples/*.json")))
    for plan in plans:
        if plan.endswith(".lock.json"):
            continue
        with open(plan, encoding="utf-8") as file:
            document = json.load(file)
        name = os.path.basename(plan)
        yield name, document
        found = list(mutants(schema, schema.document, document, []))
        for what, path, new in rng.sample(found, min(SAMPLE_PER_EXAMPLE, len(found))):
            yield f"{name} {pointer(path)} {what}", with_value(document, path, new)
    for choice in range(3):
        document = schema.sample(schema.document, choice)
        yield f"everything {choice}", document
        found = list(mutants(schema, schema.document, document, [], choice))
        for what, path, new in found if choice == 0 else rng.sample(found, 300):
            yield f"everything {choice} {pointer(path)} {what}", with_value(document, path, new)


def pointer(path):
    return "".join(f"/{part}" for part in path) or "/"


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, good, name, *notes):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name.replace('#', ' ')}")
        for note in notes if not good else ():
            print(f"# {note}")


def answers(shapecheck, documents):
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    done = subprocess.run([shapecheck], input=lines, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main():
    shapecheck, root = sys.argv[1:]
    tap = Tap()
    path = os.path.join(root, "plans/schema/plan-1.schema.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    printed = subprocess.run([shapecheck, "--schema"], capture_output=True, text=True, check=True).stdout
    tap.ok(printed == text, "the schema file is what the shape table prints", f"renew: {shapecheck} --schema > {path}")
    document = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    schema = Schema(document)

    names, documents = zip(*cases(schema, root, random.Random(SEED)))
    got = answers(shapecheck, documents)
    tap.ok(len(got) == len(documents), "an answer for every document", f"{len(got)} of {len(documents)}")
    want = [schema.accepts(document) for document in documents]
    refused = want.count(False)
    tap.ok(refused >= MUTANTS_MIN and len(want) - refused >= MUTANTS_MIN, "enough documents of both kinds",
           f"{refused} refused, {len(want) - refused} accepted")
    wrong = [(n, w, g) for n, w, g in zip(names, want, got) if w != (g == "ok")]
    tap.ok(not wrong, f"same answer for {len(documents)} documents ({refused} refused)",
           *[f"{n}: schema {'accepts' if w else 'refuses'}, reader says {g}" for n, w, g in wrong[:20]])
    for name, accepted in zip(names, want):
        if name.endswith(".json"):
            tap.ok(accepted, f"{name} is accepted")
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
