# SPDX-License-Identifier: Apache-2.0
"""The bundle as proofmark-bundle(5) describes it, read and written without any code of the product."""

import base64
import ctypes
import ctypes.util
import hashlib
import json
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DERIVED = ("verdict.json", "report.html", "junit.xml", "summary.txt")
TYPE = "application/vnd.in-toto+json"


class NotGenuine(Exception):
    """The bundle is not what it claims; the text says why."""


def need(condition, text):
    if not condition:
        raise NotGenuine(text)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def header(path, size):
    h = bytearray(512)
    h[0:len(path)] = path.encode()
    h[100:108] = b"000644 \0"
    h[108:116] = h[116:124] = b"000000 \0"
    h[124:136] = b"%011o " % size
    h[136:148] = b"00000000000 "
    h[148:156] = b"        "
    h[156:157] = b"0"
    h[257:265] = b"ustar\x0000"
    h[329:337] = h[337:345] = b"000000 \0"
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def pae(body):
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(body), body)


def envelope(body, key):
    public = key.public_key().public_bytes(serialization.Encoding.DER,
                                           serialization.PublicFormat.SubjectPublicKeyInfo)
    b64 = [base64.b64encode(x).decode() for x in (body, key.sign(pae(body)))]
    return ('{"payload":"%s","payloadType":"%s","signatures":[{"keyid":"%s","sig":"%s"}]}\n'
            % (b64[0], TYPE, sha256(public), b64[1])).encode()


def evidence_root(raw):
    lines = ["%s  %s\n" % (sha256(raw[name]), name) for name in sorted(raw, key=str.encode) if name not in DERIVED]
    return sha256("".join(lines).encode())


def manifest_of(files):
    """Nothing packed: one of the forms that the page allows."""
    members = []
    for name in sorted(files, key=lambda n: ("run/" + n).encode()):
        data = files[name]
        members.append({"bytes": len(data), "class": "derived" if name in DERIVED else "raw", "encoding": None,
                        "path": "run/" + name, "raw_bytes": len(data), "raw_sha256": sha256(data),
                        "sha256": sha256(data)})
    doc = {"evidence_root": evidence_root(files), "members": members, "schema_version": 1}
    return (json.dumps(doc, indent=1) + "\n").encode()


def write(files, statement, key):
    """A bundle of `files` with the statement's digests brought up to date, signed by `key`."""
    manifest, root = manifest_of(files), evidence_root(files)
    for s in statement["subject"]:
        if s["annotations"]["role"] == "manifest":
            s["digest"]["sha256"] = sha256(manifest)
        elif s["annotations"]["role"] == "evidence-root":
            s["digest"]["sha256"] = root
    p = statement["predicate"]
    p["evidence_root"] = root
    for key_name, name in (("plan_sha256", "plan.json"), ("lock_sha256", "plan.lock.json"),
                           ("verdict_sha256", "verdict.json")):
        p[key_name] = sha256(files[name]) if name in files else None
    body = json.dumps(statement, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    members = [("attestation.dsse.json", envelope(body, key)), ("manifest.json", manifest)]
    members += [("run/" + n, files[n]) for n in sorted(files, key=lambda n: ("run/" + n).encode())]
    out = b"".join(header(p_, len(d)) + d + b"\0" * (-len(d) % 512) for p_, d in members)
    return out + b"\0" * 1024


def unzstd(data, size):
    lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    n = lib.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    need(n == size, "a packed member does not unpack to its size")
    return out.raw


def opened(text, key):
    """The body of an envelope in its one form, signed by this key."""
    m = re.fullmatch(rb'\{"payload":"([A-Za-z0-9+/=]+)","payloadType":"%s","signatures":\[\{"keyid":"([0-9a-f]{64})",'
                     rb'"sig":"([A-Za-z0-9+/=]+)"\}\]\}\n' % re.escape(TYPE.encode()), text)
    need(m, "envelope is not in its one form")
    body, sig = (base64.b64decode(m.group(i), validate=True) for i in (1, 3))
    need(all(base64.b64encode(x) == m.group(i) for x, i in ((body, 1), (sig, 3))), "spare bits of base64")
    public = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    need(m.group(2).decode() == sha256(public), "keyid is not of this key")
    try:
        key.verify(sig, pae(body))
    except InvalidSignature:
        raise NotGenuine("signature is not by this key") from None
    return body


def check_manifest(text, doc):
    """Its one form and its limits."""
    keys = ["bytes", "class", "encoding", "path", "raw_bytes", "raw_sha256", "sha256"]
    need(text == (json.dumps(doc, indent=1, ensure_ascii=False) + "\n").encode(), "manifest is not in its one form")
    need(list(doc) == ["evidence_root", "members", "schema_version"] and doc["schema_version"] == 1
         and 1 <= len(doc["members"]) <= 4096, "manifest of another shape")
    names = []
    for m in doc["members"]:
        need(list(m) == keys and re.fullmatch(r"run/[a-z0-9_][a-z0-9._-]*", m["path"]), "a member of another shape")
        packed = m["encoding"] == "zst"
        need(packed == m["path"].endswith(".zst") and m["encoding"] in (None, "zst"), "%s: encoding" % m["path"])
        names.append(m["path"][4:-4] if packed else m["path"][4:])
        need(m["class"] == ("derived" if names[-1] in DERIVED else "raw"), "%s: class" % m["path"])
        need(packed or (m["bytes"], m["sha256"]) == (m["raw_bytes"], m["raw_sha256"]), "%s: plain" % m["path"])
        need(m["raw_bytes"] <= 4 << 30 and (not packed or m["raw_bytes"] <= max(1 << 20, 1000 * m["bytes"])),
             "%s: too large" % m["path"])
    paths = [m["path"].encode() for m in doc["members"]]
    need(paths == sorted(paths) and len(set(names)) == len(names), "order of members, or one twice")
    need(sum(m["raw_bytes"] for m in doc["members"]) <= 16 << 30, "too large")


def take(data, at, path):
    """The member that has to stand at `at`: its data and where the next one begins."""
    need(data[at + 124:at + 136][11:] == b" ", "%s: no header" % path)
    size = int(data[at + 124:at + 135], 8)
    need(data[at:at + 512] == header(path, size), "%s: header is not the only possible one" % path)
    body, end = data[at + 512:at + 512 + size], at + 512 + size + (-size % 512)
    need(size <= 4 << 20 or path.startswith("run/"), "%s: too large" % path)
    need(len(body) == size and not any(data[at + 512 + size:end]), "%s: cut, or padding is not zero" % path)
    return body, end


def read(data, public_pem):
    """(statement, {name: bytes}) of a proven bundle, or NotGenuine."""
    key = serialization.load_pem_public_key(public_pem)
    need(isinstance(key, Ed25519PublicKey), "this reader knows Ed25519 only")
    text, at = take(data, 0, "attestation.dsse.json")
    body = opened(text, key)
    statement = json.loads(body)
    need(statement["_type"] == "https://in-toto.io/Statement/v1"
         and statement["predicateType"] == "https://proofmark.dev/acceptance/v1", "statement of another kind")
    subject = {s["annotations"]["role"]: s["digest"]["sha256"] for s in statement["subject"]}
    text, at = take(data, at, "manifest.json")
    need(sha256(text) == subject["manifest"], "manifest.json: not the signed one")
    manifest = json.loads(text)
    check_manifest(text, manifest)
    files = {}
    for m in manifest["members"]:
        need(int(data[at + 124:at + 135], 8) == m["bytes"], "%s: size is not the manifest's" % m["path"])
        packed, at = take(data, at, m["path"])
        need(sha256(packed) == m["sha256"], "%s: hash differs" % m["path"])
        name = m["path"][4:]
        if m["encoding"] == "zst":
            packed, name = unzstd(packed, m["raw_bytes"]), name[:-4]
        need(sha256(packed) == m["raw_sha256"] and len(packed) == m["raw_bytes"], "%s: unpacked hash differs" % name)
        need(name not in files, "%s: twice" % name)
        files[name] = packed
    need(data[at:] == b"\0" * 1024, "the end is not 1024 zero bytes")
    root = evidence_root(files)
    need(root == manifest["evidence_root"] == subject["evidence-root"] == statement["predicate"]["evidence_root"],
         "evidence root differs")
    for key_name, name in (("plan_sha256", "plan.json"), ("lock_sha256", "plan.lock.json"),
                           ("verdict_sha256", "verdict.json")):
        want = sha256(files[name]) if name in files else None
        need(statement["predicate"][key_name] == want, "%s of the predicate differs" % key_name)
    return statement, files
