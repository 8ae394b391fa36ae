# SPDX-License-Identifier: Apache-2.0
"""What the tests of the real binary share: running it, and TAP. A test is a function named after its rule;
`main(globals())` runs all whose name starts with "test_" in the order of the file."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

BINARY = os.path.abspath(os.environ.get("PROOFMARK", "build/proofmark"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Skip(Exception):
    pass


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit %s\n--- stdout\n%s\n--- stderr\n%s" % (self.code, self.out[-3000:], self.err[-3000:])


def clean_env(extra=None):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": tempfile.gettempdir()}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    env.update(extra or {})
    return env


def run(*args, env=None, cwd=None, stdin=b"", timeout_s=120):
    p = subprocess.run([BINARY, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=clean_env(env), cwd=cwd, timeout=timeout_s, check=False)
    return Result(p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace"))


def start(*args, env=None, cwd=None):
    return subprocess.Popen([BINARY, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=clean_env(env), cwd=cwd)


def finish(process, timeout_s=60):
    out, err = process.communicate(timeout=timeout_s)
    return Result(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_error(result, code, *texts):
    """The rule for every error: the exit code, nothing on stdout, one line `proofmark: …` that says why."""
    check(result.code == code, "want exit %d: %r" % (code, result))
    check(result.out == "", "an error wrote to stdout: %r" % result)
    last = result.err.rstrip("\n").split("\n")[-1]
    check(last.startswith("proofmark: "), "want a line `proofmark: …`: %r" % result)
    for text in texts:
        check(text in last, "want %r in %r" % (text, last))


def load_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Folder:
    """A scratch folder that is gone afterwards."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="proofmark-test-")
        return self.path

    def __exit__(self, *exc):
        shutil.rmtree(self.path, ignore_errors=True)


def main(scope):
    signal.alarm(1500)
    tests = [(n, f) for n, f in scope.items() if n.startswith("test_") and callable(f)]
    only = sys.argv[1:]
    tests = [(n, f) for n, f in tests if not only or n in only]
    print("1..%d" % len(tests), flush=True)
    failed = 0
    for i, (name, function) in enumerate(tests, 1):
        try:
            function()
            print("ok %d - %s" % (i, name[5:]), flush=True)
        except Skip as e:
            print("ok %d - %s # SKIP %s" % (i, name[5:], e), flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("not ok %d - %s" % (i, name[5:]))
            print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    sys.exit(1 if failed or not tests else 0)
