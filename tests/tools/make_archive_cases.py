#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_archive_cases.py FIXTURES_CASES: writes the fixtures of kind archive anew. Headers are put together by
hand, so that each fault is exactly the one meant."""
import json
import pathlib
import sys

BLOCK = 512
END = bytes(2 * BLOCK)


def field(value, width):
    """An octal field, or the bytes as they are."""
    if isinstance(value, int):
        value = b"%0*o\0" % (width - 1, value)
    return value.ljust(width, b"\0")


def header(name, size=0, type=b"0", mode=0o644, link=b"", magic=b"ustar\00000", prefix=b"", size_field=None,
           sum_change=0):
    head = bytearray(
        field(name, 100) + field(mode, 8) + field(0, 8) + field(0, 8)
        + field(size if size_field is None else size_field, 12) + field(0o14545353600, 12) + b" " * 8 + type
        + field(link, 100) + magic + field(b"", 64) + field(b"", 16) + field(prefix, 155) + bytes(12))
    assert len(head) == BLOCK
    head[148:156] = b"%06o\0 " % (sum(head) + sum_change)
    return bytes(head)


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def file(name, data=b"{}\n", **how):
    return header(name, len(data), **how) + padded(data)


def folder(name, **how):
    return header(name, type=b"5", mode=0o755, **how)


def record(key, value):
    body = b" " + key + b"=" + value + b"\n"
    n = len(body) + 1
    while len(b"%d" % n) + len(body) != n:
        n = len(b"%d" % n) + len(body)
    return b"%d" % n + body


def pax(records, type=b"x"):
    return file(b"PaxHeaders/x", records, type=type)


def gnu_long(name, type=b"L"):
    return file(b"././@LongLink", name, type=type, magic=b"ustar  \0")


LONG = b"/".join([b"layers", b"a" * 60, b"b" * 60, b"layer.tar"])
GOOD = file(b"oci/index.json") + folder(b"oci/blobs/") + file(b"oci/blobs/a", b"x" * 700)
GOOD_FILES = ["oci/index.json", "oci/blobs/a"]
REPORT = file(b"b/report.json")


def ok(*files):
    return {"status": "ok", "files": [f if isinstance(f, str) else f.decode() for f in files]}


def error(reason):
    return {"status": "error", "reason": reason}


CASES = {
    "archive-good-forms": ("Archives of other programs that hold nothing odd are read.", {
        "plain": (GOOD + END, ok(*GOOD_FILES)),
        "blocking_factor": (GOOD + END + bytes(20 * BLOCK), ok(*GOOD_FILES)),
        "old_header": (file(b"a", type=b"\0", magic=bytes(8)) + END, ok("a")),
        "gnu_header": (file(b"a", magic=b"ustar  \0") + END, ok("a")),
        "prefix": (file(b"report.json", prefix=b"deep/er") + END, ok("deep/er/report.json")),
        "gnu_long_name": (gnu_long(LONG + b"\0") + file(LONG[:100], magic=b"ustar  \0") + END, ok(LONG)),
        "pax_long_name": (pax(record(b"path", LONG) + record(b"mtime", b"1.5")) + REPORT + END, ok(LONG)),
        "pax_same_size": (pax(record(b"size", b"3")) + REPORT + END, ok("b/report.json")),
        "pax_owner": (pax(record(b"uid", b"70000") + record(b"uname", b"me")) + REPORT + END, ok("b/report.json")),
        "global_comment": (pax(record(b"comment", b"0123"), b"g") + REPORT + END, ok("b/report.json")),
        "utf8_name": (file("b/é.json".encode()) + END, ok("b/é.json")),
        "folder_after_its_file": (REPORT + folder(b"b/") + END, ok("b/report.json")),
        "empty_file": (file(b"a", b"") + END, ok("a")),
    }),
    "archive-names": ("Names that leave the folder, or that two systems read in two ways.", {
        "prefix_dotdot": (file(b"x", prefix=b"a/..") + END, error("'..' in a path")),
        "prefix_absolute": (file(b"etc/x", prefix=b"/") + END, error("absolute path")),
        "pax_dotdot": (pax(record(b"path", b"../x")) + REPORT + END, error("'..' in a path")),
        "gnu_dotdot": (gnu_long(b"../x\0") + REPORT + END, error("'..' in a path")),
        "drive": (file(b"C:/x") + END, error("absolute path")),
        "empty_name": (file(b"") + END, error("empty path")),
        "empty_segment": (file(b"a//b") + END, error("empty segment in a path")),
        "bytes_behind_nul": (file(b"a.json\0.exe") + END, error("NUL in a path")),
        "nul_in_pax_path": (pax(record(b"path", b"a\0b")) + REPORT + END, error("NUL in a path")),
        "nul_in_long_name": (gnu_long(b"a\0b") + REPORT + END, error("NUL in a path")),
        "c1_control": (file("a\u009b31m".encode()) + END, error("control character in a path")),
        "right_to_left": (file("a\u202egnp.exe".encode()) + END, error("character that changes direction")),
        "surrogate": (file(b"a\xed\xa0\x80") + END, error("path is not UTF-8")),
        "overlong_slash": (file(b"..\xc0\xafx") + END, error("path is not UTF-8")),
        "file_with_slash": (file(b"a/") + END, error("name of a file ends with '/'")),
        "segment_too_long": (pax(record(b"path", b"a" * 256)) + REPORT + END, error("segment over 255 bytes")),
        "folder_twice": (folder(b"a/") + folder(b"a/") + END, error("name twice")),
        "file_and_folder": (file(b"a") + folder(b"a/") + END, error("name twice, file and folder")),
        "through_a_file": (file(b"a") + file(b"a/b") + END, error("path through a file")),
        "folders_by_case": (file(b"B/x") + file(b"b/y") + END, error("names that differ in case only")),
        "case_beyond_ascii": (file("stra\u00dfe".encode()) + file(b"STRASSE") + END,
                              error("names that differ in case only")),
        "marks_in_two_orders": (file("a\u0323\u0307".encode()) + file("a\u0307\u0323".encode()) + END,
                                error("names equal after Unicode normalisation")),
        "hangul": (file("\ud55c".encode()) + file("\u1112\u1161\u11ab".encode()) + END,
                   error("names equal after Unicode normalisation")),
    }),
    "archive-entries": ("Entries that are no file, or that say two things about themselves.", {
        "contiguous": (file(b"a", type=b"7") + END, error("not a regular file or directory")),
        "gnu_sparse": (file(b"a", type=b"S", magic=b"ustar  \0") + END, error("sparse file")),
        "pax_sparse": (pax(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.name", b"b")) + REPORT + END,
                       error("sparse file")),
        "block_device": (file(b"a", b"", type=b"4") + END, error("device")),
        "vendor_type": (file(b"a", type=b"Z") + END, error("entry type")),
        "link_with_size": (header(b"a", 1 << 30, type=b"2", link=b"b") + END, error("link")),
        "link_target_on_a_file": (file(b"a", link=b"../b") + END, error("link target")),
        "linkpath_record": (pax(record(b"linkpath", b"../b")) + REPORT + END, error("link target in a pax record")),
        "long_link": (gnu_long(b"../b\0", b"K") + REPORT + END, error("link")),
        "folder_with_data": (file(b"a/", b"xx", type=b"5") + END, error("folder with data")),
        "prefix_in_a_gnu_header": (file(b"a", magic=b"ustar  \0", prefix=b"up") + END, error("bytes in fields")),
        "unknown_magic": (file(b"a", magic=b"ustar\x0009") + END, error("unknown kind of header")),
    }),
    "archive-sizes": ("Sizes that two readers take for two numbers.", {
        "base_256": (file(b"a", size_field=b"\x80" + bytes(10) + b"\x03") + END, error("size in base 256")),
        "negative_base_256": (file(b"a", size_field=b"\xff" * 12) + END, error("negative size")),
        "negative_octal": (file(b"a", size_field=b"-0000000003\0") + END, error("negative size")),
        "not_octal": (file(b"a", size_field=b"00000000009\0") + END, error("not in octal digits")),
        "blank": (file(b"a", b"", size_field=b" " * 12) + END, error("not in octal digits")),
        "digits_behind_nul": (file(b"a", size_field=b"3\0" + b"7" * 9 + b"\0") + END, error("not in octal digits")),
        "huge": (header(b"a", 0o77777777777) + END, error("ends inside an entry")),
        "pax_size_huge": (pax(record(b"size", b"9" * 18)) + REPORT + END, error("size differs from the header")),
        "pax_size_negative": (pax(record(b"size", b"-3")) + REPORT + END, error("negative size")),
        "pax_size_text": (pax(record(b"size", b"0x3")) + REPORT + END, error("size record is no number")),
        "pax_size_global": (pax(record(b"size", b"3"), b"g") + REPORT + END, error("size in a global header")),
    }),
    "archive-extension-headers": ("Extension headers that some readers skip and others obey.", {
        "two_pax": (pax(record(b"path", b"a")) + pax(record(b"path", b"b")) + REPORT + END,
                    error("two pax headers for one entry")),
        "two_long_names": (gnu_long(b"a\0") + gnu_long(b"b\0") + REPORT + END, error("two long names")),
        "pax_and_long_name": (pax(record(b"path", b"a")) + gnu_long(b"b\0") + REPORT + END, error("two long names")),
        "long_name_and_pax": (gnu_long(b"b\0") + pax(record(b"path", b"a")) + REPORT + END, error("two long names")),
        "without_entry": (REPORT + pax(record(b"path", b"a")) + END, error("extension header without its entry")),
        "global_between": (pax(record(b"mtime", b"1")) + pax(record(b"comment", b"x"), b"g") + REPORT + END,
                           error("global header between")),
        "empty_pax": (pax(b"") + REPORT + END, error("empty pax header")),
        "empty_path": (pax(record(b"path", b"")) + REPORT + END, error("empty path")),
        "length_too_long": (pax(b"99 path=a\n") + REPORT + END, error("malformed pax record")),
        "length_too_short": (pax(b"5 path=a\n") + REPORT + END, error("malformed pax record")),
        "length_leading_zero": (pax(b"010 path=a\n") + REPORT + END, error("malformed pax record")),
        "no_newline": (pax(b"9 path=aX") + REPORT + END, error("malformed pax record")),
        "charset": (pax(record(b"hdrcharset", b"BINARY")) + REPORT + END, error("another character set")),
        "unknown_record": (pax(record(b"realname", b"b")) + REPORT + END, error("unknown record")),
        "huge": (header(b"x", 1 << 21, type=b"x") + bytes(BLOCK) + REPORT + END, error("over 1 MiB")),
    }),
    "archive-ends": ("Archives cut off, or with something behind their end.", {
        "empty_file": (b"", error("archive is empty")),
        "only_end_mark": (END, error("archive is empty")),
        "no_end_mark": (GOOD, error("no end mark")),
        "one_zero_block": (GOOD + bytes(BLOCK), error("no end mark")),
        "zero_block_inside": (REPORT + bytes(BLOCK) + file(b"c") + END, error("data after the end, single zero block")),
        "garbage_behind": (GOOD + END + b"x", error("data after the end of the archive")),
        "garbage_behind_zeros": (GOOD + END + bytes(8 * BLOCK) + b"x" * BLOCK, error("data after the end")),
        "half_a_block_behind": (GOOD + END + bytes(100), error("ends inside a block")),
        "cut_in_header": (GOOD + REPORT[:300], error("ends inside a header")),
        "cut_in_data": (GOOD + REPORT[:514], error("ends inside an entry")),
        "cut_in_padding": (GOOD + REPORT[:-1], error("ends inside an entry")),
        "gzip": (b"\x1f\x8b\x08" + bytes(range(256)) * 4, error("not a plain tar archive")),
        "text": (b"hello\n" * 200, error("not a plain tar archive")),
        "signed_checksum": (file("é".encode(), sum_change=-512) + END, error("header checksum")),
    }),
}


def main():
    root = pathlib.Path(sys.argv[1])
    for number, (name, (happened, inputs)) in enumerate(CASES.items(), 1):
        case_id = f"s{number:02}-{name}"
        case = root / case_id
        case.mkdir(parents=True, exist_ok=True)
        for old in case.glob("input.*"):
            old.unlink()
        for key, (data, _) in inputs.items():
            (case / f"input.{key}.tar").write_bytes(data)
        doc = {"id": case_id, "kind": "archive", "source": "tests/tools/make_archive_cases.py",
               "what_happened": happened, "input": {f"input.{key}.tar": "archive" for key in inputs},
               "expect": {"each": {key: expect for key, (_, expect) in inputs.items()}}}
        (case / "case.json").write_text(json.dumps(doc, indent=1) + "\n", encoding="utf-8")
    return 0


sys.exit(main())
