# SPDX-License-Identifier: Apache-2.0
"""`proofmark fit`: real GGUF and safetensors headers, plans of several engines, the exit codes."""

import copy
import json
import os
import struct

import helper
import trial
from helper import Folder, check, expect_error, run

LAYERS, HEADS_KV, HEAD_DIM, EMBEDDING = 2, 2, 64, 256
TOKEN_BYTES = 2 * LAYERS * HEADS_KV * HEAD_DIM * 2


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(path):
    """A llama of two layers with a matrix and a vector each, an embedding and no output."""
    keys = [("general.architecture", "llama"), ("llama.block_count", LAYERS), ("llama.context_length", 4096),
            ("llama.embedding_length", EMBEDDING), ("llama.attention.head_count", 4),
            ("llama.attention.head_count_kv", HEADS_KV)]
    tensors = [("token_embd.weight", [EMBEDDING, 100])]
    for i in range(LAYERS):
        tensors += [("blk.%d.attn_q.weight" % i, [EMBEDDING, EMBEDDING]), ("blk.%d.attn_norm.weight" % i, [EMBEDDING])]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys:
        head += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<II", 4, value))
    at = 0
    for name, dims in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        head += struct.pack("<IQ", 0, at)
        n = 4
        for d in dims:
            n *= d
        at += n
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + b"\0" * at)
    return at


def safetensors(folder):
    names = ["model.layers.%d.q.weight" % i for i in range(LAYERS)]
    header = json.dumps({n: {"dtype": "BF16", "shape": [64, 64], "data_offsets": [i * 8192, (i + 1) * 8192]}
                         for i, n in enumerate(names)}).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + b"\0" * 8192 * LAYERS)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": EMBEDDING,
                   "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": HEADS_KV,
                   "head_dim": HEAD_DIM, "intermediate_size": 512, "vocab_size": 100, "max_position_embeddings": 4096,
                   "torch_dtype": "bfloat16"}, f)


def candidate(kind="llamacpp", args=(), backend="cuda", **more):
    return {"name": "one", "backend": backend, "arch": {"cuda": "sm_90", "cpu": "x86-64"}[backend],
            "engine": dict({"kind": kind, "version": "1.0", "launch": {"process": {"program": "./engine"}},
                            "args": ["--port", "{port}", *args]}, **more.pop("engine", {})), **more}


def plan_of(folder, *candidates, files=("tiny.gguf",), edit=None):
    plan = copy.deepcopy(trial.PLAN)
    plan["model"]["files"] = [{"path": f, "sha256": "0" * 64} for f in files]
    plan["candidates"] = list(candidates)
    if edit:
        edit(plan)
    path = os.path.join(folder, "plan.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(plan, f)
    return path


def fit(path, *args, code=0):
    r = run("fit", path, "--json", *args)
    check(r.code == code, "want %d: %r" % (code, r))
    return json.loads(r.out)["candidates"]


def test_numbers_come_from_the_tensors_and_the_arguments():
    with Folder() as d:
        weights = gguf(os.path.join(d, "tiny.gguf"))
        k = fit(plan_of(d, candidate(args=["-c", "8192", "-np", "4"])), "--gpu", "H100")[0]
        check(k["answer"] == "fits" and k["memory_bytes"] == 80 << 30, k)
        check(k["weights_bytes"] == weights and k["kv_token_device_bytes"] == TOKEN_BYTES, k)
        load = k["loads"][0]
        check(load["context_tok"] == 24 and load["concurrency"] == 2, load)
        check(load["kv_taken_bytes"] == 8192 * TOKEN_BYTES, load)
        check(load["kv_asked_bytes"] == 2 * 256 * TOKEN_BYTES, "whole blocks of 256 tokens: %r" % load)
        check(load["least_bytes"] == weights + 8192 * TOKEN_BYTES + k["overhead_least_bytes"], load)
        check(load["largest_context_tok"] == 4096, "the model's own context is the end: %r" % load)
        check(k["overhead_source"].startswith("assumed"), k)


def test_the_kv_type_of_keys_and_values_counts():
    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        for args, want in ((["-ctk", "q8_0", "-ctv", "q4_0"], LAYERS * HEADS_KV * (68 + 36)),
                           (["--cache-type-k=f32"], LAYERS * HEADS_KV * HEAD_DIM * 6)):
            k = fit(plan_of(d, candidate(args=["-c", "1024", *args])), "--gpu", "80GiB")[0]
            check(k["kv_token_device_bytes"] == want, k)
        k = fit(plan_of(d, candidate(args=["-c", "1024", "-ctk", "q3_x"])), "--gpu", "80GiB", code=3)[0]
        check(k["answer"] == "unknown" and k["kv_token_device_bytes"] is None, k)
        check("q3_x" in k["loads"][0]["reason"] and k["loads"][0]["least_bytes"] is None, k)


def test_each_answer_has_its_exit_code():
    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        args = ["-c", "1024", "-np", "2"]
        for memory, code, answer in (("80GiB", 0, "fits"), ("1GiB", 3, "tight"), ("100MiB", 1, "no")):
            k = fit(plan_of(d, candidate(args=args)), "--gpu", memory, code=code)[0]
            check(k["answer"] == answer, k)
        k = fit(plan_of(d, candidate(args=args)), code=3)[0]
        check(k["memory_bytes"] is None and "--gpu" in k["loads"][0]["reason"], k)
        both = [candidate(args=args), dict(candidate(args=["-c", "0", "-md", "draft.gguf"]), name="two")]
        answers = [k["answer"] for k in fit(plan_of(d, *both), "--gpu", "80GiB", code=3)]
        check(answers == ["fits", "unknown"], answers)
        answers = [k["answer"] for k in fit(plan_of(d, *both), "--gpu", "1MiB", code=1)]
        check(answers == ["no", "no"], "what is not counted cannot make it fit: %r" % answers)
        check(len(fit(plan_of(d, *both), "--gpu", "80GiB", "--candidate", "one")) == 1, "one candidate")


def test_a_slot_that_holds_less_than_a_request_is_a_no():
    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        load = fit(plan_of(d, candidate(args=["-c", "64", "-np", "4"])), "--gpu", "80GiB", code=1)[0]["loads"][0]
        check("16 tokens" in load["reason"], load)
        load = fit(plan_of(d, candidate(args=["-c", "40", "-np", "2", "-kvu"])), "--gpu", "80GiB", code=1)[0]["loads"][0]
        check("40 tokens" in load["reason"], load)


def test_cpu_candidates_are_held_against_the_memory():
    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        path = plan_of(d, candidate(args=["-c", "1024"], backend="cpu"))
        check(fit(path, "--memory", "64GiB")[0]["memory_source"] == "--memory", "source")
        check(fit(path, "--memory", "1MiB", code=1)[0]["gpus"] is None, "no GPU")
        r = run("fit", path, "--json")
        check("MemAvailable" in json.loads(r.out)["candidates"][0]["memory_source"], r)


def test_ranks_and_expectations_of_the_plan_are_used():
    with Folder() as d:
        safetensors(d)
        expect = {"gpu": "any", "gpu_count": 2, "gpu_memory_gib": 40}
        files = ("model.safetensors", "config.json")
        k = fit(plan_of(d, candidate("vllm", ["--tensor-parallel-size", "2"], expect=expect), files=files))[0]
        check(k["gpus"] == 2 and k["memory_bytes"] == 40 << 30 and k["tensor_ranks"] == 2, k)
        check(k["weights_device_bytes"] == 8192 and k["kv_token_device_bytes"] == TOKEN_BYTES // 2, k)
        check(k["usable_share"] == 0.9 and "assumed" in k["usable_source"], k)
        check(k["loads"][0]["kv_asked_bytes"] == 2 * 32 * TOKEN_BYTES // 2, "blocks of 16 tokens: %r" % k)
        k = fit(plan_of(d, candidate("vllm", ["--kv-cache-dtype", "fp8", "--gpu-memory-utilization=0.5"], expect=expect,
                                     engine={"parallel": {"pipeline": 2}}), files=files))[0]
        check(k["pipeline_ranks"] == 2 and k["kv_token_device_bytes"] == TOKEN_BYTES // 4, k)
        check(k["usable_share"] == 0.5 and k["usable_source"] == "--gpu-memory-utilization", k)
        k = fit(plan_of(d, candidate("vllm", ["-tp", "4"], expect=expect), files=files), code=1)[0]
        check("4 ranks" in k["loads"][0]["reason"] and "2 GPUs" in k["loads"][0]["reason"], k)


def test_conversations_and_mixes_count_their_longest_request():
    def talk(plan):
        plan["workloads"][0]["conversation"] = {"turns": 3, "turn_prompt_tok": 10}
        plan["workloads"][0]["requests"] = 42

    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        load = fit(plan_of(d, candidate(args=["-c", "1024"]), edit=talk), "--gpu", "80GiB")[0]["loads"][0]
        check(load["context_tok"] == 16 + 8 + 2 * (10 + 8), load)


def test_what_cannot_be_modelled_is_unknown_with_the_reason():
    with Folder() as d:
        gguf(os.path.join(d, "tiny.gguf"))
        for kind, args, word in (("llamacpp", ["-c", "64", "-sm", "row"], "-sm row"),
                                 ("llamacpp", ["-c", "64k"], "64k"),
                                 ("llamacpp", ["-c", "64", "-ot", "x=CPU"], "-ot"),
                                 ("ollama", [], "Ollama"), ("trtllm", [], "built engine")):
            load = fit(plan_of(d, candidate(kind, args)), "--gpu", "80GiB", code=3)[0]["loads"][0]
            check(load["answer"] == "unknown" and word in load["reason"], load)
            check(load["largest_context_tok"] is None, load)


def test_the_fixtures_own_files_are_read():
    for name, code, token_bytes in (("plain", 0, 4096), ("hybrid", 0, 1024), ("latent", 0, 3456),
                                    ("no_blocks", 3, None)):
        with Folder() as d:
            file = os.path.join(helper.ROOT, "fixtures", "cases", "422-kv-gguf", "input.%s.gguf" % name)
            k = fit(plan_of(d, candidate(args=["-c", "1024"]), files=(file,)), "--gpu", "80GiB", code=code)[0]
            check(k["kv_token_device_bytes"] == token_bytes, "%s: %r" % (name, k))


def test_missing_and_damaged_files_and_bad_words_are_errors():
    with Folder() as d:
        path = plan_of(d, candidate())
        expect_error(run("fit", path), 5, "tiny.gguf is not here")
        with open(os.path.join(d, "tiny.gguf"), "wb") as f:
            f.write(b"GGUF\3\0\0\0")
        expect_error(run("fit", path), 5, "tiny.gguf")
        expect_error(run("fit", path, "--gpu", "H300"), 2, "H100")
        expect_error(run("fit", path, "--memory", "much"), 2, "--memory")
        expect_error(run("fit", path, "--gpus", "0"), 2, "--gpus")
        expect_error(run("fit", path, "--candidate", "nobody"), 2, "nobody")
        expect_error(run("fit", os.path.join(d, "none.json")), 2, "none.json")
        expect_error(run("fit", plan_of(d, candidate(), files=("config.json",))), 5, "no .gguf")


helper.main(globals())
