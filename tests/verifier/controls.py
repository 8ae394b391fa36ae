# SPDX-License-Identifier: Apache-2.0
"""Whether an answer to a control passes, after the part Controls of proofmark-bundle(5)."""

import ctypes
import ctypes.util
import json
import re
import zlib

RANGES = """
Latin 41-5A 61-7A AA BA C0-D6 D8-F6 F8-2B8 1E00-1EFF 2C60-2C7F A722-A7FF FB00-FB06 FF21-FF3A FF41-FF5A
Greek 370-373 376-377 37B-37D 386 388-3FF 1F00-1FFC
Cyrillic 400-481 48A-52F 1C80-1C88 2DE0-2DFF A640-A66E
Armenian 531-556 561-587
Hebrew 5D0-5EA FB1D-FB4F
Arabic 620-64A 66E-6D3 750-77F FB50-FDFB FE70-FEFC
Syriac 710-72F
Thaana 780-7A5
Devanagari 904-939 958-961
Bengali 985-9B9
Gurmukhi A05-A39
Gujarati A85-AB9
Oriya B05-B39
Tamil B85-BB9
Telugu C05-C39
Kannada C85-CB9
Malayalam D05-D3A
Sinhala D85-DC6
Thai E01-E30
Lao E81-EB0
Tibetan F40-F6C
Myanmar 1000-102A
Georgian 10A0-10FF 1C90-1CBF
Hangul 1100-11FF 3131-318E AC00-D7A3
Ethiopic 1200-135A
Khmer 1780-17B3
Mongolian 1820-1878
Han 3005-3007 3400-4DBF 4E00-9FFF F900-FAFF 20000-3FFFF
Hiragana 3041-3096 30A1-30FA FF66-FF9D
Bopomofo 3105-312F
another 10000-1D3FF 1E000-1EFFF
"""
SCRIPTS = [(line.split()[0], [tuple(int(x, 16) for x in (r.split("-") * 2)[:2]) for r in line.split()[1:]])
           for line in RANGES.strip().split("\n")]
TOKENS = ("<unk> <s> </s> <pad> <bos> <eos> <mask> [UNK] [PAD] [CLS] [SEP] [MASK] [INST] [/INST] <<SYS>> "
          "<start_of_turn> <end_of_turn>").split()
TOKEN_FORMS = (r"<[|\uff5c][^\s<>|\uff5c][^\s<>]*[|\uff5c]>", r"<(?:reserved|unused|extra_id_)[^\s<>]+>",
               r"<0x[^\s<>]+>", r"\[control_[^\s\[\]]+\]", r"<(?:SPECIAL|special)_[^\s<>]+>")


def script_of(c):
    o = ord(c)
    return next((name for name, ranges in SCRIPTS if any(a <= o <= b for a, b in ranges)), None)


def scripts_of(text):
    return {s for s in map(script_of, text) if s}


def found(pattern, text):
    """PCRE2 with UTF and UCP, by its own library."""
    lib = ctypes.CDLL(ctypes.util.find_library("pcre2-8") or "libpcre2-8.so.0")
    for name in ("pcre2_compile_8", "pcre2_match_data_create_from_pattern_8"):
        getattr(lib, name).restype = ctypes.c_void_p
    p, t = pattern.encode(), text.encode()
    number, offset, utf, ucp = ctypes.c_int(), ctypes.c_size_t(), 0x00080000, 0x00020000
    code = lib.pcre2_compile_8(p, ctypes.c_size_t(len(p)), ctypes.c_uint32(utf | ucp), ctypes.byref(number),
                               ctypes.byref(offset), None)
    assert code, "pattern %r" % pattern
    data = lib.pcre2_match_data_create_from_pattern_8(ctypes.c_void_p(code), None)
    rc = lib.pcre2_match_8(ctypes.c_void_p(code), t, ctypes.c_size_t(len(t)), ctypes.c_size_t(0), ctypes.c_uint32(0),
                           ctypes.c_void_p(data), None)
    lib.pcre2_match_data_free_8(ctypes.c_void_p(data))
    lib.pcre2_code_free_8(ctypes.c_void_p(code))
    return rc >= 0


def expected_scripts(control):
    """None = every script."""
    prompt = control.get("prompt") or "".join(m["content"] for m in control.get("messages", []))
    out = scripts_of(prompt)
    if not out:
        return None
    out |= scripts_of(control.get("exact", ""))
    for p in control.get("must_match", []):
        out |= scripts_of(p)
        for name in re.findall(r"\\p\{([^}]*)\}", p):
            if re.fullmatch("L[a-z&]?", name):
                return None
            out.add("Hiragana" if name == "Katakana" else name)
    return out | {"Han"} if "Hiragana" in out else out


def surface_is_bad(text, control):
    if not text.strip(" \t\r\n\f\v"):
        return True
    if re.search(r"(.)\1{23}", text, re.S) or (len(text) >= 64 and len(set(text)) <= 8):
        return True
    raw = text.encode()
    if len(zlib.compress(raw, 6)) < 0.20 * len(raw):
        return True
    words = [w for w in re.split("[ \t\r\n\f\v]+", text) if w]
    grams = [tuple(words[i:i + 4]) for i in range(len(words) - 3)]
    if grams and 1 - len(set(grams)) / len(grams) > 0.5:
        return True
    if any(c == "\ufffd" or (ord(c) < 32 and c not in "\n\r\t") or 0x7F <= ord(c) <= 0x9F for c in text):
        return True
    if any(t in text for t in TOKENS):
        return True
    if any(len(m.group().encode()) < 64 for form in TOKEN_FORMS for m in re.finditer(form, text)):
        return True
    expected = expected_scripts(control)
    return expected is not None and bool(scripts_of(text) - expected)


def is_json(text):
    text = text.strip()
    m = re.fullmatch(r"```\w*\s*(.*?)\s*```", text, re.S)
    try:
        json.loads(m.group(1) if m else text)
        return True
    except ValueError:
        return False


def judge(control, answer, reference):
    """pass, unclear or fail"""
    text, tok = answer["text"] or "", answer["output_tok"]
    if answer["outcome"] not in ("ok", "empty") or len(text.encode()) > 4 << 20:
        return "unclear"
    if "exact" in control:
        bad = text != control["exact"]
    else:
        bad = surface_is_bad(text, control)
    bad = bad or not all(found(p, text) for p in control.get("must_match", []))
    bad = bad or any(found(p, text) for p in control.get("must_not_match", []))
    bad = bad or (control.get("json") and not is_json(text))
    bad = bad or (control.get("same_as_reference") and reference is not None and text != reference)
    asked = "min_tok" in control or "answer_max_tok" in control
    if asked and tok is not None:
        bad = bad or not control.get("min_tok", 0) <= tok <= control.get("answer_max_tok", 2**53)
    return "fail" if bad else "unclear" if asked and tok is None else "pass"


def results(ev):
    """[(answer, pass | unclear | fail)] of answers to controls of the plan"""
    by_id, first, out = {c["id"]: c for c in ev.plan.get("controls", [])}, {}, []
    for a in ev.answers:
        if a["outcome"] == "ok":
            first.setdefault(a["id"], a["text"] or "")
        if a["id"] in by_id:
            out.append((a, judge(by_id[a["id"]], a, first.get(a["id"]))))
    return out
