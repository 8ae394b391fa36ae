/* SPDX-License-Identifier: Apache-2.0 */
/* Each row changes one or two things of fixtures/plans/base.json and says which problem must come out, where,
 * and whether it is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fs.h"
#include "model/metric.h"
#include "model/plan_parts.h"

#define BASE "fixtures/plans/base.json"
#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
/* put together here, so that no scanner of this repository stumbles over them */
#define FAKE_RANDOM "Zx9Qw7Er5Ty3Ui1Op8As6Df4Gh2Jk0Lz"

enum { E = PROBLEM_ERROR, W = PROBLEM_WARNING, OK = -1 };

struct change {
	const char *pointer, *value; /* value NULL takes the member away; "/list/-" adds at the end */
};
struct row {
	const char *rule;
	struct change changes[4];
	int kind;
	const char *at, *says;
};

static const struct row rows[] = {
	/* --- the shape, a taste: test_json_shape and the schema suite have the rest --- */
	{ "names_the_near_key", { { "/workload", "[]" } }, E, "/workload", "did you mean 'workloads'" },
	{ "tells_allowed_words",
	  { { "/candidates/0/backend", "\"cud\"" } },
	  E,
	  "/candidates/0/backend",
	  "did you mean \"cuda\"" },
	{ "wants_the_schema_version", { { "/schema_version", NULL } }, E, "", "'schema_version' is missing" },
	{ "refuses_another_schema_version", { { "/schema_version", "2" } }, E, "/schema_version", "got 2" },
	{ "accepts_a_note_anywhere", { { "/criteria/0/limit/note", "[1, {\"a\": null}]" } }, OK, NULL, NULL },
	{ "refuses_two_ways_to_launch",
	  { { "/candidates/0/engine/launch/attach", "{\"url\": \"http://h\"}" } },
	  E,
	  "/candidates/0/engine/launch",
	  "exactly one" },

	/* --- plan --- */
	{ "refuses_a_day_that_does_not_exist",
	  { { "/plan/valid_from", "\"2026-02-29\"" } },
	  E,
	  "/plan/valid_from",
	  "no such day" },
	{ "accepts_a_leap_day", { { "/plan/valid_from", "\"2024-02-29\"" } }, OK, NULL, NULL },
	{ "refuses_an_hour_that_does_not_exist",
	  { { "/plan/not_before", "\"2026-01-01T24:00:00Z\"" } },
	  E,
	  "/plan/not_before",
	  "no such day or time" },
	{ "accepts_a_time_with_offset",
	  { { "/plan/not_before", "\"2026-01-01T23:59:60.5+05:30\"" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_an_end_before_the_start",
	  { { "/plan/valid_until", "\"2025-12-31\"" } },
	  E,
	  "/plan/valid_until",
	  "before 'valid_from'" },
	{ "warns_without_an_end", { { "/plan/valid_until", NULL } }, W, "/plan", "valid_until" },
	{ "refuses_unknown_rules", { { "/plan/rules", "2" } }, E, "/plan/rules", "rule set 2" },

	{ "tells_what_init_left_open", { { "/plan/owner", "\"FILL IN\"" } }, E, "/plan/owner", "still says" },

	/* --- model --- */
	{ "refuses_a_branch_as_revision",
	  { { "/model/revision", "\"main\"" } },
	  E,
	  "/model/revision",
	  "a name that moves" },
	{ "refuses_a_dated_nightly",
	  { { "/model/revision", "\"nightly-2026-01-02\"" } },
	  E,
	  "/model/revision",
	  "a name that moves" },
	{ "refuses_a_short_commit",
	  { { "/model/revision", "\"0123abc\"" } },
	  E,
	  "/model/revision",
	  "does not fix the weights" },
	{ "accepts_a_commit", { { "/model/revision", "\"" HEX40 "\"" } }, OK, NULL, NULL },
	{ "accepts_a_digest", { { "/model/revision", "\"sha256:" HEX64 "\"" } }, OK, NULL, NULL },
	{ "wants_a_hash_on_every_file",
	  { { "/model/files/0/sha256", NULL } },
	  E,
	  "/model/files/0",
	  "no 'sha256'" },
	{ "file_hashes_want_every_hash",
	  { { "/model/files/0/sha256", NULL } },
	  E,
	  "/model/revision",
	  "1 have none" },
	{ "file_hashes_want_files", { { "/model/files", "[]" } }, E, "/model/revision", "wants 'files'" },
	{ "refuses_a_file_twice",
	  { { "/model/files/-", "{\"path\": \"m.gguf\", \"sha256\": \"" HEX64 "\"}" } },
	  E,
	  "/model/files/1/path",
	  "same file as /model/files/0" },
	{ "warns_without_quantization_and_dtype",
	  { { "/model/quantization", NULL } },
	  W,
	  "/model",
	  "neither" },

	/* --- candidates --- */
	{ "refuses_a_candidate_twice",
	  { { "/candidates/1/name", "\"one\"" } },
	  E,
	  "/candidates/1",
	  "taken by /candidates/0" },
	{ "wants_an_architecture_on_rocm", { { "/candidates/1/arch", NULL } }, E, "/candidates/1", "gfx942" },
	{ "refuses_a_cuda_name_on_rocm",
	  { { "/candidates/1/arch", "\"sm_90\"" } },
	  E,
	  "/candidates/1/arch",
	  "no rocm architecture" },
	{ "accepts_sm_90a_on_cuda",
	  { { "/candidates/1/arch", "\"sm_90a\"" }, { "/candidates/1/backend", "\"cuda\"" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_a_floating_engine_version",
	  { { "/candidates/0/engine/version", "\"nightly\"" }, { "/candidates/0/engine/commit", NULL } },
	  E,
	  "/candidates/0/engine/version",
	  "a name that moves" },
	{ "accepts_a_floating_version_with_its_commit",
	  { { "/candidates/0/engine/version", "\"nightly\"" } },
	  OK,
	  NULL,
	  NULL },
	{ "warns_without_version_and_commit",
	  { { "/candidates/0/engine/version", NULL }, { "/candidates/0/engine/commit", NULL } },
	  W,
	  "/candidates/0/engine",
	  "neither 'version' nor 'commit'" },
	{ "refuses_an_image_by_tag",
	  { { "/candidates/0/engine/launch", "{\"container\": {\"image\": \"vllm/vllm-openai:v0.32.0\"}}" } },
	  E,
	  "/candidates/0/engine/launch/container/image",
	  "@sha256:" },
	{ "accepts_an_image_by_digest",
	  { { "/candidates/0/engine/launch",
	      "{\"container\": {\"image\": \"a.b/c:latest@sha256:" HEX64 "\"}}" } },
	  W,
	  "/candidates/0/engine",
	  "containers are not started yet" },
	{ "refuses_args_of_an_attached_server",
	  { { "/candidates/1/engine/args", "[\"-c\"]" } },
	  E,
	  "/candidates/1/engine",
	  "'args' and launch 'attach'" },
	{ "refuses_env_of_an_attached_server",
	  { { "/candidates/1/engine/env", "[{\"name\": \"A\", \"value\": \"b\"}]" } },
	  E,
	  "/candidates/1/engine",
	  "'env' and launch 'attach'" },
	{ "engine_attach_wants_launch_attach",
	  { { "/candidates/0/engine/kind", "\"attach\"" } },
	  E,
	  "/candidates/0/engine",
	  "want launch 'attach'" },
	{ "refuses_a_url_of_another_scheme",
	  { { "/candidates/1/engine/launch/attach/url", "\"ftp://h/\"" } },
	  E,
	  "/candidates/1/engine/launch/attach/url",
	  "http://HOST:PORT" },
	{ "refuses_a_url_with_query",
	  { { "/candidates/1/engine/launch/attach/url", "\"http://h/?a=b\"" } },
	  E,
	  "/candidates/1/engine/launch/attach/url",
	  "without user, query" },
	{ "refuses_bad_cpus",
	  { { "/candidates/0/engine/cpus", "\"3-1\"" } },
	  E,
	  "/candidates/0/engine/cpus",
	  "CPU numbers" },
	{ "refuses_a_cpu_twice",
	  { { "/candidates/0/client_cpus", "\"2,1-3\"" } },
	  E,
	  "/candidates/0/client_cpus",
	  "none twice" },
	{ "warns_when_client_and_engine_share_a_cpu",
	  { { "/candidates/0/client_cpus", "\"1\"" } },
	  W,
	  "/candidates/0",
	  "share CPUs" },
	{ "warns_without_port_in_args",
	  { { "/candidates/0/engine/args", "[]" } },
	  W,
	  "/candidates/0/engine",
	  "no {port}" },
	{ "warns_of_an_unknown_placeholder",
	  { { "/candidates/0/engine/args/-", "\"{ports}\"" } },
	  W,
	  "/candidates/0/engine",
	  "passed on as it stands" },
	{ "refuses_a_variable_twice",
	  { { "/candidates/0/engine/env/-", "{\"name\": \"EXTRA\", \"value\": \"1\"}" } },
	  E,
	  "/candidates/0/engine/env/3",
	  "set by" },
	{ "warns_of_the_gfx_override",
	  { { "/candidates/0/engine/env/-",
	      "{\"name\": \"HSA_OVERRIDE_GFX_VERSION\", \"value\": \"11.0.0\"}" } },
	  W,
	  "/candidates/0/engine/env/3",
	  "another architecture" },
	{ "warns_of_weak_support",
	  { { "/candidates/0/support/0/class", "\"unmaintained_fork\"" } },
	  W,
	  "/candidates/0/support/0",
	  "pause the purchase" },
	{ "refuses_a_support_date_that_does_not_exist",
	  { { "/candidates/0/support/0/date", "\"2026-13-01\"" } },
	  E,
	  "/candidates/0/support/0",
	  "no such day" },
	{ "rollback_wants_a_previous_release",
	  { { "/candidates/0/previous", NULL } },
	  E,
	  "/candidates/0",
	  "no release to go back to" },
	{ "refuses_a_floating_previous_release",
	  { { "/candidates/0/previous/version", "\"latest\"" }, { "/candidates/0/previous/commit", NULL } },
	  E,
	  "/candidates/0/previous",
	  "a name that moves" },
	{ "refuses_a_previous_release_to_attach_to",
	  { { "/candidates/0/previous/launch", "{\"attach\": {\"url\": \"http://h:1\"}}" } },
	  E,
	  "/candidates/0/previous",
	  "has to start the release" },
	{ "warns_of_an_engine_without_adapter",
	  { { "/candidates/0/engine/kind", "\"vllm\"" } },
	  W,
	  "/candidates/0/engine",
	  "no adapter yet" },

	/* --- secrets --- */
	{ "refuses_an_api_key_argument",
	  { { "/candidates/0/engine/args/-", "\"--api-key\"" },
	    { "/candidates/0/engine/args/-", "\"hunter2\"" } },
	  E,
	  "/candidates/0/engine/args/7",
	  "secret option" },
	{ "refuses_an_api_key_in_one_argument",
	  { { "/candidates/0/engine/args/-", "\"--api-key=hunter2\"" } },
	  E,
	  "/candidates/0/engine/args/6",
	  "behind its name" },
	{ "accepts_a_limit_that_sounds_like_a_token",
	  { { "/candidates/0/engine/args/-", "\"--max-tokens=4096\"" },
	    { "/candidates/0/engine/args/-", "\"--api-key-file=/run/key\"" } },
	  OK,
	  NULL,
	  NULL },
	{ "accepts_an_option_whose_value_is_a_placeholder",
	  { { "/candidates/0/engine/args/-", "\"--api-key\"" },
	    { "/candidates/0/engine/args/-", "\"{alias}\"" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_a_random_value_of_a_key_variable",
	  { { "/candidates/0/engine/env/0",
	      "{\"name\": \"SERVICE_TOKEN\", \"value\": \"" FAKE_RANDOM "\"}" } },
	  E,
	  "/candidates/0/engine/env/0/value",
	  "whose name says" },
	{ "refuses_any_value_of_a_password_variable",
	  { { "/candidates/0/engine/env/0", "{\"name\": \"DB_PASSWORD\", \"value\": \"hunter2\"}" } },
	  E,
	  "/candidates/0/engine/env/0/value",
	  "whose name says" },
	{ "accepts_a_tokenizer_switch",
	  { { "/candidates/0/engine/env/0",
	      "{\"name\": \"TOKENIZERS_PARALLELISM\", \"value\": \"false\"}" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_a_user_in_a_url",
	  { { "/candidates/1/engine/launch/attach/url", "\"http://joe:hunter2@h/\"" } },
	  E,
	  "/candidates/1/engine/launch/attach/url",
	  "password in a URL" },
	{ "refuses_a_key_in_a_query",
	  { { "/candidates/1/engine/launch/attach/url", "\"http://h/?api_key=hunter2x\"" } },
	  E,
	  "/candidates/1/engine/launch/attach/url",
	  "query of a URL" },
	{ "refuses_a_known_token_even_in_a_note",
	  { { "/plan/note", "\"use hf_" FAKE_RANDOM " for it\"" } },
	  E,
	  "/plan/note",
	  "Hugging Face" },
	{ "refuses_a_bearer_value",
	  { { "/candidates/0/engine/args/-", "\"Authorization: Bearer abcdefgh1234\"" } },
	  E,
	  "/candidates/0/engine/args/6",
	  "Bearer" },
	{ "refuses_a_secret_where_a_revision_belongs",
	  { { "/model/revision", "\"ghp_" FAKE_RANDOM "\"" } },
	  E,
	  "/model/revision",
	  "GitHub" },
	{ "refuses_a_secret_as_a_key",
	  { { "/plan/sk-" FAKE_RANDOM, "1" } },
	  E,
	  "/plan",
	  "a key of this object" },

	/* --- workloads --- */
	{ "wants_a_critical_workload", { { "/workloads/0/critical", "false" } }, E, "/workloads", "got 0" },
	{ "refuses_two_critical_workloads",
	  { { "/workloads/1/critical", "true" } },
	  E,
	  "/workloads",
	  "got 2" },
	{ "refuses_a_workload_twice",
	  { { "/workloads/1/name", "\"chat\"" } },
	  E,
	  "/workloads/1",
	  "taken by /workloads/0" },
	{ "refuses_a_critical_context_not_listed",
	  { { "/workloads/0/critical_prompt_tok", "64" } },
	  E,
	  "/workloads/0",
	  "not in 'prompt_tok' (32, 128)" },
	{ "refuses_a_critical_load_not_listed",
	  { { "/workloads/0/critical_concurrency", "4" } },
	  E,
	  "/workloads/0",
	  "not in 'concurrency' (1, 2)" },
	{ "refuses_nothing_to_send", { { "/workloads/1/duration_s", "0" } }, E, "/workloads/1", "both 0" },
	{ "refuses_nothing_to_send_in_other_cells",
	  { { "/workloads/0/other_requests", "0" } },
	  E,
	  "/workloads/0",
	  "'other_requests' and 'duration_s'" },
	{ "refuses_concurrency_0_in_a_closed_loop",
	  { { "/workloads/0/concurrency/0", "0" } },
	  E,
	  "/workloads/0",
	  "sends nothing" },
	{ "wants_concurrency_in_a_closed_loop",
	  { { "/workloads/0/concurrency", NULL } },
	  E,
	  "/workloads/0",
	  "'concurrency' is missing" },
	{ "refuses_two_bounds_in_an_open_loop",
	  { { "/workloads/1/concurrency", "[4, 8]" } },
	  E,
	  "/workloads/1",
	  "one number" },
	{ "wants_a_rate_in_an_open_loop",
	  { { "/workloads/1/arrival/rate_rps", NULL } },
	  E,
	  "/workloads/1/arrival",
	  "wants 'rate_rps'" },
	{ "refuses_a_rate_in_a_closed_loop",
	  { { "/workloads/1/arrival/kind", "\"closed\"" } },
	  E,
	  "/workloads/1/arrival",
	  "has no 'rate_rps'" },
	{ "trace_wants_a_file",
	  { { "/workloads/1/arrival", "{\"kind\": \"trace\"}" } },
	  E,
	  "/workloads/1/arrival",
	  "path of the file" },
	{ "refuses_more_than_the_context",
	  { { "/workloads/0/output_tok", "4000" } },
	  E,
	  "/workloads/0",
	  "more than the context of 4096" },
	{ "refuses_a_deadline_before_the_first_byte",
	  { { "/workloads/0/deadline_s", "30" } },
	  E,
	  "/workloads/0",
	  "shorter than 'first_byte_timeout_s' 60" },
	{ "wants_prompt_lengths",
	  { { "/workloads/0/prompt_tok", NULL } },
	  E,
	  "/workloads/0",
	  "'prompt_tok' is missing" },
	{ "native_api_wants_llamacpp",
	  { { "/workloads/0/api", "\"llamacpp\"" }, { "/candidates/0/engine/kind", "\"sglang\"" } },
	  E,
	  "/workloads/0",
	  "does not exist on candidate \"one\"" },
	/* --- schedules, mixes, conversations, canaries --- */
	{ "accepts_a_sweep",
	  { { "/workloads/1/arrival",
	      "{\"kind\": \"poisson\", \"rates_rps\": [4, 1, 2.5], \"stop_when_saturated\": true}" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_rate_and_rates",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1], \"rate_rps\": 2}" } },
	  E,
	  "/workloads/1/arrival",
	  "contradict each other" },
	{ "refuses_a_rate_twice",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 2, 1]}" } },
	  E,
	  "/workloads/1/arrival/rates_rps",
	  "twice" },
	{ "refuses_rates_of_one_name",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 1.0000000001]}" } },
	  E,
	  "/workloads/1/arrival",
	  "the same name" },
	{ "closed_loop_has_no_rates",
	  { { "/workloads/1/arrival", "{\"kind\": \"closed\", \"rates_rps\": [1, 2]}" },
	    { "/workloads/1/concurrency", "[1]" } },
	  E,
	  "/workloads/1/arrival",
	  "has no 'rates_rps'" },
	{ "ramp_wants_its_end",
	  { { "/workloads/1/arrival", "{\"kind\": \"ramp\", \"rate_rps\": 1}" } },
	  E,
	  "/workloads/1/arrival",
	  "'rate_end_rps'" },
	{ "ramp_wants_its_length",
	  { { "/workloads/1/arrival", "{\"kind\": \"ramp\", \"rate_rps\": 1, \"rate_end_rps\": 3}" },
	    { "/workloads/1/duration_s", NULL },
	    { "/workloads/1/requests", "50" } },
	  E,
	  "/workloads/1",
	  "wants 'duration_s'" },
	{ "ramp_is_no_sweep",
	  { { "/workloads/1/arrival",
	      "{\"kind\": \"ramp\", \"rate_rps\": 1, \"rate_end_rps\": 3, \"rates_rps\": [1, 2]}" } },
	  E,
	  "/workloads/1/arrival",
	  "a ramp is one cell" },
	{ "accepts_a_ramp",
	  { { "/workloads/1/arrival", "{\"kind\": \"ramp\", \"rate_rps\": 1, \"rate_end_rps\": 3}" } },
	  OK,
	  NULL,
	  NULL },
	{ "an_end_rate_belongs_to_ramps",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rate_rps\": 1, \"rate_end_rps\": 3}" } },
	  E,
	  "/workloads/1/arrival",
	  "belongs to arrival \"ramp\"" },
	{ "accepts_gamma",
	  { { "/workloads/1/arrival", "{\"kind\": \"gamma\", \"rate_rps\": 1, \"burstiness\": 0.5}" } },
	  OK,
	  NULL,
	  NULL },
	{ "burstiness_belongs_to_gamma",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rate_rps\": 1, \"burstiness\": 0.5}" } },
	  E,
	  "/workloads/1/arrival",
	  "belongs to arrival \"gamma\"" },
	{ "speed_belongs_to_traces",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rate_rps\": 1, \"speed\": 2}" } },
	  E,
	  "/workloads/1/arrival",
	  "belongs to arrival \"trace\"" },
	{ "stop_wants_a_sweep",
	  { { "/workloads/1/arrival",
	      "{\"kind\": \"poisson\", \"rate_rps\": 1, \"stop_when_saturated\": true}" } },
	  E,
	  "/workloads/1/arrival",
	  "wants a sweep" },
	{ "stop_wants_a_sweep_of_several",
	  { { "/workloads/1/arrival",
	      "{\"kind\": \"poisson\", \"rates_rps\": [1], \"stop_when_saturated\": true}" } },
	  E,
	  "/workloads/1/arrival",
	  "wants a sweep" },
	{ "accepts_stop_over_concurrencies",
	  { { "/workloads/0/arrival", "{\"kind\": \"closed\", \"stop_when_saturated\": true}" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_more_requests_than_a_schedule_holds",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rate_rps\": 1e6}" } },
	  E,
	  "/workloads/1",
	  "at most 20000000" },
	{ "refuses_less_than_one_request",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [0.01, 1]}" } },
	  E,
	  "/workloads/1",
	  "less than one request" },
	{ "accepts_a_trace_of_all_rows",
	  { { "/workloads/1/arrival", "{\"kind\": \"trace\", \"trace\": \"t.jsonl\", \"speed\": 2}" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL },
	    { "/workloads/1/duration_s", NULL } },
	  OK,
	  NULL,
	  NULL },
	{ "trace_gives_the_lengths",
	  { { "/workloads/1/arrival", "{\"kind\": \"trace\", \"trace\": \"t.jsonl\"}" } },
	  E,
	  "/workloads/1",
	  "a trace gives the lengths" },
	{ "trace_has_no_mix",
	  { { "/workloads/1/arrival", "{\"kind\": \"trace\", \"trace\": \"t.jsonl\"}" },
	    { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1",
	  "take 'mix' away" },
	{ "trace_has_no_conversations",
	  { { "/workloads/1/arrival", "{\"kind\": \"trace\", \"trace\": \"t.jsonl\"}" },
	    { "/workloads/1/conversation", "{\"turns\": 3}" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1/conversation",
	  "want another arrival" },
	{ "accepts_a_mix",
	  { { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  OK,
	  NULL,
	  NULL },
	{ "mix_gives_the_lengths",
	  { { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1",
	  "'mix' gives the lengths" },
	{ "refuses_a_part_twice",
	  { { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"a\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1/mix/1",
	  "is taken by /workloads/1/mix/0" },
	{ "refuses_a_part_over_the_context",
	  { { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 4090, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1/mix/1",
	  "more than the context of 4096" },
	{ "mix_has_no_critical_prompt_tok",
	  { { "/workloads/0/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/0/prompt_tok", NULL },
	    { "/workloads/0/output_tok", NULL } },
	  E,
	  "/workloads/0",
	  "gives the lengths" },
	{ "where_of_a_mix_has_no_prompt_tok",
	  { { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 32}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"e2e\", \"statistic\": "
	                     "\"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\", \"prompt_tok\": 100}}" } },
	  E,
	  "/criteria/5/where",
	  "its mix gives the lengths" },
	{ "accepts_conversations",
	  { { "/workloads/0/conversation", "{\"turns\": 3, \"turn_prompt_tok\": 20, \"think_s\": 1.5}" } },
	  OK,
	  NULL,
	  NULL },
	{ "requests_are_whole_conversations",
	  { { "/workloads/0/conversation", "{\"turns\": 7}" }, { "/workloads/0/other_requests", "7" } },
	  E,
	  "/workloads/0",
	  "not a multiple of the 7 turns" },
	{ "other_requests_are_whole_conversations",
	  { { "/workloads/0/conversation", "{\"turns\": 4}" } },
	  E,
	  "/workloads/0",
	  "'other_requests' 6 is not a multiple" },
	{ "last_turn_must_fit",
	  { { "/workloads/0/conversation", "{\"turns\": 6, \"turn_prompt_tok\": 700}" } },
	  E,
	  "/workloads/0",
	  "128 prompt + 6 turns x (700 prompt + 16 output)" },
	{ "one_turn_is_no_conversation",
	  { { "/workloads/0/conversation", "{\"turns\": 1}" } },
	  E,
	  "/workloads/0/conversation/turns",
	  "from 2 to 64" },
	{ "accepts_canaries",
	  { { "/workloads/0/canary_share", "0.1" },
	    { "/workloads/0/output_tok", "24" },
	    { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"foreign_nonces\", \"statistic\": "
	      "\"count\", \"comparator\": \"<=\", \"limit\": {\"value\": 0, \"unit\": \"count\"}}" } },
	  OK,
	  NULL,
	  NULL },
	{ "canaries_want_room_for_an_answer",
	  { { "/workloads/0/canary_share", "0.1" } },
	  E,
	  "/workloads/0",
	  "16 output tokens cannot hold a nonce" },
	{ "canaries_want_room_in_each_part",
	  { { "/workloads/1/canary_share", "0.1" },
	    { "/workloads/1/mix",
	      "[{\"name\": \"a\", \"weight\": 1, \"prompt_tok\": 100, \"output_tok\": 8}, {\"name\": \"b\", "
	      "\"weight\": 3, \"prompt_tok\": 900, \"output_tok\": 64}]" },
	    { "/workloads/1/prompt_tok", NULL },
	    { "/workloads/1/output_tok", NULL } },
	  E,
	  "/workloads/1/mix/0",
	  "8 output tokens cannot hold a nonce" },
	{ "canaries_are_last_turns",
	  { { "/workloads/0/canary_share", "0.4" },
	    { "/workloads/0/output_tok", "32" },
	    { "/workloads/0/conversation", "{\"turns\": 3}" } },
	  E,
	  "/workloads/0",
	  "want at most 0.3333" },
	{ "foreign_nonces_want_canaries",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"foreign_nonces\", \"statistic\": "
	      "\"count\", \"comparator\": \"<=\", \"limit\": {\"value\": 0, \"unit\": \"count\"}}" } },
	  E,
	  "/criteria/5",
	  "nothing would be counted" },
	{ "failed_canaries_want_canaries",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"canary_failed_share\", \"statistic\": "
	      "\"share\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"%\"}}" } },
	  E,
	  "/criteria/5",
	  "has no 'canary_share'" },
	{ "suspicious_answers_want_counters",
	  { { "/workloads/0/text_counters", "false" },
	    { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"suspicious_answer_share\", \"statistic\": "
	      "\"share\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"%\"}}" } },
	  E,
	  "/criteria/5",
	  "'text_counters' is false" },
	{ "spacing_wants_an_open_loop",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"spacing_error\", \"statistic\": \"p50\", "
	      "\"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"ms\"}}" } },
	  E,
	  "/criteria/5",
	  "no spacing" },
	{ "warns_of_retries_that_are_not_allowed",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"retried_share\", \"statistic\": \"share\", "
	      "\"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"%\"}}" } },
	  W,
	  "/criteria/5",
	  "has no 'retry'" },
	{ "accepts_retries",
	  { { "/workloads/0/retry", "{\"max\": 2, \"on\": [\"status\", \"timeout\"], \"backoff_s\": 0}" } },
	  OK,
	  NULL,
	  NULL },
	{ "retries_are_one_or_more",
	  { { "/workloads/0/retry", "{\"max\": 0}" } },
	  E,
	  "/workloads/0/retry/max",
	  "from 1 to 10, got 0" },
	{ "whole_answers_have_no_ttft",
	  { { "/workloads/1/stream", "false" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"ttft\", \"statistic\": "
	                     "\"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\"}}" } },
	  E,
	  "/criteria/5",
	  "'stream' is false" },
	{ "whole_answers_have_no_ttft_content",
	  { { "/workloads/1/stream", "false" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"ttft_content\", "
	                     "\"statistic\": \"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, "
	                     "\"unit\": \"s\"}, \"where\": {\"workload\": \"open\"}}" } },
	  E,
	  "/criteria/5",
	  "'stream' is false" },
	{ "whole_answers_have_no_itl",
	  { { "/workloads/1/stream", "false" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"itl\", \"statistic\": "
	                     "\"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"ms\"}, "
	                     "\"where\": {\"workload\": \"open\"}}" } },
	  E,
	  "/criteria/5",
	  "'stream' is false" },
	{ "whole_answers_have_no_tpot",
	  { { "/workloads/1/stream", "false" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"tpot\", \"statistic\": "
	                     "\"p50\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"ms\"}, "
	                     "\"where\": {\"workload\": \"open\"}}" } },
	  E,
	  "/criteria/5",
	  "'stream' is false" },
	{ "whole_answers_have_an_end",
	  { { "/workloads/1/stream", "false" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"e2e\", \"statistic\": "
	                     "\"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\"}}" } },
	  OK,
	  NULL,
	  NULL },
	{ "accepts_a_criterion_on_a_rate",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 2, 4]}" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"e2e\", \"statistic\": "
	                     "\"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\", \"rate_rps\": 2}}" } },
	  OK,
	  NULL,
	  NULL },
	{ "refuses_a_rate_of_no_cell",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 2, 4]}" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"e2e\", \"statistic\": "
	                     "\"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\", \"rate_rps\": 3}}" } },
	  E,
	  "/criteria/5/where",
	  "and rate_rps 3: take them" },
	{ "refuses_all_cells_and_a_rate",
	  { { "/workloads/1/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 2, 4]}" },
	    { "/criteria/-", "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"e2e\", \"statistic\": "
	                     "\"max\", \"comparator\": \"<=\", \"limit\": {\"value\": 5, \"unit\": \"s\"}, "
	                     "\"where\": {\"workload\": \"open\", \"rate_rps\": 2, \"cells\": \"all\"}}" } },
	  E,
	  "/criteria/5/where",
	  "contradict each other" },
	{ "critical_rate_is_one_of_the_rates",
	  { { "/workloads/0/arrival", "{\"kind\": \"poisson\", \"rates_rps\": [1, 2]}" },
	    { "/workloads/0/concurrency", "[1]" },
	    { "/workloads/0/critical_rate_rps", "3" } },
	  E,
	  "/workloads/0",
	  "is not in 'rates_rps' (1, 2)" },
	{ "critical_rate_belongs_to_rates",
	  { { "/workloads/0/critical_rate_rps", "3" } },
	  E,
	  "/workloads/0",
	  "belongs to 'rates_rps'" },
	{ "an_endpoint_wants_its_engine",
	  { { "/workloads/1/api", "\"triton\"" } },
	  E,
	  "/workloads/1",
	  "does not exist on candidate \"one\" (llamacpp): use \"chat\", \"completions\", \"llamacpp\"" },
	{ "warns_of_more_threads_than_cpus",
	  { { "/instrument", "{\"client_threads\": 2}" } },
	  W,
	  "/instrument/client_threads",
	  "2 threads on the 1 CPUs" },
	{ "warns_without_calibration",
	  { { "/instrument", "{\"calibration_s\": 0}" } },
	  W,
	  "/instrument/calibration_s",
	  "no calibration" },
	{ "training_wants_its_object",
	  { { "/workloads/1/class", "\"training\"" } },
	  E,
	  "/workloads/1",
	  "wants a 'training' object" },
	{ "training_belongs_to_training",
	  { { "/workloads/0/training", "{\"steps\": 1, \"batch_size\": 1, \"precision\": \"bf16\"}" } },
	  E,
	  "/workloads/0",
	  "belongs to class" },

	/* --- controls --- */
	{ "warns_without_controls",
	  { { "/controls", "[]" }, { "/criteria/2", NULL } },
	  W,
	  "/controls",
	  "nonsense" },
	{ "refuses_a_control_that_expects_nothing",
	  { { "/controls/1/same_as_reference", NULL } },
	  E,
	  "/controls/1",
	  "expects nothing" },
	{ "tells_where_a_pattern_breaks",
	  { { "/controls/0/must_match/0", "\"(par\"" } },
	  E,
	  "/controls/0/must_match/0",
	  "at offset 4" },
	{ "refuses_a_control_twice",
	  { { "/controls/1/id", "\"capital\"" } },
	  E,
	  "/controls/1",
	  "taken by /controls/0" },
	{ "refuses_bounds_that_cross",
	  { { "/controls/0/min_tok", "21" } },
	  E,
	  "/controls/0",
	  "above 'answer_max_tok'" },
	{ "refuses_a_length_never_reached",
	  { { "/controls/0/max_tok", "10" }, { "/controls/0/min_tok", "11" } },
	  E,
	  "/controls/0",
	  "can never be reached" },
	{ "messages_want_chat",
	  { { "/controls/1/api", "\"completions\"" } },
	  E,
	  "/controls/1",
	  "need api \"chat\"" },
	{ "warns_of_a_reference_at_a_temperature",
	  { { "/controls/1/sampling", "{\"temperature\": 0.7}" } },
	  W,
	  "/controls/1",
	  "only temperature 0" },

	/* --- recovery, waivers --- */
	{ "warns_without_recovery",
	  { { "/recovery", NULL }, { "/criteria/4", NULL }, { "/waivers", NULL } },
	  W,
	  "/recovery",
	  "no recovery" },
	{ "wants_an_end_of_a_waiver", { { "/waivers/0/expires", NULL } }, E, "/waivers/0", "no 'expires'" },
	{ "refuses_an_end_that_does_not_exist",
	  { { "/waivers/0/expires", "\"2026-06-31\"" } },
	  E,
	  "/waivers/0/expires",
	  "no such day" },
	{ "refuses_a_waiver_of_nothing",
	  { { "/waivers/0/criterion", "\"cald\"" } },
	  E,
	  "/waivers/0/criterion",
	  "did you mean \"cold\"" },
	{ "refuses_a_waiver_twice",
	  { { "/waivers/-", "{\"criterion\": \"cold\", \"reason\": \"x\", \"owner\": \"x\", \"expires\": "
	                    "\"2026-01-01\"}" } },
	  E,
	  "/waivers/1",
	  "has a waiver already" },

	/* --- criteria --- */
	{ "refuses_a_criterion_twice",
	  { { "/criteria/1/id", "\"ttft-median\"" } },
	  E,
	  "/criteria/1",
	  "taken by /criteria/0" },
	{ "names_the_near_metric",
	  { { "/criteria/0/metric", "\"tttf\"" } },
	  E,
	  "/criteria/0/metric",
	  "did you mean \"ttft\"" },
	{ "refuses_a_statistic_of_another_kind",
	  { { "/criteria/1/statistic", "\"p90\"" } },
	  E,
	  "/criteria/1/statistic",
	  "want one of share" },
	{ "wants_a_unit",
	  { { "/criteria/0/limit/unit", NULL } },
	  E,
	  "/criteria/0/limit",
	  "ns, us, ms, s, min, h" },
	{ "refuses_a_unit_of_another_dimension",
	  { { "/criteria/3/limit/unit", "\"s\"" } },
	  E,
	  "/criteria/3/limit/unit",
	  "GiB" },
	{ "refuses_a_unit_nobody_knows",
	  { { "/criteria/0/limit/unit", "\"sec\"" } },
	  E,
	  "/criteria/0/limit/unit",
	  "is no unit" },
	{ "warns_against_the_direction",
	  { { "/criteria/0/comparator", "\">=\"" } },
	  W,
	  "/criteria/0",
	  "against the direction" },
	{ "refuses_a_limit_below_0",
	  { { "/criteria/0/limit/value", "-3" } },
	  E,
	  "/criteria/0/limit/value",
	  "below 0" },
	{ "refuses_a_time_of_0",
	  { { "/criteria/0/limit/value", "0" } },
	  E,
	  "/criteria/0/limit/value",
	  "can never be reached" },
	{ "refuses_a_count_below_0",
	  { { "/criteria/2/comparator", "\"<\"" } },
	  E,
	  "/criteria/2/limit/value",
	  "want \"<=\"" },
	{ "refuses_more_than_the_whole",
	  { { "/criteria/1/limit/value", "120" } },
	  E,
	  "/criteria/1/limit/value",
	  "more than the whole" },
	{ "names_the_near_workload",
	  { { "/criteria/1/where/workload", "\"chta\"" } },
	  E,
	  "/criteria/1/where/workload",
	  "did you mean \"chat\"" },
	{ "refuses_a_cell_that_does_not_exist",
	  { { "/criteria/0/where", "{\"prompt_tok\": 64}" } },
	  E,
	  "/criteria/0/where",
	  "no cell with prompt_tok 64 and concurrency 1" },
	{ "refuses_all_cells_and_one",
	  { { "/criteria/1/where/prompt_tok", "32" } },
	  E,
	  "/criteria/1/where",
	  "contradict" },
	{ "warns_of_a_place_without_meaning",
	  { { "/criteria/3/where", "{\"workload\": \"chat\"}" } },
	  W,
	  "/criteria/3/where",
	  "whole run" },
	{ "wants_something_on_the_critical_cell",
	  { { "/criteria/0/where", "{\"prompt_tok\": 128}" }, { "/criteria/0/statistic", "\"mean\"" } },
	  E,
	  "/criteria",
	  "critical cell of workload \"chat\"" },
	{ "a_should_does_not_gate_the_critical_cell",
	  { { "/criteria/0/severity", "\"should\"" } },
	  E,
	  "/criteria",
	  "critical cell" },
	{ "warns_without_memory", { { "/criteria/3", NULL } }, W, "/criteria", "no criterion on memory" },
	{ "controls_failed_wants_controls", { { "/controls", "[]" } }, E, "/criteria/2", "without controls" },
	{ "second_start_wants_recovery",
	  { { "/recovery/second_cold_start", NULL } },
	  E,
	  "/criteria/4",
	  "is not measured" },
	{ "says_what_is_not_tested_yet",
	  { { "/criteria/3",
	      "{\"id\": \"m\", \"sentence\": \"x\", \"metric\": \"leak_slope\", \"statistic\": "
	      "\"value\", \"comparator\": \"<=\", \"limit\": {\"value\": 1, \"unit\": \"MiB/h\"}}" } },
	  W,
	  "/criteria/3",
	  "not_tested" },

	/* --- enough requests: n_min(0) of statistics rule set 1 --- */
	{ "p99_wants_299",
	  { { "/criteria/0/statistic", "\"p99\"" } },
	  E,
	  "/criteria/0",
	  "needs 299 requests" },
	{ "298_are_not_enough_for_p99",
	  { { "/criteria/0/statistic", "\"p99\"" }, { "/workloads/0/requests", "298" } },
	  E,
	  "/criteria/0",
	  "the plan gives 298" },
	{ "299_are_enough_for_p99",
	  { { "/criteria/0/statistic", "\"p99\"" }, { "/workloads/0/requests", "299" } },
	  OK,
	  NULL,
	  NULL },
	{ "three_looks_want_408",
	  { { "/criteria/0/statistic", "\"p99\"" },
	    { "/workloads/0/requests", "407" },
	    { "/workloads/0/looks", "3" } },
	  E,
	  "/criteria/0",
	  "3 looks needs 408" },
	{ "higher_confidence_wants_more",
	  { { "/criteria/0/statistic", "\"p99\"" }, { "/criteria/0/confidence", "0.99" } },
	  E,
	  "/criteria/0",
	  "needs 459" },
	{ "p999_wants_2995", { { "/criteria/0/statistic", "\"p999\"" } }, E, "/criteria/0", "needs 2995" },
	{ "itl_counts_the_gaps_of_every_answer",
	  { { "/criteria/0/metric", "\"itl\"" },
	    { "/criteria/0/statistic", "\"p99\"" },
	    { "/workloads/0/requests", "20" },
	    { "/criteria/1/limit/value", "20" } },
	  OK,
	  NULL,
	  NULL },
	{ "itl_wants_enough_gaps_too",
	  { { "/criteria/0/metric", "\"itl\"" },
	    { "/criteria/0/statistic", "\"p99\"" },
	    { "/workloads/0/requests", "19" } },
	  E,
	  "/criteria/0",
	  "needs 299 gaps even when all are in time, the plan gives 285" },
	{ "other_cells_send_fewer",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"ttft\", \"where\": {\"prompt_tok\": "
	      "128}, \"statistic\": \"p90\", \"comparator\": \"<=\", \"limit\": {\"value\": 1, "
	      "\"unit\": \"s\"}}" } },
	  E,
	  "/criteria/5",
	  "the plan gives 6" },
	{ "warns_of_a_quantile_by_duration",
	  { { "/criteria/-",
	      "{\"id\": \"x\", \"sentence\": \"x\", \"metric\": \"ttft\", \"where\": {\"workload\": "
	      "\"open\"}, \"statistic\": \"p90\", \"comparator\": \"<=\", \"limit\": {\"value\": 1, "
	      "\"unit\": \"s\"}}" } },
	  W,
	  "/criteria/5",
	  "may end with fewer" },
	{ "a_share_wants_requests_too",
	  { { "/criteria/1/limit/value", "1" } },
	  E,
	  "/criteria/1",
	  "needs 299 requests" },
	{ "no_share_of_0",
	  { { "/criteria/1/limit/value", "0" } },
	  E,
	  "/criteria/1",
	  "no number of requests" },
};

/* --- changing a document
 * ------------------------------------------------------------------------------------- */

static struct cJSON *read_base(void)
{
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	struct err err = { 0 };
	struct cJSON *doc = NULL;

	assert_int_equal(fs_read(&text, BASE, PLAN_BYTES_MAX, &err), 0);
	assert_int_equal(json_parse(&doc, text.p, text.len, BASE, JSON_STRICT, NULL, &err), 0);
	return doc;
}

static struct cJSON *child(struct cJSON *node, const char *key)
{
	return cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(key))
	                           : cJSON_GetObjectItemCaseSensitive(node, key);
}

static void put(struct cJSON *node, const char *key, const char *value)
{
	if (!value) {
		cJSON_Delete(cJSON_DetachItemViaPointer(node, child(node, key)));
		return;
	}
	struct cJSON *new = cJSON_Parse(value);
	assert_non_null(new);
	if (cJSON_IsArray(node) && strcmp(key, "-") == 0)
		cJSON_AddItemToArray(node, new);
	else if (cJSON_IsArray(node))
		cJSON_ReplaceItemInArray(node, atoi(key), new);
	else if (child(node, key))
		cJSON_ReplaceItemInObjectCaseSensitive(node, key, new);
	else
		cJSON_AddItemToObject(node, key, new);
}

static void apply(struct cJSON *doc, const struct change *c)
{
	char path[256], *save = NULL;
	struct cJSON *node = doc;

	snprintf(path, sizeof(path), "%s", c->pointer);
	char *key = strtok_r(path, "/", &save);
	for (char *next; (next = strtok_r(NULL, "/", &save)); key = next) {
		node = child(node, key);
		if (!node)
			fail_msg("%s is not in the base", c->pointer);
	}
	put(node, key, c->value);
}

static int parse(const struct row *r, struct problems *problems, char **text)
{
	auto_json doc = read_base();
	auto_plan p = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(r->changes) && r->changes[i].pointer; i++)
		apply(doc, &r->changes[i]);
	*text = cJSON_PrintUnformatted(doc);
	int rc = plan_parse(&p, *text, strlen(*text), "t.json", problems, &err);
	assert_int_equal(rc == 0, p != NULL);
	assert_int_equal(rc != 0, problems->n_errors > 0);
	if (rc) {
		assert_int_equal(err.cls, ERR_PLAN);
		assert_non_null(strstr(err.msg, "t.json"));
	}
	return rc;
}

static bool told(const struct problems *problems, const struct row *r)
{
	for (size_t i = 0; i < problems->n; i++)
		if ((int)problems->list[i].kind == r->kind && strcmp(problems->list[i].pointer, r->at) == 0 &&
		    strstr(problems->list[i].text, r->says))
			return true;
	return false;
}

static void print_problems(const struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		print_error("#   %s %s: %s\n", problems->list[i].kind ? "warning" : "error",
		            problems->list[i].pointer, problems->list[i].text);
}

static void one_row(void **state)
{
	const struct row *r = *state;
	auto_problems problems = { 0 };
	auto_free char *text = NULL;
	int rc = parse(r, &problems, &text);
	bool good = r->kind == OK ? problems.n_errors == 0 : told(&problems, r);

	if (!good || (rc == 0) != (r->kind != E))
		print_problems(&problems);
	assert_int_equal(rc == 0, r->kind != E);
	assert_true(good);
	for (size_t i = 0; i < problems.n; i++) {
		assert_null(strstr(problems.list[i].text, "hunter2"));
		assert_null(strstr(problems.list[i].text, FAKE_RANDOM));
		assert_null(strstr(problems.list[i].pointer, FAKE_RANDOM));
	}
}

/* --- what a good plan holds
 * ------------------------------------------------------------------------------------ */

static struct plan *good(const char *path, struct problems *problems)
{
	auto_buf text = BUF_INIT(PLAN_BYTES_MAX);
	struct err err = { 0 };
	struct plan *p = NULL;

	assert_int_equal(fs_read(&text, path, PLAN_BYTES_MAX, &err), 0);
	if (plan_parse(&p, text.p, text.len, path, problems, &err)) {
		print_problems(problems);
		fail_msg("%s", err.msg);
	}
	return p;
}

static void reads_every_member_of_the_base(void **state)
{
	auto_problems problems = { 0 };
	auto_plan p = good(BASE, &problems);
	const struct plan_candidate *one = plan_candidate_find(p, "one"),
				    *two = plan_candidate_find(p, "two");
	const struct plan_workload *w = plan_critical(p);

	(void)state;
	assert_string_equal(p->id, "base");
	assert_int_equal(p->rules, 1);
	assert_int_equal(strlen(p->sha256), 64);
	assert_string_equal(p->model.files[0].path, "m.gguf");
	assert_int_equal(p->model.context_tok, 4096);
	assert_int_equal(one->launch.kind, LAUNCH_PROCESS);
	assert_string_equal(one->launch.program, "llama-server");
	assert_string_equal(one->args[5], "{port}");
	assert_string_equal(one->env[1].from_env, "MY_TOKEN");
	assert_null(one->env[1].value);
	assert_string_equal(one->env[2].from_file, "extra.txt");
	assert_string_equal(one->engine_cpus, "0-1");
	assert_string_equal(one->client_cpus, "2");
	assert_int_equal(one->ready_deadline_s, 60);
	assert_non_null(one->previous);
	assert_int_equal(two->launch.kind, LAUNCH_ATTACH);
	assert_string_equal(two->launch.api_key_env, "KEY_NAME");
	assert_int_equal(two->ready_deadline_s, 600);
	assert_null(plan_candidate_find(p, "three"));
	assert_string_equal(w->name, "chat");
	assert_int_equal(w->prompt_tok[0], 32); /* ascending, whatever the file's order */
	assert_int_equal(w->prompt_tok[1], 128);
	assert_int_equal(w->concurrency[0], 1);
	assert_true(w->force_output);
	assert_int_equal(w->warmup_requests, 2);
	assert_true(w->stream && w->text_counters && w->n_mix == 0 && w->conversation.turns == 0);
	assert_true(w->canary_share <= 0 && w->retry.max == 0 && w->arrival.speed >= 1);
	assert_int_equal(p->instrument.client_threads, 1);
	assert_true(p->instrument.calibration_s >= 2 && p->instrument.min_delivered_share >= 0.99);
	assert_int_equal(p->workloads[1].other_requests, 0);
	assert_int_equal(p->workloads[1].arrival.seed, 7);
	assert_int_equal(p->workloads[1].concurrency[0], 0);
	assert_int_equal(p->controls[0].min_tok, 1);
	assert_int_equal(p->controls[1].min_tok, -1);
	assert_true(cJSON_IsArray(p->controls[1].messages));
	assert_int_equal(p->control_repeats, 2);
	assert_true(p->recovery.second_cold_start && p->recovery.second_cold_start_limit_s <= 0);
	assert_true(p->recovery.rollback_limit_s >= 90);
	assert_true(p->criteria[1].where.all_cells);
	assert_int_equal(p->criteria[4].severity, SEVERITY_SHOULD);
	assert_int_equal(p->criteria[0].severity, SEVERITY_MUST);
	assert_int_equal(p->telemetry_period_ms, 200);
	assert_null(p->telemetry);
	assert_string_equal(p->waivers[0].criterion, "cold");
}

static void the_base_itself_has_only_the_warning_meant(void **state)
{
	auto_problems problems = { 0 };
	auto_plan p = good(BASE, &problems);

	(void)state;
	(void)p;
	assert_int_equal(problems.n, 1);
	assert_non_null(strstr(problems.list[0].text, "cannot be restarted by us"));
}

static void every_plan_that_we_ship_is_accepted(void **state)
{
	static const char *const paths[] = { "plans/quickstart.json",       "plans/examples/interactive.json",
		                             "plans/examples/batch.json",   "plans/examples/training.json",
		                             "plans/examples/serving.json", "plans/examples/compact.json",
		                             "plans/examples/sweep.json",   "plans/examples/chat-mix.json" };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		auto_problems problems = { 0 };
		auto_plan p = good(paths[i], &problems);
		assert_non_null(plan_critical(p));
	}
}

static void reads_the_members_of_a_load(void **state)
{
	static const struct row r = {
		"load",
		{ { "/workloads/1/arrival", "{\"kind\": \"gamma\", \"rates_rps\": [4, 1], \"burstiness\": "
		                            "0.5, \"stop_when_saturated\": true}" },
		  { "/workloads/1/retry", "{\"max\": 3, \"on\": [\"reset\", \"timeout\"]}" },
		  { "/workloads/1/stream", "false" },
		  { "/workloads/0/conversation", "{\"turns\": 3, \"think_s\": 2}" } },
		OK,
		NULL,
		NULL
	};
	auto_problems problems = { 0 }, again = { 0 };
	auto_free char *text = NULL;
	auto_plan p = NULL;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(parse(&r, &problems, &text), 0);
	assert_int_equal(plan_parse(&p, text, strlen(text), "t.json", &again, &err), 0);
	const struct plan_workload *w = &p->workloads[1];
	assert_int_equal(w->arrival.kind, ARRIVAL_GAMMA);
	assert_int_equal(w->arrival.n_rates, 2);
	assert_true(w->arrival.rates_rps[0] <= 1 && w->arrival.rates_rps[1] >= 4);
	assert_true(w->arrival.burstiness <= 0.5 && w->arrival.stop_when_saturated);
	assert_true(w->critical_rate_rps >= 4);
	assert_int_equal(w->retry.max, 3);
	assert_true(!w->retry.on_status && w->retry.on_reset && w->retry.on_timeout);
	assert_true(w->retry.backoff_s >= 0.5 && !w->stream);
	assert_int_equal(p->workloads[0].conversation.turns, 3);
	assert_int_equal(p->workloads[0].conversation.turn_prompt_tok, 32);
	assert_true(p->workloads[0].conversation.think_s >= 2);
}

static void syntax_errors_name_line_and_column(void **state)
{
	static const char text[] = "{\n  \"schema_version\": 1,\n  \"plan\": tru\n}";
	auto_problems problems = { 0 };
	struct err err = { 0 };
	struct plan *p = NULL;

	(void)state;
	assert_int_equal(plan_parse(&p, text, sizeof(text) - 1, "t.json", &problems, &err), -1);
	assert_null(p);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_non_null(strstr(err.msg, "t.json: line 3, column 11"));
}

static void all_problems_come_in_one_go(void **state)
{
	static const struct row r = { "many",
		                      { { "/model/revision", "\"main\"" },
		                        { "/workloads/0/output_tok", "9000" },
		                        { "/criteria/0/statistic", "\"p99\"" },
		                        { "/waivers/0/expires", NULL } },
		                      E,
		                      "",
		                      "" };
	auto_problems problems = { 0 };
	auto_free char *text = NULL;

	(void)state;
	assert_int_equal(parse(&r, &problems, &text), -1);
	assert_int_equal(problems.n_errors, 4);
}

static void refuses_a_plan_too_large(void **state)
{
	auto_problems problems = { 0 };
	struct err err = { 0 };
	struct plan *p = NULL;
	auto_free char *text = calloc(1, PLAN_BYTES_MAX + 2);

	(void)state;
	memset(text, ' ', PLAN_BYTES_MAX + 1);
	assert_int_equal(plan_parse(&p, text, PLAN_BYTES_MAX + 1, "t.json", &problems, &err), -1);
	assert_non_null(strstr(err.msg, "larger than"));
}

static void hostile_strings_cost_linear_time(void **state)
{
	static const char *const bits[] = { "eyJa-", "://",         "?key=", "bearer ", "secret = ", "token",
		                            "hf_",   "-----BEGIN ", "(",     "sk-",     "--api-key " };
	auto_free char *text = malloc(PLAN_BYTES_MAX);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
		auto_problems problems = { 0 };
		struct err err = { 0 };
		struct plan *p = NULL;
		size_t len = (size_t)sprintf(text, "{\"args\": \"");
		while (len + 64 < PLAN_BYTES_MAX)
			len += (size_t)sprintf(text + len, "%s", bits[i]);
		len += (size_t)sprintf(text + len, "\"}");
		assert_int_equal(plan_parse(&p, text, len, "t.json", &problems, &err), -1);
	}
}

static void cpu_lists(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} table[] = { { "0", true },   { "0,2-3", true },  { "4095", true },   { "4096", false },
		      { "", false },   { "0,", false },    { ",0", false },    { "1-", false },
		      { "-1", false }, { "2-1", false },   { "1,1", false },   { "0 1", false },
		      { "a", false },  { "0-4095", true }, { "00001", false }, { "0x1", false } };
	uint64_t set[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		assert_int_equal(plan_cpus_ok(table[i].text, NULL), table[i].ok);
	assert_true(plan_cpus_ok("0,63-64", set));
	assert_true(set[0] == (UINT64_C(1) << 63 | 1) && set[1] == 1);
}

/* --- the man page
 * ---------------------------------------------------------------------------------------------- */

#define MAN "runner/man/proofmark-plan.5"

/* `word` stands alone on a line of the page that begins with a macro. */
static bool page_has(const char *page, const char *word)
{
	static const char *const after = " \n,.;)";
	size_t n = strlen(word);

	for (const char *at = page; (at = strstr(at, word)); at++) {
		const char *line = at;
		while (line > page && line[-1] != '\n')
			line--;
		if (*line == '.' && at[-1] == ' ' && strchr(after, at[n]))
			return true;
	}
	return false;
}

static size_t missing_members(const char *page, const struct jshape *shape, unsigned depth)
{
	size_t n = 0;

	for (const struct jfield *f = shape->fields; f->key && depth < 12; f++) {
		if (!page_has(page, f->key)) {
			print_error("# %s of %s is not in " MAN "\n", f->key, shape->name);
			n++;
		}
		const struct jfield *inner = f->type == J_ARR ? f->elem : f;
		if (inner->shape)
			n += missing_members(page, inner->shape, depth + 1);
		for (const char *const *w = inner->words; w && *w; w++)
			if (!page_has(page, *w)) {
				print_error("# the word %s of %s is not in " MAN "\n", *w, f->key);
				n++;
			}
	}
	return n;
}

static void the_man_page_names_every_member_word_metric_and_unit(void **state)
{
	auto_buf page = BUF_INIT(1 << 20);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(fs_read(&page, MAN, 1 << 20, &err), 0);
	assert_int_equal(missing_members(page.p, &plan_shape, 0), 0);
	for (const struct metric *m = metrics; m->name; m++)
		if (!page_has(page.p, m->name))
			fail_msg("metric %s is not in " MAN, m->name);
	for (const struct unit *u = units; u->name; u++)
		if (!page_has(page.p, u->name))
			fail_msg("unit %s is not in " MAN, u->name);
	assert_false(page_has(page.p, "no_such_member"));
}

int main(void)
{
	static struct CMUnitTest tests[ARRAY_LEN(rows) + 16];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		tests[n++] = (struct CMUnitTest){ .name = rows[i].rule,
			                          .test_func = one_row,
			                          .initial_state = (void *)(uintptr_t)&rows[i] };
	const struct CMUnitTest others[] = {
		cmocka_unit_test(reads_every_member_of_the_base),
		cmocka_unit_test(the_base_itself_has_only_the_warning_meant),
		cmocka_unit_test(every_plan_that_we_ship_is_accepted),
		cmocka_unit_test(reads_the_members_of_a_load),
		cmocka_unit_test(syntax_errors_name_line_and_column),
		cmocka_unit_test(all_problems_come_in_one_go),
		cmocka_unit_test(refuses_a_plan_too_large),
		cmocka_unit_test(hostile_strings_cost_linear_time),
		cmocka_unit_test(cpu_lists),
		cmocka_unit_test(the_man_page_names_every_member_word_metric_and_unit),
	};
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		tests[n++] = others[i];
	/* cmocka skips entries without a function, so the spare ones do no harm */
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
