#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_tables.py BINARY PAGE: the option tables (as `help` shows them), the man page and the completion
scripts name the same commands and the same options."""

import re
import subprocess
import sys


def ask(binary, *args):
    return subprocess.run([binary, *args], stdout=subprocess.PIPE, check=True).stdout.decode()


def table_of(binary):
    listed = ask(binary, "help").split("\nCommands:\n")[1].split("\n\n")[0]
    table = {}
    for name in re.findall(r"^  ([a-z]+)\s", listed, re.MULTILINE):
        table[name] = set(re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", ask(binary, "help", name), re.MULTILINE)) - {"help"}
    return table


def man_of(page):
    """Commands are `.Ss NAME` under `.Sh COMMANDS`; their options are `.It … Fl -NAME` there."""
    text = re.split(r"^\.Sh COMMANDS$", page, flags=re.MULTILINE)[1]
    text = re.split(r"^\.Sh ", text, flags=re.MULTILINE)[0]
    table = {}
    for part in re.split(r"^\.Ss ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        items = "\n".join(re.findall(r"^\.It .*$", body, re.MULTILINE))
        table[name.strip()] = set(re.findall(r"Fl -([a-z0-9-]+)", items))
    return table


def fish_of(text):
    table = {}
    for name in re.findall(r"-n __fish_use_subcommand -f -a (\S+)", text):
        table[name] = set(re.findall(r"from %s' -l ([a-z0-9-]+)" % name, text))
    return table


def bash_of(text):
    names = re.search(r"compgen -W '([^']*)'", text).group(1).split()
    table = {}
    for name in names:
        words = re.search(r"^\t\t%s\) words='([^']*)'" % name, text, re.MULTILINE).group(1)
        table[name] = {w[2:] for w in words.split()} - {"help"}
    return table


def zsh_of(text):
    table = {}
    for part in re.findall(r"^\t([a-z]+)\)\n(.*?);;$", text, re.MULTILINE | re.DOTALL):
        table[part[0]] = set(re.findall(r"'\*?--([a-z0-9-]+)", part[1])) - {"help"}
    return table


def differences(what, want, got):
    for name in sorted(set(want) | set(got)):
        if name not in got:
            yield "%s: command %s is missing" % (what, name)
        elif name not in want:
            yield "%s: there is no command %s" % (what, name)
        else:
            for option in sorted(want[name] ^ got[name]):
                which = "is missing" if option in want[name] else "does not exist"
                yield "%s: %s --%s %s" % (what, name, option, which)


def main(binary, page):
    want = table_of(binary)
    with open(page, encoding="utf-8") as f:
        found = list(differences("man page", want, man_of(f.read())))
    for shell, read in (("bash", bash_of), ("zsh", zsh_of), ("fish", fish_of)):
        found += differences(shell, want, read(ask(binary, "completion", shell)))
    if not want:
        found.append("no command found")
    print("tables: %d commands, %d options, %d differences" % (len(want), sum(map(len, want.values())), len(found)))
    print("\n".join(found))
    return 1 if found else 0


sys.exit(main(*sys.argv[1:]))
