#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every command has in common: errors, help, version, completion."""

import os
import re
import shutil
import subprocess

import helper
from helper import check, expect_error, run


def command_names():
    out = run("help").out
    listed = out[out.index("\nCommands:\n"):].split("\n\n")[0]
    return re.findall(r"^  ([a-z]+)\s", listed, re.MULTILINE)


def options_of(name):
    return re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", run("help", name).out, re.MULTILINE)


def test_wants_a_command():
    expect_error(run(), 2, "want a command")


def test_names_a_near_command():
    expect_error(run("verfy"), 2, 'no command "verfy"', "did you mean verify?")
    expect_error(run("hlep"), 2, "did you mean help?")
    expect_error(run("help", "verison"), 2, "did you mean version?")


def test_refuses_a_strange_command_without_a_guess():
    expect_error(run("xyzzyplugh"), 2, "`proofmark help` lists them")
    expect_error(run("--frobnicate"), 2, "want a command before options")


def test_control_bytes_never_reach_the_terminal():
    r = run("ver\x1b[31mx\ny")
    expect_error(r, 2)
    check("\x1b" not in r.err and r.err.count("\n") == 1, repr(r))


def test_names_a_near_option_of_each_command():
    for name in command_names():
        for option in options_of(name):
            wrong = option[:-1] if len(option) > 3 else option + "x"
            if wrong not in options_of(name):
                expect_error(run(name, "--" + wrong), 2, name + ": no option --" + wrong, "did you mean --")


def test_refuses_an_unknown_option_of_each_command_in_one_line():
    for name in command_names():
        r = run(name, "--qqqqqqqqqqqqq")
        expect_error(r, 2, "see `proofmark help %s`" % name)
        check(r.err.count("\n") == 1, "more than one line: %r" % r)


def test_help_goes_to_stdout_within_80_columns_and_starts_with_examples():
    for args in [["help"], ["--help"], ["-h"]] + [[n, "--help"] for n in command_names()] + \
                [["help", n] for n in command_names()]:
        r = run(*args)
        check(r.code == 0 and r.err == "", "%s: %r" % (args, r))
        check(r.out.startswith("Examples:\n  "), "%s: examples come first: %r" % (args, r))
        for line in r.out.split("\n"):
            check(len(line) <= 80, "%s: %d columns: %s" % (args, len(line), line))
            check(line == line.rstrip(), "%s: blanks at the end of: %r" % (args, line))


def test_no_option_takes_a_secret():
    for name in command_names():
        for option in options_of(name):
            check(not re.search("(password|passphrase|secret|token|api-key)$", option), "%s --%s" % (name, option))


def test_version_names_what_it_reads():
    r = run("version")
    check(r.code == 0 and re.match(r"proofmark \d+\.\d+\.\d+\n", r.out), repr(r))
    check("plan schema 1" in r.out, repr(r))
    check(run("--version").out == r.out, "--version differs")


def test_output_that_does_not_arrive_is_an_error():
    with open("/dev/full", "wb") as full:
        for args in (["version"], ["help"]):
            p = subprocess.run([helper.BINARY, *args], stdout=full, stderr=subprocess.PIPE, check=False)
            check(p.returncode == 5 and b"No space left" in p.stderr, "%s: %r" % (args, p))


def test_completion_is_for_three_shells():
    expect_error(run("completion", "csh"), 2, "bash, zsh or fish")
    expect_error(run("completion"), 2, "want bash|zsh|fish")
    for shell in ("bash", "zsh", "fish"):
        text = run("completion", shell).out
        for name in command_names():
            check(re.search(r"\b%s\b" % name, text), "%s: no command %s" % (shell, name))
            for option in options_of(name):
                found = {"bash": "--" + option, "zsh": "--" + option, "fish": "-l " + option}[shell]
                check(option == "help" or found in text, "%s: no option %s %s" % (shell, name, option))


def test_completion_scripts_are_read_by_their_shells():
    missing = []
    for shell in ("bash", "zsh", "fish"):
        if not shutil.which(shell):
            missing.append(shell)
            continue
        text = run("completion", shell).out
        p = subprocess.run([shell, "-n"], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        check(p.returncode == 0 and not p.stderr, "%s: %s" % (shell, p.stderr))
    if missing and not os.environ.get("CI"):
        raise helper.Skip("no " + ", ".join(missing))
    check(not missing, "no " + ", ".join(missing))


def complete(*words):
    script = "source <(%s completion bash); COMP_WORDS=(%s); COMP_CWORD=%d; _proofmark; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
        helper.BINARY, " ".join("'%s'" % w for w in words), len(words) - 1)
    p = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    check(p.returncode == 0 and not p.stderr, repr(p))
    return p.stdout.decode().split()


def test_bash_completes_commands_options_and_words():
    check(complete("proofmark", "hel") == ["help"], complete("proofmark", "hel"))
    check(complete("proofmark", "help", "vers") == ["version"], "help vers")
    check(complete("proofmark", "completion", "") == ["bash", "zsh", "fish"], "completion")
    check(complete("proofmark", "version", "--h") == ["--help"], "version --h")
    if "run" in command_names():
        check(complete("proofmark", "run", "--progress", "pl") == ["plain"], "run --progress pl")
        check(complete("proofmark", "run", "--progress", "=", "j") == ["json"], "run --progress=j")
        check("--candidate" in complete("proofmark", "run", "--cand"), "run --cand")


helper.main(globals())
