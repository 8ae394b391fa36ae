#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_securesystemslib.py MKBUNDLE PUBLIC_KEY: an independent implementation of DSSE verifies our envelope (TAP).
Never skips: without the module the test fails (tests/run.sh installs it)."""
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

VECTOR_PAE = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def load_key(path):
    """The library's key and the SHA-256 of the SubjectPublicKeyInfo."""
    from cryptography.hazmat.primitives import serialization as s
    from securesystemslib.signer import SSlibKey

    text = path.read_bytes()
    public = s.load_pem_public_key(text[text.index(b"-----BEGIN"):])
    spki = public.public_bytes(s.Encoding.DER, s.PublicFormat.SubjectPublicKeyInfo)
    return SSlibKey.from_crypto(public), hashlib.sha256(spki).hexdigest()


def make_bundle(mkbundle, folder):
    out = folder / "a.proofmark"
    subprocess.run([mkbundle, str(folder / "run"), str(out), "5000"], check=True)
    return out


def read_members(path):
    with tarfile.open(path, "r:") as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def envelope_of(text):
    """The library's envelope, and the same as a plain tree (from_dict takes the tree it gets apart)."""
    from securesystemslib.dsse import Envelope

    return Envelope.from_dict(json.loads(text)), json.loads(text)


def check_envelope(members, key, spki_sha256):
    from securesystemslib.dsse import Envelope

    envelope, doc = envelope_of(members["attestation.dsse.json"])
    signature = doc["signatures"][0]
    key.keyid = signature["keyid"]
    envelope.verify([key], 1)
    assert signature["keyid"] == spki_sha256, "keyid is not SHA-256 of the SubjectPublicKeyInfo"
    assert Envelope(b"hello world", "http://example.com/HelloWorld", {}).pae() == VECTOR_PAE
    return envelope


def check_changed(members, key):
    from securesystemslib.exceptions import VerificationError

    envelope, _ = envelope_of(members["attestation.dsse.json"])
    envelope.payload = envelope.payload[:-1] + b" "
    try:
        envelope.verify([key], 1)
    except VerificationError:
        return
    raise AssertionError("a changed payload verified")


def check_statement(members, envelope):
    statement = json.loads(envelope.payload)
    assert envelope.payload_type == "application/vnd.in-toto+json"
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    subjects = {s["annotations"]["role"]: s["digest"]["sha256"] for s in statement["subject"]}
    assert subjects["manifest"] == hashlib.sha256(members["manifest.json"]).hexdigest()
    manifest = json.loads(members["manifest.json"])
    lines = []
    for m in manifest["members"]:
        assert hashlib.sha256(members[m["path"]]).hexdigest() == m["sha256"], m["path"]
        name = m["path"].removeprefix("run/")
        if m["class"] == "raw":
            lines.append((name.removesuffix(".zst") if m["encoding"] else name, m["raw_sha256"]))
    root = hashlib.sha256("".join(f"{h}  {n}\n" for n, h in sorted(lines)).encode()).hexdigest()
    assert root == manifest["evidence_root"] == subjects["evidence-root"]
    assert ["attestation.dsse.json", "manifest.json"] + [m["path"] for m in manifest["members"]] == list(members)


def main():
    mkbundle, public_key = sys.argv[1], pathlib.Path(sys.argv[2])
    state, failed = {}, 0
    print("1..4")
    with tempfile.TemporaryDirectory() as folder:
        steps = [
            ("python reads the bundle", lambda: state.update(
                members=read_members(make_bundle(mkbundle, pathlib.Path(folder))), key=load_key(public_key))),
            ("securesystemslib verifies the envelope", lambda: state.update(
                envelope=check_envelope(state["members"], *state["key"]))),
            ("securesystemslib refuses a changed one", lambda: check_changed(state["members"], state["key"][0])),
            ("statement, manifest and root agree", lambda: check_statement(state["members"], state["envelope"])),
        ]
        for i, (name, step) in enumerate(steps, 1):
            try:
                step()
                print(f"ok {i} - {name}")
            except Exception as why:  # each failure is told, the next step still runs
                failed += 1
                print(f"not ok {i} - {name}\n# {type(why).__name__}: {why}")
    return 1 if failed else 0


sys.exit(main())
