# SPDX-License-Identifier: Apache-2.0
"""Prints runner/store/unicode_table.h from Python's Unicode data: canonical decompositions, combining classes
and full case folding, as sorted arrays."""
import sys
import unicodedata

LIMIT = 0x110000


def is_hangul(c):
    return 0xAC00 <= c <= 0xD7A3


def rows(pairs, per_line=6):
    out, line = [], []
    for text in pairs:
        line.append(text)
        if len(line) == per_line:
            out.append("\t" + " ".join(line))
            line = []
    if line:
        out.append("\t" + " ".join(line))
    return "\n".join(out)


def sequences(mapping):
    """One pool of code points; each entry is {code, offset, length}."""
    pool, where, entries = [], {}, []
    for code in sorted(mapping):
        seq = tuple(mapping[code])
        if seq not in where:
            where[seq] = len(pool)
            pool.extend(seq)
        entries.append(f"{{ 0x{code:x}, {where[seq]}, {len(seq)} }},")
    return pool, entries


def main():
    nfd, fold, ccc = {}, {}, []
    for c in range(LIMIT):
        if 0xD800 <= c <= 0xDFFF:
            continue
        ch = chr(c)
        d = unicodedata.normalize("NFD", ch)
        if d != ch and not is_hangul(c):
            nfd[c] = [ord(x) for x in d]
        f = ch.casefold()
        if f != ch:
            fold[c] = [ord(x) for x in f]
        if unicodedata.combining(ch):
            ccc.append((c, unicodedata.combining(ch)))
    runs = []
    for c, v in ccc:
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == v:
            runs[-1][1] = c
        else:
            runs.append([c, c, v])
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print(f"/* Made by tests/tools/gen_unicode_table.py from Unicode {unicodedata.unidata_version}. Do not edit. */")
    print("/* clang-format off */")
    print("#include <stdint.h>\n")
    print("struct code_map { uint32_t code; uint16_t at; uint8_t n; };")
    print("struct code_class { uint32_t first, last; uint8_t combining_class; };\n")
    for name, mapping in (("nfd", nfd), ("fold", fold)):
        pool, entries = sequences(mapping)
        print(f"static const uint32_t {name}_pool[] = {{\n{rows([f'0x{c:x},' for c in pool], 12)}\n}};")
        print(f"static const struct code_map {name}_map[] = {{\n{rows(entries, 5)}\n}};")
    print("static const struct code_class combining[] = {")
    print(rows([f"{{ 0x{a:x}, 0x{b:x}, {v} }}," for a, b, v in runs], 5))
    print("};")
    return 0


sys.exit(main())
