/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine tells of itself (a version endpoint, --version), and whether that agrees with a pin. Pure:
 * no file, no network. What is told is a claim; only the hash of the program is proof. "unknown", build 0 and
 * commits of fewer than 7 digits count as not told. */
#ifndef PIN_ENGINE_COMMIT_H
#define PIN_ENGINE_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOLD_TEXT_BYTES 128
#define TOLD_COMMIT_BYTES 65
#define TOLD_INPUT_BYTES_MAX (4u << 20)

enum told_engine { TOLD_LLAMA_CPP, TOLD_VLLM, TOLD_SGLANG, TOLD_OLLAMA, TOLD_TGI, TOLD_TENSORRT_LLM, TOLD_N };

struct engine_told {
	enum told_engine engine;
	char version[TOLD_TEXT_BYTES];  /* "" = not told */
	char commit[TOLD_COMMIT_BYTES]; /* 7 to 64 lower-case hex digits, a prefix as a rule; "" = not told */
	char label[TOLD_TEXT_BYTES];    /* TGI's docker label; "" = none */
	bool dirty; /* says of itself that it was built with changes; false says nothing */
	bool has_build;
	uint64_t build;    /* llama.cpp's count of commits */
	const char *fault; /* why there is no commit though something was told, or NULL; static */
	char nested_commit[TOLD_COMMIT_BYTES]; /* Ollama: the llama.cpp inside; "" = not told */
	bool has_nested_build;
	uint64_t nested_build;
};

/* "llama.cpp", "vllm", "sglang", "ollama", "tgi", "tensorrt-llm" */
const char *told_engine_name(enum told_engine engine);

/* `text`: the body of /props, /version, /server_info, /api/version or /info (JSON), or what --version
 * printed: llama.cpp     "version: 4567 (abcdef12)", "version: 0.6.0 (build 4567, commit abcdef12)",
 *                 "b4567-abcdef12", build_info, system_fingerprint, build_commit with build_number
 *   vLLM, SGLang  PEP 440 with setuptools-scm's local part: "0.8.5.dev123+gabcdef123.d20250501"
 *   Ollama        "0.6.2", git describe's "0.6.2-12-gabcdef1-dirty"
 *   TGI           version, sha, docker_label; "Commit sha: …" of --env
 *   TensorRT-LLM  version
 * False (and `*out` untouched) when nothing of the engine was found in it. */
bool engine_told_parse(struct engine_told *out, enum told_engine engine, const char *text, size_t len);

/* Adds the engine inside: FETCH_HEAD=… of Ollama's Makefile.sync, LLAMA_COMMIT of its build-info.cpp,
 * "b4567", or llama.cpp's own forms from a log. False when there is none. */
bool engine_told_nested(struct engine_told *told, const char *text, size_t len);

struct engine_pin {
	const char *commit;  /* 40 or 64 hex digits, or NULL */
	const char *version; /* or NULL; "0.8.5" also takes "0.8.5+cu124", not the other way round */
};

enum engine_match { ENGINE_SAME, ENGINE_DIFFERENT, ENGINE_NOT_TOLD };

struct engine_compared {
	enum engine_match match;
	char reason[512]; /* one line, always filled */
};

/* A told commit agrees when it is a prefix of at least 7 digits of the pinned id and the engine doesn't call
 * itself changed. With both commit and version in the pin, either can make it different, and an untold commit
 * is not made up for by an equal version. */
void engine_told_compare(struct engine_compared *out, const struct engine_told *told,
                         const struct engine_pin *pin);
const char *engine_match_word(enum engine_match match); /* "same", "different", "not told" */

/* Members: engine, version, commit, label, build (null = not told), dirty (true, or null = not told), fault
 * (null = none), nested (null, or engine, commit, build). `key` NULL inside an array or at the top. */
struct json_out;
void engine_told_json(struct json_out *o, const char *key, const struct engine_told *told);
/* Members: match, reason. */
void engine_compared_json(struct json_out *o, const char *key, const struct engine_compared *c);

#endif
