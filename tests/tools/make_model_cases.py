#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_model_cases.py FOLDER: writes the cases of kinds model-file, model-config and kv-size (4xx). What is
expected stands here, written by hand from the formats' rules, never taken from the program."""
import json
import pathlib
import struct
import sys

STRING, ARRAY, U32, U16, I32, F32, BOOL, U64 = 8, 9, 4, 2, 5, 6, 7, 10
PACK = {U32: "I", U16: "H", I32: "i", F32: "f", BOOL: "?", U64: "Q", 0: "B"}


def gguf(values=(), tensors=(), version=3, big=False, n_values=None, n_tensors=None, align=32, offsets=None, cut=0,
         extra=b""):
    """values: (key, type, value) or (key, (ARRAY, type), list); tensors: (name, dims, type, bytes)."""
    order = ">" if big else "<"

    def text(s):
        raw = s if isinstance(s, bytes) else s.encode()
        return struct.pack(order + "Q", len(raw)) + raw

    out = b"GGUF" + struct.pack(order + "IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                len(values) if n_values is None else n_values)
    for key, kind, value in values:
        out += text(key)
        if isinstance(kind, tuple):
            out += struct.pack(order + "IIQ", ARRAY, kind[1], len(value))
            for v in value:
                out += text(v) if kind[1] == STRING else struct.pack(order + PACK[kind[1]], v)
        else:
            out += struct.pack(order + "I", kind)
            out += text(value) if kind == STRING else struct.pack(order + PACK[kind], value)
    at = 0
    for i, (name, dims, kind, size) in enumerate(tensors):
        out += text(name) + struct.pack(order + "I", len(dims))
        out += b"".join(struct.pack(order + "Q", d) for d in dims)
        out += struct.pack(order + "IQ", kind, offsets[i] if offsets else at)
        at += -(-size // align) * align
    if tensors:
        out += b"\0" * (-len(out) % align) + b"\0" * (at - (-(-tensors[-1][3] // align) * align) + tensors[-1][3])
    out += extra
    return out[:len(out) - cut]


def safetensors(header, data, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + b"\0" * data


def info(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ARCH = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, 2)]


def split(no, count, total, first=False):
    return (ARCH if first else []) + [("split.no", U16, no), ("split.count", U16, count),
                                      ("split.tensors.count", I32, total)]


def error():
    return {"status": "error", "reason": "told"}


def gguf_damaged():
    one = [("a.weight", [32], 0, 128)]
    files = {
        "good": gguf(ARCH, one),
        "good_no_tensors": gguf(ARCH),
        "values_lie": gguf(ARCH, one, n_values=2**61),
        "tensors_lie": gguf(ARCH, one, n_tensors=2**60),
        "text_length": gguf([("k", U32, 1)])[:24] + struct.pack("<Q", 2**63) + b"x" * 64,
        "array_length": gguf(ARCH, one)[:24] + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 10, 2**61) + b"0" * 64,
        "array_of_arrays": gguf([("a", U32, 1)])[:24] + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 9, 1) + b"\0" * 64,
        "value_type": gguf([("a", U32, 1)])[:33] + struct.pack("<I", 13) + b"\0" * 32,
        "key_twice": gguf(ARCH + [("llama.block_count", U32, 3)], one),
        "tensor_twice": gguf(ARCH, one + one),
        "five_dims": gguf(ARCH, [("a", [1, 1, 1, 1, 1], 0, 4)]),
        "dims_overflow": gguf(ARCH, [("a", [2**62, 8], 0, 128)]),
        "dims_wrap_to_small": gguf(ARCH, [("a", [2**33, 2**31], 0, 0)], extra=b"\0" * 64),
        "tensor_type": gguf(ARCH, [("a", [32], 99, 128)]),
        "removed_type": gguf(ARCH, [("a", [32], 4, 128)]),
        "half_block": gguf(ARCH, [("a", [16], 2, 18)]),
        "alignment_0": gguf(ARCH + [("general.alignment", U32, 0)], one),
        "alignment_12": gguf(ARCH + [("general.alignment", U32, 12)], one),
        "gap": gguf(ARCH, one + [("b", [32], 0, 128)], offsets=[0, 256], extra=b"\0" * 128),
        "overlap": gguf(ARCH, one + [("b", [32], 0, 128)], offsets=[0, 64]),
        "cut_data": gguf(ARCH, one, cut=1),
        "cut_header": gguf(ARCH, one)[:70],
        "name_with_nul": gguf(ARCH + [(b"a\0b", U32, 1)], one),
        "html": b"<!DOCTYPE html><html><body>not found</body></html>",
        "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 98362432\n",
        "empty": b"",
        "three_bytes": b"GGU",
    }
    good = {"status": "ok", "tensors": 1, "tensor_bytes": 128, "bits_per_weight": 32, "block_count": 2}
    each = {name: error() for name in files}
    each["good"] = good
    each["good_no_tensors"] = {"status": "ok", "tensors": 0, "tensor_bytes": 0}
    return files, {"each": each}


def gguf_sets():
    t = [[(f"t{i}", [32], 0, 128)] for i in range(3)]

    def part(no, count, total=3, tensors=None, first=None, **kw):
        return gguf(split(no, count, total, no == 0 if first is None else first), t[no % 3] if tensors is None else tensors, **kw)

    n = "m-0000%d-of-0000%d.gguf"
    sets = {
        "good": {n % (i + 1, 3): part(i, 3) for i in range(3)},
        "count_of_tensors": {n % (i + 1, 2): part(i, 2, 3) for i in range(2)},
        "other_count": {n % (1, 2): part(0, 2, 2), n % (2, 2): part(1, 3, 2)},
        "swapped": {n % (1, 2): part(0, 2, 2), n % (2, 2): part(0, 2, 2, t[1])},
        "tensor_in_two": {n % (1, 2): part(0, 2, 2), n % (2, 2): part(1, 2, 2, t[0])},
        "no_split_keys": {n % (1, 2): part(0, 2, 2), n % (2, 2): gguf([], t[1])},
        "cut_part": {n % (1, 2): part(0, 2, 2), n % (2, 2): part(1, 2, 2, cut=5)},
        "mixed_order": {n % (1, 2): part(0, 2, 2), n % (2, 2): part(1, 2, 2, big=True)},
        "not_named_so": {"m.gguf": part(0, 2, 2)},
        "first_missing": {n % (2, 2): part(1, 2, 2)},
        "last_two_missing": {n % (1, 3): part(0, 3)},
    }
    files = {f"{k}.d/{f}": b for k, s in sets.items() for f, b in s.items()}
    expect = {k: error() for k in sets}
    expect["good"] = {"status": "ok", "parts": 3, "tensors_total": 3, "tensor_bytes_total": 384, "missing_files": [],
                      "architecture": "llama",
                      "any_part_given": "the whole set is found and the same answer comes out"}
    expect["first_missing"]["missing"] = n % (1, 2)
    expect["last_two_missing"]["missing_files"] = [n % (2, 3), n % (3, 3)]
    return files, expect


def gguf_types():
    v = ARCH + [("llama.context_length", U64, 8192), ("llama.embedding_length", U32, 256),
                ("llama.attention.head_count", U32, 4), ("general.file_type", U32, 15),
                ("tokenizer.ggml.tokens", (ARRAY, STRING), ["a", "b", "c", "d"])]
    tensors = [("token_embd.weight", [256, 4], 14, 4 * 210), ("blk.0.a.weight", [256, 8], 12, 8 * 144),
               ("blk.1.a.weight", [256, 8], 12, 8 * 144), ("blk.0.n.weight", [256], 0, 1024),
               ("blk.1.n.weight", [256], 30, 512), ("x.mx", [32, 2], 39, 34)]
    n = 1024 + 2048 + 2048 + 256 + 256 + 64
    size = sum(t[3] for t in tensors)
    files = {"mixed.gguf": gguf(v, tensors), "big.gguf": gguf(v, tensors, big=True),
             "v2.gguf": gguf(v, tensors, version=2),
             "align64.gguf": gguf(v + [("general.alignment", U32, 64)], tensors, align=64),
             "vocab.gguf": gguf(v, [("token_embd.weight", [256, 5], 0, 5120)]),
             "layer.gguf": gguf(v, [("blk.2.a.weight", [256], 0, 1024)])}
    ok = {"status": "ok", "tensors": 6, "elements": n, "tensor_bytes": size, "bits_per_weight": size * 8 / n,
          "types": {"Q6_K": 1, "Q4_K": 2, "F32": 1, "BF16": 1, "MXFP4": 1}, "vocab_size": 4, "context_length": 8192,
          "file_type": "Q4_K_M", "head_count": 4, "head_count_kv": None}
    return files, {"mixed": ok | {"byte_order": "little"}, "v2": ok | {"version": 2}, "align64": ok | {"alignment": 64},
                   "big": ok | {"byte_order": "big", "usable_on_little_endian_host": False},
                   "vocab": error(), "layer": error()}


def st_dtypes():
    bits = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
            "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64,
            "I64": 64, "U64": 64, "C64": 64}
    header, at = {}, 0
    for name, b in bits.items():
        header[name] = info(name, [2, 4], at, at + b)
        at += b
    esc = b'{"\\u0061\\ud83d\\ude80":{"shape":[1],"data_offsets":[0,4],"dtype":"F32","later":[1,{"x":null}]}}   '
    files = {
        "all": safetensors(header, at),
        "escapes": safetensors(esc, 4),
        "no_tensors": safetensors({}, 0),
        "metadata_null": safetensors(b'{"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "odd_bits": safetensors({"a": info("F4", [3], 0, 1)}, 1),
        "same_name_escaped": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                         b'"\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2),
        "field_twice": safetensors(b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "no_shape": safetensors(b'{"a":{"dtype":"U8","data_offsets":[0,1]}}', 1),
        "negative": safetensors(b'{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}', 1),
        "fraction": safetensors(b'{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}', 1),
        "leading_zero": safetensors(b'{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}', 1),
        "huge_number": safetensors(b'{"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}}', 1),
        "not_utf8": safetensors(b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "lone_half": safetensors(b'{"\\ud83d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "text_behind": safetensors(b'{} x', 0),
        "deep": safetensors(b'{"a":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}", 0),
        "first_not_at_0": safetensors({"a": info("U8", [1], 1, 2)}, 2),
        "length_past_end": safetensors({"a": info("U8", [1], 0, 1)}, 1, length=5000),
        "length_over_limit": safetensors({}, 0, length=100000001),
        "html": b"<html><head><title>404</title></head></html>",
    }
    each = {name: error() for name in files}
    each["all"] = {"status": "ok", "tensors": len(bits), "tensor_bytes": at, "types": {k: 1 for k in bits}}
    each["escapes"] = {"status": "ok", "tensors": 1, "tensor_bytes": 4}
    each["no_tensors"] = {"status": "ok", "tensors": 0, "tensor_bytes": 0}
    each["metadata_null"] = {"status": "ok", "tensors": 1}
    return files, {"each": each}


def st_sets():
    def one(name, size=4):
        return safetensors({name: info("U8", [size], 0, size)}, size)

    def index(mapping, total):
        return json.dumps({"metadata": {"total_size": total}, "weight_map": mapping}).encode()

    a, b = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    names = {"x": a, "y": b}
    sets = {
        "good": {a: one("x"), b: one("y"), "model.safetensors.index.json": index(names, 8)},
        "single": {"model.safetensors": one("x")},
        "swapped": {a: one("y"), b: one("x"), "model.safetensors.index.json": index(names, 8)},
        "extra_tensor": {a: one("x"), b: safetensors({"y": info("U8", [4], 0, 4), "z": info("U8", [4], 4, 8)}, 8),
                         "model.safetensors.index.json": index(names, 12)},
        "absolute": {a: one("x"), "model.safetensors.index.json": index({"x": a, "y": "/etc/passwd"}, 4)},
        "dots": {a: one("x"), "model.safetensors.index.json": index({"x": a, "y": "sub/../../x.safetensors"}, 4)},
        "lfs_shard": {a: one("x"), b: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4\n",
                      "model.safetensors.index.json": index(names, 8)},
        "index_key_twice": {a: one("x"), "model.safetensors.index.json":
                            f'{{"weight_map":{{"x":"{a}","x":"{a}"}}}}'.encode()},
        "index_no_map": {a: one("x"), "model.safetensors.index.json": b'{"metadata":{}}'},
        "numbered_hole": {"w-00001-of-00003.safetensors": one("x"), "w-00003-of-00003.safetensors": one("y")},
        "in_two_files": {"p.safetensors": one("x"), "q.safetensors": one("x")},
        "stray": {"model.safetensors": one("x"), "other.safetensors": one("q", 9)},
        "pickled": {"pytorch_model.bin": b"PK\x03\x04"},
    }
    files = {f"{k}.d/{f}": v for k, s in sets.items() for f, v in s.items()}
    expect = {k: error() for k in sets}
    expect["good"] = {"status": "ok", "parts": 2, "tensors": 2, "tensor_bytes_present": 8, "total_size_agrees": True,
                      "missing_files": [], "files_not_in_index": [], "index_total_size": 8}
    expect["single"] = {"status": "ok", "parts": 1, "index_total_size": None, "total_size_agrees": None}
    expect["swapped"]["tensors_not_in_their_shard"] = ["x", "y"]
    expect["extra_tensor"] = {"status": "ok", "tensors_not_in_index": ["z"], "tensor_bytes_present": 12}
    expect["absolute"]["files_outside_the_directory"] = ["/etc/passwd"]
    expect["dots"]["files_outside_the_directory"] = ["sub/../../x.safetensors"]
    expect["numbered_hole"]["missing_files"] = ["w-00002-of-00003.safetensors"]
    expect["stray"] = {"status": "ok", "tensor_bytes_present": 4, "files_not_in_index": ["other.safetensors"]}
    return files, expect


BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 4096}


def quant_configs():
    linear = 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128)
    attention = 2 * (64 * 64 * 2 + 2 * 64 * 32)
    embed = 2 * 100 * 64
    rest = embed + 2 * 2 * 64 + 64

    def q(**kw):
        return BASE | {"quantization_config": kw}

    def group(bits, strategy, size=None, **kw):
        w = {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": size, "symmetric": True} | kw
        return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": w}}}

    dirs = {
        "bnb_nf4_plain": {"config.json": q(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="nf4")},
        "bnb_both": {"config.json": q(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=True)},
        "ct_w4a16": {"config.json": q(quant_method="compressed-tensors", ignore=["lm_head"], **group(4, "group", 128))},
        "ct_asymmetric": {"config.json": q(quant_method="compressed-tensors", ignore=["lm_head"],
                                           **group(4, "group", 64, symmetric=False))},
        "ct_head_too": {"config.json": q(quant_method="compressed-tensors", **group(8, "channel"))},
        "ct_kv": {"config.json": q(quant_method="compressed-tensors", ignore=["lm_head"], **group(8, "tensor"),
                                   kv_cache_scheme={"num_bits": 8, "type": "float"})},
        "ct_re": {"config.json": q(quant_method="compressed-tensors", ignore=["lm_head", "re:.*self_attn.*"],
                                   **group(8, "channel"))},
        "awq_skips_one": {"config.json": q(quant_method="awq", bits=4, group_size=32,
                                           modules_to_not_convert=["model.layers.1.mlp.down_proj"])},
        "awq_side": {"config.json": BASE, "quant_config.json": {"zero_point": True, "q_group_size": 64, "w_bit": 4,
                                                                "version": "GEMM"}},
        "fp8_tensor": {"config.json": q(quant_method="fp8", activation_scheme="static")},
        "two_answers": {"config.json": q(quant_method="gptq", bits=4, group_size=128, desc_act=True),
                        "quantize_config.json": {"bits": 8, "group_size": 128, "desc_act": True}},
        "act_order_differs": {"config.json": q(quant_method="gptq", bits=4, group_size=128, desc_act=True),
                              "quantize_config.json": {"bits": 4, "group_size": 128, "desc_act": False}},
        "modelopt_fp8": {"config.json": BASE, "hf_quant_config.json":
                         {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}}},
        "quark_mx": {"config.json": q(quant_method="quark", exclude=["lm_head"],
                                      global_quant_config={"weight": {"dtype": "fp4", "group_size": 32}})},
        "unknown_method": {"config.json": q(quant_method="newest", bits=3)},
        "nested": {"config.json": {"model_type": "llava", "text_config": BASE,
                                   "quantization_config": {"quant_method": "fp8"}}},
        "not_finite": {"config.json": json.dumps(BASE)[:-1].encode() +
                       b', "time_step_limit": [0.0, Infinity], "x": "NaN", "y": NaN, "z": -Infinity}'},
        "dtypes_differ": {"config.json": BASE | {"dtype": "float16"}},
        "odd_heads": {"config.json": BASE | {"num_key_value_heads": 3}},
        "experts": {"config.json": BASE | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}},
        "experts_mx": {"config.json": q(quant_method="mxfp4") | {"model_type": "mixtral", "num_local_experts": 8,
                                                                 "num_experts_per_tok": 2}},
        "no_json": {"config.json": b"{'hidden_size': 64}"},
        "a_list": {"config.json": b"[]"},
    }
    files = {f"{k}/{f}": v if isinstance(v, bytes) else json.dumps(v, indent=1).encode() for k, s in dirs.items()
             for f, v in s.items()}
    down = 64 * 128

    def size(bits, narrow=linear):
        return round(narrow * bits / 8 + (linear + rest - narrow) * 2)

    model = "as the model (16 bit)"
    expect = {k: error() for k in dirs}
    expect |= {
        "bnb_nf4_plain": {"method": "bitsandbytes", "weight_bits": 4, "effective_bits": 4.5, "weight_bytes": size(4.5)},
        "ct_w4a16": {"method": "compressed-tensors", "weight_bits": 4, "group_size": 128, "effective_bits": 4.125,
                     "weight_bytes": size(4.125), "kv_dtype": model, "not_quantized": ["lm_head"]},
        "ct_asymmetric": {"effective_bits": 4 + 20 / 64, "group_size": 64},
        "ct_head_too": {"weight_bits": 8, "weight_bytes": size(8) - embed // 2},
        "ct_kv": {"weight_bits": 8, "kv_dtype": "fp8", "weight_bytes": size(8)},
        "ct_re": {"weight_bytes": size(8, linear - attention)},
        "awq_skips_one": {"group_size": 32, "effective_bits": 4.625, "weight_bytes": size(4.625, linear - down)},
        "awq_side": {"method": "awq", "found_in": "quant_config.json", "weight_bits": 4, "group_size": 64,
                     "effective_bits": 4.3125, "act_order": None},
        "fp8_tensor": {"method": "fp8", "weight_bits": 8, "effective_bits": 8, "kv_dtype": model},
        "modelopt_fp8": {"method": "modelopt FP8", "weight_bits": 8, "found_in": "hf_quant_config.json", "kv_dtype": model},
        "quark_mx": {"method": "quark", "weight_bits": 4, "group_size": 32, "effective_bits": 4.25},
        "unknown_method": {"method": "newest", "weight_bits": 3, "effective_bits": None, "weight_bytes": None},
        "nested": {"method": "fp8", "model_type": "llama", "weight_bytes": size(8), "layers": 2},
        "not_finite": {"status": "ok", "method": None, "weight_bits": 16, "parameters": linear + rest,
                       "linear_parameters": linear, "embed_plus_head_parameters": embed, "weight_bytes": size(16),
                       "context_length": 4096},
    }
    mlp, router = 2 * 3 * 64 * 128, 2 * 64 * 8
    dense = attention + rest + router
    expect["experts"] = {"status": "ok", "parameters": dense + 8 * mlp, "active_parameters": dense + 2 * mlp,
                         "linear_parameters": attention + 8 * mlp, "weight_bytes": 2 * (dense + 8 * mlp)}
    expect["experts_mx"] = {"weight_bits": 4, "weight_bytes": 2 * dense + 8 * mlp * 17 // 32}
    expect["two_answers"] |= {"method": "gptq", "weight_bits": 4}
    return files, expect


def kv_configs():
    mla = {"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
           "num_key_value_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
           "v_head_dim": 128}
    gqa = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2}  # head size 128

    def layers(*words):
        return {"num_hidden_layers": len(words), "layer_types": list(words)}

    models = {
        "mla": (mla, {"bytes_per_token_16bit": 61 * 576 * 2, "bytes_per_token_8bit": 61 * 576, "layers_with_kv": 61,
                      "per_rank_bytes_per_token_tp8": 61 * 576 * 2, "bytes_at_131072": 61 * 576 * 2 * 131072,
                      "attention": "MLA", "values_per_token_per_layer": 576}),
        "mha": (gqa | {"num_hidden_layers": 3, "num_key_value_heads": None},
                {"bytes_per_token_16bit": 2 * 3 * 1024 * 2, "kv_heads": 8, "attention": "MHA"}),
        "mqa": (gqa | {"num_hidden_layers": 3, "num_key_value_heads": 1},
                {"bytes_per_token_16bit": 2 * 3 * 128 * 2, "per_rank_bytes_per_token_tp8": 2 * 3 * 128 * 2,
                 "attention": "MQA"}),
        "old multi_query": ({"model_type": "gpt_bigcode", "n_embd": 2048, "n_head": 16, "n_layer": 4, "multi_query": True},
                            {"kv_heads": 1, "head_dim": 128, "bytes_per_token_16bit": 2 * 4 * 128 * 2}),
        "alternating": (gqa | {"sliding_window": 512} | layers("sliding_attention", "full_attention"),
                        {"full_layers": 1, "sliding_layers": 1, "window": 512,
                         "kv_bytes_16bit": {"1024": 2 * 256 * 2 * (1024 + 512)},
                         "growth_bytes_per_token_beyond_512": 2 * 256 * 2}),
        "switched off": (gqa | {"model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 512,
                                "use_sliding_window": False, "max_window_layers": 2},
                         {"full_layers": 4, "sliding_layers": 0, "window": None}),
        "switched on": (gqa | {"model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 512,
                               "use_sliding_window": True, "max_window_layers": 3},
                        {"full_layers": 3, "sliding_layers": 1}),
        "off when not told": (gqa | {"model_type": "qwen3", "head_dim": 128, "num_hidden_layers": 4,
                                     "sliding_window": 512, "max_window_layers": 3}, {"sliding_layers": 0}),
        "gemma3 nested": ({"model_type": "gemma3", "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024}},
            {"full_layers": 5, "sliding_layers": 29, "class_defaults_needed": {
                "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window_pattern": 6}}),
        "hybrid list": (gqa | layers("mamba", "attention", "mamba", "mamba"),
                        {"layers_with_kv": 1, "state_layers": 3, "bytes_per_token_16bit": 2 * 256 * 2}),
        "hybrid letters": (gqa | {"num_hidden_layers": 6, "hybrid_override_pattern": "M-M*-M"},
                           {"layers_with_kv": 1, "state_layers": 3, "layers_without_cache": 2}),
        "hybrid numbers": (gqa | {"num_hidden_layers": 8, "attn_layer_period": 4, "attn_layer_offset": 2},
                           {"layers_with_kv": 2}),
        "hybrid state": (gqa | {"num_hidden_layers": 4, "full_attention_interval": 4, "linear_num_key_heads": 4,
                                "linear_num_value_heads": 8, "linear_key_head_dim": 16, "linear_value_head_dim": 32,
                                "linear_conv_kernel_dim": 4},
                         {"layers_with_kv": 1, "state_layers": 3,
                          "state_values_per_sequence": 3 * (3 * (2 * 4 * 16 + 8 * 32) + 8 * 16 * 32)}),
        "no cache at all": ({"model_type": "mamba2", "num_hidden_layers": 4, "hidden_size": 64},
                            {"layers_with_kv": 0, "bytes_per_token_16bit": 0}),
        "shared": (gqa | {"num_kv_shared_layers": 1, "sliding_window": 8} |
                   layers("sliding_attention", "full_attention", "full_attention"),
                   {"layers_with_kv": 2, "layers_without_cache": 1}),
        "two head sizes": (gqa | {"head_dim": 64, "global_head_dim": 256, "num_global_key_value_heads": 1,
                                  "sliding_window": 16} | layers("sliding_attention", "full_attention"),
                           {"kv_bytes_16bit": {"1024": 2 * 2 * (16 * 2 * 64 + 1024 * 256)}, "key_length": 256,
                            "key_length_swa": 64}),
        "heads of each layer": (gqa | {"num_hidden_layers": 2, "num_kv_heads": [1, 3]},
                                {"bytes_per_token_16bit": 2 * 128 * 4 * 2, "kv_heads": [1, 3]}),
        "chunks": (gqa | {"model_type": "llama4_text", "num_hidden_layers": 4, "attention_chunk_size": 64},
                   {"full_layers": 1, "sliding_layers": 3, "window": 64}),
        "unknown defaults": ({"model_type": "brand_new", "num_hidden_layers": 4, "hidden_size": 2560},
                             {"status": "unknown", "reason": "told", "bytes_per_token_16bit": None}),
        "unknown window": (gqa | {"model_type": "brand_new", "num_hidden_layers": 4, "sliding_window": 7},
                           {"status": "unknown", "reason": "told", "bytes_per_token_16bit": None}),
        "unknown layers": (gqa | layers("warp_attention"), {"status": "unknown", "reason": "told"}),
        "list too short": (gqa | layers("full_attention") | {"num_hidden_layers": 2}, {"status": "unknown", "reason": "told"}),
        "encoder and decoder": (gqa | {"is_encoder_decoder": True, "num_hidden_layers": 2},
                                {"status": "unknown", "reason": "told"}),
    }
    text = json.dumps([c | {"name": n} for n, (c, _) in models.items()], indent=1).encode()
    return {"models.json": text}, {"models": {n: e for n, (_, e) in models.items()}}


def kv_ggufs():
    def model(arch, layers, *values):
        return gguf([("general.architecture", STRING, arch), (f"{arch}.block_count", U32, layers),
                     (f"{arch}.embedding_length", U32, 1024), (f"{arch}.attention.head_count", U32, 8)] +
                    [(f"{arch}.{k}", t, v) for k, t, v in values])

    kv2 = ("attention.head_count_kv", U32, 2)
    latent = (("attention.kv_lora_rank", U32, 512), ("rope.dimension_count", U32, 64), ("attention.key_length", U32, 192),
              ("attention.value_length", U32, 128))
    files = {
        "plain": model("llama", 4, kv2),
        "gemma3": model("gemma3", 12, kv2, ("attention.sliding_window", U32, 512)),
        "window_not_used": model("qwen2", 4, kv2, ("attention.sliding_window", U32, 512)),
        "first_is_full": model("smallthinker", 8, kv2, ("attention.sliding_window", U32, 512)),
        "pattern_number": model("gemma3", 4, kv2, ("attention.sliding_window", U32, 8),
                                ("attention.sliding_window_pattern", U32, 2)),
        "latent": model("deepseek2", 3, *latent, ("attention.head_count_kv", U32, 1), ("attention.key_length_mla", U32, 192)),
        "expanded": model("deepseek2", 3, *latent, ("attention.head_count_kv", U32, 8)),
        "hybrid": model("nemotron_h", 4, ("attention.head_count_kv", (ARRAY, U32), [0, 2, 0, 0]),
                        ("ssm.conv_kernel", U32, 4), ("ssm.inner_size", U32, 256), ("ssm.state_size", U32, 16),
                        ("ssm.group_count", U32, 2)),
        "interval": model("qwen3next", 8, kv2, ("full_attention_interval", U32, 4), ("ssm.conv_kernel", U32, 4)),
        "list_too_short": model("llama", 4, ("attention.head_count_kv", (ARRAY, U32), [2, 2])),
        "no_blocks": gguf([("general.architecture", STRING, "llama")]),
    }
    row = 2 * 2 * 128 * 2
    state = 3 * (256 + 2 * 2 * 16) + 16 * 256
    expect = {
        "plain": {"layers": 4, "bytes_per_token_16bit": 4 * row, "head_count_kv": 2, "key_length": 128},
        "gemma3": {"full_layers": 2, "sliding_layers": 10, "kv_bytes_16bit": {"1024": row * (2 * 1024 + 10 * 512)}},
        "window_not_used": {"full_layers": 4, "sliding_layers": 0},
        "first_is_full": {"full_layers": 2, "sliding_layers": 6, "which_layers_are_full": [0, 4]},
        "pattern_number": {"full_layers": 2, "sliding_layers": 2},
        "latent": {"bytes_per_token_16bit": 3 * 576 * 2, "latent_layers": 3},
        "expanded": {"bytes_per_token_16bit": 3 * 8 * (192 + 128) * 2, "latent_layers": 0},
        "hybrid": {"layers_with_kv": 1, "state_layers": 3, "bytes_per_token_16bit": row, "state_values_per_sequence": 3 * state},
        "interval": {"layers_with_kv": 2, "state_layers": 6},
        "list_too_short": error(),
        "no_blocks": error(),
    }
    return {f"{k}.gguf": v for k, v in files.items()}, expect


CASES = [("401-gguf-damaged", "model-file", gguf_damaged, ".gguf"), ("402-gguf-sets", "model-file", gguf_sets, ""),
         ("403-gguf-types", "model-file", gguf_types, ""), ("404-safetensors-headers", "model-file", st_dtypes, ".safetensors"),
         ("405-safetensors-sets", "model-file", st_sets, ""), ("411-quantisation", "model-config", quant_configs, ""),
         ("421-kv-configs", "kv-size", kv_configs, ""), ("422-kv-gguf", "kv-size", kv_ggufs, "")]


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, kind, make, ext in CASES:
        files, expect = make()
        inputs = {}
        for file, data in files.items():
            path = folder / name / f"input.{file}{ext}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            top = f"input.{file}{ext}".split("/", maxsplit=1)
            inputs[top[0] + ("/" if len(top) > 1 else "")] = "a folder" if len(top) > 1 else "a file"
        case = {"id": name, "kind": kind, "source": "the formats' own rules", "input": inputs, "expect": expect}
        (folder / name / "case.json").write_text(json.dumps(case, indent=2) + "\n", encoding="utf-8")


main()
