#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama-server for machines without one: takes the options of llama.cpp's llama-server that plans use and
opens llama.cpp's own HTTP server through the xllamacpp package. Exit: 0 after SIGTERM or SIGINT, 1 when the
model cannot be loaded or the port is taken, 2 on a wrong option."""

import argparse
import os
import signal
import socket
import sys


def parse_options(argv):
    ap = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    ap.add_argument("-m", "--model", required=True, metavar="FILE", help="GGUF file")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=8080)
    ap.add_argument("-c", "--ctx-size", type=int, default=4096, metavar="TOKENS")
    ap.add_argument("-np", "--parallel", type=int, default=1, metavar="SLOTS")
    ap.add_argument("-t", "--threads", type=int, default=1)
    ap.add_argument("-a", "--alias", default=None, metavar="NAME", help="model name in answers")
    ap.add_argument("-s", "--seed", type=int, default=1)
    ap.add_argument("--metrics", action="store_true", help="serve /metrics")
    ap.add_argument("--version", action="version", version="xllamacpp " + engine_version())
    return ap.parse_args(argv)


def engine_version():
    from importlib import metadata

    try:
        return metadata.version("xllamacpp")
    except metadata.PackageNotFoundError:
        return "unknown"


def fail(text):
    print("llama-server: " + text, file=sys.stderr, flush=True)
    os._exit(1)


def check_port(host, port):
    """llama.cpp itself may share a port; two engines behind one port would make every figure wrong."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as e:
            fail("cannot listen on %s:%d: %s" % (host, port, e.strerror))


def params_of(opt):
    from xllamacpp import CommonParams

    p = CommonParams()
    p.model.path = opt.model
    p.hostnames = [opt.host]
    p.port = opt.port
    p.n_ctx = opt.ctx_size
    p.n_parallel = opt.parallel
    p.cpuparams.n_threads = opt.threads
    p.cpuparams_batch.n_threads = opt.threads
    p.sampling.seed = opt.seed
    p.endpoint_metrics = opt.metrics
    p.endpoint_slots = True
    p.endpoint_props = True
    p.use_jinja = True
    if opt.alias:
        p.model_alias = {opt.alias}
    return p


def serve_until_told(params):
    from xllamacpp import Server

    try:
        server = Server(params)
    except RuntimeError as e:
        fail("cannot serve %s: %s" % (params.model.path, e))
    # Any thread may get the signal: the byte in the pipe wakes this one. Until here SIGTERM has its default
    # effect, so that a long load ends at once too.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    print("llama-server: listening on", server.listening_address, file=sys.stderr, flush=True)
    os.read(reader, 1)
    # No orderly teardown: a request in flight must not hold up the end.
    os._exit(0)


def main(argv):
    opt = parse_options(argv)
    if not os.path.isfile(opt.model):
        fail("no model file %s" % opt.model)
    check_port(opt.host, opt.port)
    serve_until_told(params_of(opt))


main(sys.argv[1:])
