/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a plan, schema version 1. It covers the whole mission, so that parts which no phase executes
 * yet are filled later without a new version. Strings that may hold a secret (arguments, values, URLs) carry
 * no pattern here: a message about a pattern quotes what it found. Sizes of strings are not bounded one by
 * one (PLAN_BYTES_MAX bounds them all), because a schema counts characters and we would count bytes. */
#include "model/plan_parts.h"

/* What follows the last argument named is more of the initialiser: STR("id", REQ). */
#define REQ .required = true
#define STR(...)                                                                                             \
	{                                                                                                    \
		__VA_ARGS__, .type = J_STR, .min_len = 1                                                     \
	}
#define WORD(k, ...)                                                                                         \
	{                                                                                                    \
		.key = (k), .type = J_STR, .words = __VA_ARGS__                                              \
	}
#define PAT(k, p, ...)                                                                                       \
	{                                                                                                    \
		.key = (k), .type = J_STR, .pattern = (p), .pattern_says = __VA_ARGS__                       \
	}
#define INT(k, lo, ...)                                                                                      \
	{                                                                                                    \
		.key = (k), .type = J_INT, .min = (lo), .max = __VA_ARGS__                                   \
	}
#define NUM(k, lo, ...)                                                                                      \
	{                                                                                                    \
		.key = (k), .type = J_NUM, .min = (lo), .max = __VA_ARGS__                                   \
	}
#define BOOL(k)                                                                                              \
	{                                                                                                    \
		.key = (k), .type = J_BOOL                                                                   \
	}
#define OBJ(k, ...)                                                                                          \
	{                                                                                                    \
		.key = (k), .type = J_OBJ, .shape = __VA_ARGS__                                              \
	}
#define ARR(k, e, lo, ...)                                                                                   \
	{                                                                                                    \
		.key = (k), .type = J_ARR, .elem = (e), .min_len = (lo), .max_len = __VA_ARGS__              \
	}
#define END                                                                                                  \
	{                                                                                                    \
		.key = NULL                                                                                  \
	}
#define ABOVE .exclusive_min = true

#define NAME_PATTERN "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
#define NAME_SAYS "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
#define ID_PATTERN "[a-z0-9][a-z0-9._-]{0,63}"
#define ID_SAYS "1 to 64 lower-case letters, digits, '.', '_' or '-', the first a letter or digit"
#define HEX64_PATTERN "[0-9a-f]{64}"
#define HEX64_SAYS "64 lower-case hex digits"
#define VARIABLE_PATTERN "[A-Za-z_][A-Za-z0-9_]{0,127}"
#define VARIABLE_SAYS "the name of an environment variable"
#define DATE_PATTERN                                                                                         \
	"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{" \
	"2}))?"
#define DATE_SAYS "a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z"

#define TOK_MAX 100000000.0
#define COUNT_MAX 10000000.0
#define SECONDS_MAX 2592000.0 /* 30 days */

static const struct jfield any_str = STR(NULL), any_text = { .type = J_STR },
			   name_str = PAT(NULL, NAME_PATTERN, NAME_SAYS), watts = NUM(NULL, 0, 1e7, ABOVE);

/* --- plan and model ------------------------------------------------------------------------------------- */

static const struct jfield about_fields[] = {
	PAT("id", ID_PATTERN, ID_SAYS, REQ),
	STR("title", REQ),
	STR("owner"),
	PAT("valid_from", DATE_PATTERN, DATE_SAYS),
	PAT("valid_until", DATE_PATTERN, DATE_SAYS),
	PAT("not_before", DATE_PATTERN, DATE_SAYS),
	STR("challenge"),
	INT("rules", 1, 1000),
	END,
};
static const struct jshape about_shape = { .name = "plan", .fields = about_fields };

static const char *const file_roles[] = { "weights",    "tokenizer",  "config", "adapter", "draft",
	                                  "multimodal", "checkpoint", "other",  NULL };
static const struct jfield model_file_fields[] = {
	STR("path", REQ),
	PAT("sha256", HEX64_PATTERN, HEX64_SAYS),
	WORD("role", file_roles),
	END,
};
static const struct jshape model_file_shape = { .name = "file", .fields = model_file_fields };
static const struct jfield model_file = OBJ(NULL, &model_file_shape);

static const char *const formats[] = { "gguf", "safetensors", "onnx", "tensorrt", "pytorch", "other", NULL };
static const struct jfield model_fields[] = {
	STR("id", REQ),
	STR("revision", REQ),
	WORD("format", formats, REQ),
	ARR("files", &model_file, 0, 4096),
	PAT("quantization", NAME_PATTERN, NAME_SAYS),
	PAT("dtype", NAME_PATTERN, NAME_SAYS),
	PAT("kv_dtype", NAME_PATTERN, NAME_SAYS),
	INT("context_tok", 1, TOK_MAX, REQ),
	END,
};
static const struct jshape model_shape = { .name = "model", .fields = model_fields };

/* --- candidates ------------------------------------------------------------------------------------------
 */

static const char *const one_of_value[] = { "value", "from_env", "from_file", NULL };
static const struct jfield env_fields[] = {
	PAT("name", VARIABLE_PATTERN, VARIABLE_SAYS, REQ),
	{ .key = "value", .type = J_STR },
	PAT("from_env", VARIABLE_PATTERN, VARIABLE_SAYS),
	STR("from_file"),
	END,
};
static const struct jshape env_shape = { .name = "variable", .fields = env_fields, .one_of = one_of_value };
static const struct jfield env_entry = OBJ(NULL, &env_shape);

static const struct jfield process_fields[] = { STR("program", REQ), STR("cwd"), END };
static const struct jshape process_shape = { .name = "process", .fields = process_fields };

static const struct jfield mount_fields[] = { STR("host", REQ), STR("container", REQ), BOOL("read_only"),
	                                      END };
static const struct jshape mount_shape = { .name = "mount", .fields = mount_fields };
static const struct jfield mount = OBJ(NULL, &mount_shape);
static const char *const container_runtimes[] = { "docker", "podman", NULL };
static const char *const networks[] = { "host", "bridge", "none", NULL };
static const char *const ipc_modes[] = { "host", "private", "shareable", NULL };
static const struct jfield container_fields[] = {
	STR("image", REQ),
	WORD("runtime", container_runtimes),
	ARR("entrypoint", &any_str, 1, 64),
	ARR("cdi", &any_str, 1, 64, .unique = true),
	ARR("devices", &any_str, 1, 64, .unique = true),
	ARR("mounts", &mount, 1, 64),
	INT("port", 1, 65535),
	WORD("network", networks),
	WORD("ipc", ipc_modes),
	INT("shm_mib", 1, 16777216),
	INT("memory_mib", 1, 67108864),
	STR("user"),
	ARR("group_add", &any_str, 1, 32, .unique = true),
	ARR("cap_add", &any_str, 1, 64, .unique = true),
	ARR("security_opt", &any_str, 1, 16, .unique = true),
	BOOL("read_only_root"),
	END,
};
static const struct jshape container_shape = { .name = "container", .fields = container_fields };

static const char *const one_of_secret[] = { "env", "file", NULL };
static const struct jfield secret_fields[] = { PAT("env", VARIABLE_PATTERN, VARIABLE_SAYS), STR("file"),
	                                       END };
static const struct jshape secret_shape = { .name = "secret",
	                                    .fields = secret_fields,
	                                    .one_of = one_of_secret };
static const struct jfield attach_fields[] = { STR("url", REQ), OBJ("api_key", &secret_shape), STR("ca_file"),
	                                       END };
static const struct jshape attach_shape = { .name = "attach", .fields = attach_fields };

static const struct jfield launch_fields[] = { OBJ("process", &process_shape),
	                                       OBJ("container", &container_shape),
	                                       OBJ("attach", &attach_shape), END };
static const struct jshape launch_shape = { .name = "launch",
	                                    .fields = launch_fields,
	                                    .one_of = launch_kind_words };

static const char *const split_modes[] = { "none", "layer", "row", NULL };
static const struct jfield parallel_fields[] = {
	INT("tensor", 1, 65536),         INT("pipeline", 1, 65536),
	INT("data", 1, 65536),           INT("expert", 1, 65536),
	WORD("split_mode", split_modes), INT("gpus", 1, 65536),
	INT("nodes", 1, 65536),          END,
};
static const struct jshape parallel_shape = { .name = "parallel", .fields = parallel_fields };

static const struct jfield engine_fields[] = {
	WORD("kind", engine_kind_words, REQ),
	STR("version"),
	PAT("commit", "[0-9a-f]{40}([0-9a-f]{24})?", "40 or 64 lower-case hex digits"),
	OBJ("launch", &launch_shape, REQ),
	ARR("args", &any_text, 0, 512),
	ARR("env", &env_entry, 0, 256),
	STR("cpus"),
	INT("ready_deadline_s", 1, 86400),
	OBJ("parallel", &parallel_shape),
	END,
};
static const struct jshape engine_shape = { .name = "engine", .fields = engine_fields };

static const struct jfield expect_fields[] = {
	STR("gpu"),
	INT("gpu_count", 1, 65536),
	NUM("gpu_memory_gib", 0, 1e6, ABOVE),
	STR("cpu"),
	NUM("memory_gib", 0, 1e7, ABOVE),
	STR("os"),
	STR("kernel"),
	STR("driver"),
	STR("runtime"),
	STR("firmware"),
	STR("framework"),
	NUM("power_limit_w", 0, 1e6, ABOVE),
	END,
};
static const struct jshape expect_shape = { .name = "expect", .fields = expect_fields };

static const char *const support_classes[] = { "official", "unmaintained_fork", "undocumented_patch",
	                                       "community_report", NULL };
static const struct jfield support_fields[] = {
	WORD("class", support_classes, REQ),
	STR("url", REQ),
	PAT("date", DATE_PATTERN, DATE_SAYS, REQ),
	STR("says"),
	END,
};
static const struct jshape support_shape = { .name = "support", .fields = support_fields };
static const struct jfield support_entry = OBJ(NULL, &support_shape);

static const char *const features[] = { "torch_compile",
	                                "flash_attention",
	                                "triton",
	                                "fp8",
	                                "fsdp2",
	                                "graphs",
	                                "bitsandbytes_4bit",
	                                "moe_kernels",
	                                "speculative_decoding",
	                                "prefix_cache",
	                                "continuous_batching",
	                                "peer_to_peer",
	                                NULL };
static const struct jfield feature = WORD(NULL, features);
static const struct jfield candidate_fields[] = {
	PAT("name", NAME_PATTERN, NAME_SAYS, REQ),
	WORD("backend", backend_words, REQ),
	PAT("arch", "[A-Za-z0-9_.:+-]{1,64}", "an architecture such as sm_90, gfx942 or x86-64"),
	OBJ("engine", &engine_shape, REQ),
	STR("client_cpus"),
	OBJ("previous", &engine_shape),
	OBJ("expect", &expect_shape),
	ARR("features", &feature, 0, 12, .unique = true),
	ARR("support", &support_entry, 0, 64),
	END,
};
static const struct jshape candidate_shape = { .name = "candidate", .fields = candidate_fields };
static const struct jfield candidate = OBJ(NULL, &candidate_shape);

/* --- workloads -------------------------------------------------------------------------------------------
 */

static const struct jfield rate = NUM(NULL, 0, 1e6, ABOVE);
static const struct jfield arrival_fields[] = {
	WORD("kind", arrival_words, REQ),
	NUM("rate_rps", 0, 1e6, ABOVE),
	NUM("rate_end_rps", 0, 1e6, ABOVE),
	ARR("rates_rps", &rate, 1, 64, .unique = true),
	NUM("burstiness", 0.01, 1000),
	BOOL("stop_when_saturated"),
	INT("seed", 0, 9007199254740991.0),
	NUM("think_s", 0, 3600),
	STR("trace"),
	NUM("speed", 0.001, 1000),
	END,
};
static const struct jshape arrival_shape = { .name = "arrival", .fields = arrival_fields };

static const struct jfield sampling_fields[] = {
	NUM("temperature", 0, 10),
	INT("seed", 0, 2147483647),
	NUM("top_p", 0, 1, ABOVE),
	INT("top_k", 0, 1000000),
	END,
};
static const struct jshape sampling_shape = { .name = "sampling", .fields = sampling_fields };

static const struct jfield dataset_fields[] = {
	STR("path", REQ),
	PAT("sha256", HEX64_PATTERN, HEX64_SAYS, REQ),
	END,
};
static const struct jshape dataset_shape = { .name = "data", .fields = dataset_fields };
static const struct jfield reference_loss_fields[] = {
	STR("path", REQ),
	PAT("sha256", HEX64_PATTERN, HEX64_SAYS, REQ),
	NUM("tolerance_share", 0, 1, ABOVE),
	END,
};
static const struct jshape reference_loss_shape = { .name = "reference_loss",
	                                            .fields = reference_loss_fields };
static const struct jfield resume_fields[] = { INT("kill_at_step", 1, 1e9, REQ),
	                                       NUM("limit_s", 0, SECONDS_MAX), END };
static const struct jshape resume_shape = { .name = "resume", .fields = resume_fields };
static const char *const precisions[] = { "fp32", "tf32",       "fp16",       "bf16",
	                                  "fp8",  "mixed_fp16", "mixed_bf16", NULL };
static const struct jfield training_fields[] = {
	STR("script"),
	OBJ("data", &dataset_shape),
	INT("steps", 1, 1e9, REQ),
	INT("batch_size", 1, 1e7, REQ),
	INT("accumulation", 1, 1e6),
	INT("sequence_tok", 1, TOK_MAX),
	WORD("precision", precisions, REQ),
	STR("optimizer"),
	INT("seed", 0, 2147483647),
	INT("world_size", 1, 65536),
	INT("checkpoint_every_steps", 1, 1e9),
	OBJ("resume", &resume_shape),
	OBJ("reference_loss", &reference_loss_shape),
	ARR("extensions", &name_str, 0, 64, .unique = true),
	END,
};
static const struct jshape training_shape = { .name = "training", .fields = training_fields };

static const struct jfield mix_part_fields[] = {
	PAT("name", NAME_PATTERN, NAME_SAYS, REQ),
	NUM("weight", 0, 1e6, REQ, ABOVE),
	INT("prompt_tok", 1, TOK_MAX, REQ),
	INT("output_tok", 1, TOK_MAX, REQ),
	END,
};
static const struct jshape mix_part_shape = { .name = "part of a mix", .fields = mix_part_fields };
static const struct jfield mix_part = OBJ(NULL, &mix_part_shape);

static const struct jfield conversation_fields[] = {
	INT("turns", 2, 64, REQ),
	INT("turn_prompt_tok", 1, TOK_MAX),
	NUM("think_s", 0, 3600),
	END,
};
static const struct jshape conversation_shape = { .name = "conversation", .fields = conversation_fields };

static const char *const retry_words[] = { "status", "reset", "timeout", NULL };
static const struct jfield retry_word = WORD(NULL, retry_words);
static const struct jfield retry_fields[] = {
	INT("max", 1, 10, REQ),
	ARR("on", &retry_word, 1, 3, .unique = true),
	NUM("backoff_s", 0, 60),
	END,
};
static const struct jshape retry_shape = { .name = "retry", .fields = retry_fields };

static const struct jfield context_len = INT(NULL, 1, TOK_MAX), in_flight = INT(NULL, 0, 65536);
static const struct jfield workload_fields[] = {
	PAT("name", NAME_PATTERN, NAME_SAYS, REQ),
	WORD("class", class_words, REQ),
	WORD("api", api_words),
	STR("corpus"),
	NUM("shared_prefix_share", 0, 1),
	ARR("prompt_tok", &context_len, 1, 64, .unique = true),
	INT("output_tok", 1, TOK_MAX),
	ARR("mix", &mix_part, 2, 16),
	OBJ("conversation", &conversation_shape),
	BOOL("force_output"),
	BOOL("stream"),
	ARR("concurrency", &in_flight, 1, 64, .unique = true),
	OBJ("arrival", &arrival_shape),
	INT("requests", 0, COUNT_MAX),
	INT("other_requests", 0, COUNT_MAX),
	NUM("duration_s", 0, SECONDS_MAX),
	INT("warmup_requests", 0, 100000),
	NUM("connect_timeout_s", 0, 3600, ABOVE),
	NUM("first_byte_timeout_s", 0, 86400, ABOVE),
	NUM("stall_timeout_s", 0, 86400, ABOVE),
	NUM("deadline_s", 0, 86400, ABOVE),
	BOOL("critical"),
	INT("critical_prompt_tok", 1, TOK_MAX),
	INT("critical_concurrency", 0, 65536),
	NUM("critical_rate_rps", 0, 1e6, ABOVE),
	INT("looks", 1, 1000),
	OBJ("sampling", &sampling_shape),
	NUM("canary_share", 0, 1),
	BOOL("text_counters"),
	OBJ("retry", &retry_shape),
	OBJ("training", &training_shape),
	END,
};
static const struct jshape workload_shape = { .name = "workload", .fields = workload_fields };
static const struct jfield workload = OBJ(NULL, &workload_shape);

/* --- controls, recovery, instrument -----------------------------------------------------------------------
 */

static const char *const message_roles[] = { "system", "user", "assistant", NULL };
static const struct jfield message_fields[] = { WORD("role", message_roles, REQ), STR("content", REQ), END };
static const struct jshape message_shape = { .name = "message", .fields = message_fields };
static const struct jfield message = OBJ(NULL, &message_shape);

static const char *const one_of_prompt[] = { "prompt", "messages", NULL };
static const struct jfield control_fields[] = {
	PAT("id", ID_PATTERN, ID_SAYS, REQ), STR("prompt"),
	ARR("messages", &message, 1, 64),    WORD("api", api_words),
	INT("max_tok", 1, 100000),           OBJ("sampling", &sampling_shape),
	ARR("must_match", &any_str, 1, 64),  ARR("must_not_match", &any_str, 1, 64),
	{ .key = "exact", .type = J_STR },   BOOL("json"),
	INT("min_tok", 0, 100000),           INT("answer_max_tok", 1, 100000),
	BOOL("same_as_reference"),           END,
};
static const struct jshape control_shape = { .name = "control",
	                                     .fields = control_fields,
	                                     .one_of = one_of_prompt };
static const struct jfield control = OBJ(NULL, &control_shape);

static const struct jfield recovery_step_fields[] = { NUM("limit_s", 0, 86400, ABOVE), END };
static const struct jshape recovery_step_shape = { .name = "recovery step", .fields = recovery_step_fields };
static const struct jfield recovery_fields[] = {
	OBJ("restart", &recovery_step_shape),
	OBJ("second_cold_start", &recovery_step_shape),
	OBJ("rollback", &recovery_step_shape),
	STR("procedure"),
	END,
};
static const struct jshape recovery_shape = { .name = "recovery", .fields = recovery_fields };

static const struct jfield instrument_fields[] = {
	NUM("max_send_lag_ms", 0, 10000, ABOVE),
	NUM("max_loop_lag_ms", 0, 10000, ABOVE),
	NUM("max_client_cpu_pct", 0, 10000, ABOVE),
	NUM("max_steal_pct", 0, 100),
	NUM("max_runq_wait_pct", 0, 10000),
	NUM("max_ttft_error_ms", 0, 10000, ABOVE),
	NUM("max_itl_error_ms", 0, 10000, ABOVE),
	NUM("min_delivered_share", 0, 1),
	NUM("calibration_s", 0, 600),
	INT("client_threads", 1, 256),
	BOOL("busy_poll"),
	END,
};
static const struct jshape instrument_shape = { .name = "instrument", .fields = instrument_fields };

/* --- telemetry, power, cost -------------------------------------------------------------------------------
 */

static const char *const telemetry_kinds[] = { "host",    "nvml",           "amdgpu", "rapl",   "ipmi",
	                                       "redfish", "engine_metrics", "csv",    "replay", NULL };
static const struct jfield telemetry_source_fields[] = {
	WORD("kind", telemetry_kinds, REQ),
	STR("path"),
	STR("url"),
	INT("period_ms", 10, 3600000),
	OBJ("user", &secret_shape),
	OBJ("password", &secret_shape),
	STR("ca_file"),
	END,
};
static const struct jshape telemetry_source_shape = { .name = "telemetry source",
	                                              .fields = telemetry_source_fields };
static const struct jfield telemetry_source = OBJ(NULL, &telemetry_source_shape);
static const struct jfield telemetry_fields[] = {
	INT("period_ms", 10, 60000),
	ARR("sources", &telemetry_source, 0, 32),
	END,
};
static const struct jshape telemetry_shape = { .name = "telemetry", .fields = telemetry_fields };

static const char *const power_kinds[] = { "wall", "pdu", "bmc", "gpu", "cpu", NULL };
static const char *const power_methods[] = { "nvml", "amdgpu", "rapl", "ipmi", "redfish", "csv", NULL };
static const struct jfield power_source_fields[] = {
	WORD("kind", power_kinds, REQ),
	WORD("method", power_methods, REQ),
	STR("path"),
	STR("url"),
	STR("column"),
	STR("covers"),
	INT("period_ms", 10, 3600000),
	NUM("accuracy_share", 0, 1),
	OBJ("user", &secret_shape),
	OBJ("password", &secret_shape),
	STR("ca_file"),
	END,
};
static const struct jshape power_source_shape = { .name = "power source", .fields = power_source_fields };
static const struct jfield power_source = OBJ(NULL, &power_source_shape);
static const struct jfield site_fields[] = {
	NUM("rack_limit_w", 0, 1e7, ABOVE),   NUM("psu_w", 0, 1e7, ABOVE),
	NUM("backup_limit_w", 0, 1e7, ABOVE), NUM("cooling_limit_w", 0, 1e7, ABOVE),
	NUM("inlet_limit_c", 0, 100, ABOVE),  END,
};
static const struct jshape site_shape = { .name = "site", .fields = site_fields };
static const struct jfield power_fields[] = {
	ARR("sources", &power_source, 0, 32),
	NUM("idle_s", 0, 86400),
	ARR("caps_w", &watts, 1, 32, .unique = true),
	NUM("reconcile_share", 0, 1, ABOVE),
	OBJ("site", &site_shape),
	END,
};
static const struct jshape power_shape = { .name = "power", .fields = power_fields };

static const struct jfield range_fields[] = { NUM("min", 0, 1e6, REQ), NUM("max", 0, 1e6, REQ), END };
static const struct jshape range_shape = { .name = "range", .fields = range_fields };
static const struct jfield hours_fields[] = {
	OBJ("base_images", &range_shape),
	OBJ("models", &range_shape),
	OBJ("updates", &range_shape),
	OBJ("diagnosis", &range_shape),
	END,
};
static const struct jshape hours_shape = { .name = "hours per month", .fields = hours_fields };
static const struct jfield cost_candidate_fields[] = {
	PAT("candidate", NAME_PATTERN, NAME_SAYS, REQ),
	NUM("hardware_price", 0, 1e12),
	NUM("gpu_memory_gib", 0, 1e6, ABOVE),
	OBJ("hours_per_month", &hours_shape),
	NUM("spare_price", 0, 1e12),
	NUM("spare_delivery_days", 0, 3650),
	END,
};
static const struct jshape cost_candidate_shape = { .name = "cost of a candidate",
	                                            .fields = cost_candidate_fields };
static const struct jfield cost_candidate = OBJ(NULL, &cost_candidate_shape);
static const struct jfield cost_fields[] = {
	PAT("currency", "[A-Z]{3}", "three capital letters such as EUR", REQ),
	NUM("energy_price_per_kwh", 0, 1e6),
	NUM("labour_price_per_hour", 0, 1e6),
	NUM("facility_factor", 1, 10),
	NUM("utilisation_share", 0, 1),
	INT("lifetime_months", 1, 600),
	ARR("candidates", &cost_candidate, 0, 16),
	ARR("assumptions", &any_str, 0, 64),
	END,
};
static const struct jshape cost_shape = { .name = "cost", .fields = cost_fields };

/* --- criteria and waivers ----------------------------------------------------------------------------------
 */

static const char *const all_word[] = { "all", NULL };
static const struct jfield where_fields[] = {
	PAT("workload", NAME_PATTERN, NAME_SAYS), INT("prompt_tok", 1, TOK_MAX), INT("concurrency", 0, 65536),
	NUM("rate_rps", 0, 1e6, ABOVE),           WORD("cells", all_word),       END,
};
static const struct jshape where_shape = { .name = "where", .fields = where_fields };
static const struct jfield limit_fields[] = { NUM("value", -1e15, 1e15, REQ), STR("unit"), END };
static const struct jshape limit_shape = { .name = "limit", .fields = limit_fields };
static const struct jfield criterion_fields[] = {
	PAT("id", ID_PATTERN, ID_SAYS, REQ),
	STR("sentence", REQ),
	STR("metric", REQ),
	OBJ("where", &where_shape),
	STR("statistic", REQ),
	WORD("comparator", comparator_words, REQ),
	OBJ("limit", &limit_shape, REQ),
	NUM("confidence", 0.5, 0.9999),
	WORD("severity", severity_words),
	END,
};
static const struct jshape criterion_shape = { .name = "criterion", .fields = criterion_fields };
static const struct jfield criterion = OBJ(NULL, &criterion_shape);

static const struct jfield waiver_fields[] = {
	STR("criterion", REQ),
	STR("reason", REQ),
	STR("owner", REQ),
	PAT("expires", DATE_PATTERN, DATE_SAYS),
	END,
};
static const struct jshape waiver_shape = { .name = "waiver", .fields = waiver_fields };
static const struct jfield waiver = OBJ(NULL, &waiver_shape);

static const struct jfield plan_fields[] = {
	INT("schema_version", 0, 1, REQ, ABOVE),
	OBJ("plan", &about_shape, REQ),
	OBJ("model", &model_shape, REQ),
	ARR("candidates", &candidate, 1, 16, REQ),
	ARR("workloads", &workload, 1, 64, REQ),
	ARR("controls", &control, 0, 256),
	INT("control_repeats", 1, 1000),
	OBJ("recovery", &recovery_shape),
	OBJ("instrument", &instrument_shape),
	OBJ("telemetry", &telemetry_shape),
	OBJ("power", &power_shape),
	ARR("criteria", &criterion, 1, 256, REQ),
	ARR("waivers", &waiver, 0, 256),
	OBJ("cost", &cost_shape),
	END,
};
const struct jshape plan_shape = { .name = "plan file", .fields = plan_fields };
