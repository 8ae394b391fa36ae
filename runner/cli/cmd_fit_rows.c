/* SPDX-License-Identifier: Apache-2.0 */
/* The loads of a plan against a candidate, and how both are told. */
#include "cli/cmd_fit.h"

#include "base/cleanup.h"
#include "base/json_out.h"
#include "model/cell.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CONCURRENCY_MAX (1u << 20)

/* Tokens of a request at its end: of a conversation at the end of its last turn, of a mix of its largest
 * part. FIT_UNKNOWN: lengths of a trace. */
static uint64_t context_of(const struct cell *c)
{
	const struct plan_workload *w = c->wl;
	uint64_t turns = w->conversation.turns, most = c->prompt_tok + c->output_tok, out = c->output_tok;

	for (size_t i = 0; i < w->n_mix; i++)
		if (w->mix[i].prompt_tok + w->mix[i].output_tok > most) {
			most = w->mix[i].prompt_tok + w->mix[i].output_tok;
			out = w->mix[i].output_tok;
		}
	if (most == 0)
		return FIT_UNKNOWN;
	if (turns > 1)
		most += (turns - 1) * (w->conversation.turn_prompt_tok + out);
	return most;
}

static void row_asked(struct fit_case *k, struct fit_row *r)
{
	struct fit_setup s = k->setup;
	struct fit_need need;

	s.ahead_tok = 0;
	if (fit_need(&need, &k->weights, &k->kv, &s, r->context_tok, r->concurrency))
		r->kv_asked_bytes = need.kv_bytes;
}

/* llama.cpp takes its cache at the start: what it does not hold is refused, however much memory is free. */
static bool row_held(const struct fit_case *k, struct fit_row *r)
{
	uint64_t slot_tok = k->setup.ahead_tok / k->setup.ahead_sequences, asked = 0;

	if (k->setup.ahead_tok == 0)
		return true;
	uint64_t at_once = k->slots && k->slots < r->concurrency ? k->slots : r->concurrency;
	if (!k->unified && r->context_tok > slot_tok)
		snprintf(r->reason, sizeof(r->reason),
		         "a slot holds %" PRIu64 " tokens (-c %" PRIu64 " / -np %" PRIu64 ")", slot_tok,
		         k->setup.ahead_tok, k->slots);
	else if (k->unified &&
	         (__builtin_mul_overflow(at_once, r->context_tok, &asked) || asked > k->setup.ahead_tok))
		snprintf(r->reason, sizeof(r->reason), "the cache holds %" PRIu64 " tokens for all sequences",
		         k->setup.ahead_tok);
	return !r->reason[0];
}

static void row_judge(struct fit_case *k, struct fit_row *r)
{
	uint64_t cap = k->facts->context_tok != MODEL_NONE ? k->facts->context_tok : FIT_TOKENS_MAX;
	bool known = r->context_tok != FIT_UNKNOWN && r->concurrency != FIT_UNKNOWN;

	r->answer = FIT_NOT_KNOWN;
	r->kv_asked_bytes = r->largest_context_tok = r->largest_concurrency = FIT_UNKNOWN;
	if (k->has_numbers && r->concurrency != FIT_UNKNOWN)
		r->largest_context_tok = fit_largest_context(&k->weights, &k->kv, &k->setup, r->concurrency,
		                                             k->memory_bytes, cap);
	if (k->has_numbers && r->context_tok != FIT_UNKNOWN)
		r->largest_concurrency = fit_largest_concurrency(
			&k->weights, &k->kv, &k->setup, r->context_tok, k->memory_bytes, CONCURRENCY_MAX);
	if (k->has_numbers && (known || k->setup.ahead_tok)) {
		r->has_need = fit_need(&r->need, &k->weights, &k->kv, &k->setup, known ? r->context_tok : 1,
		                       known ? r->concurrency : 1);
		if (known)
			row_asked(k, r);
		if (!r->has_need)
			snprintf(r->reason, sizeof(r->reason), "the need is above what can be counted");
	}
	if (k->refused[0]) {
		r->answer = FIT_NO;
		memcpy(r->reason, k->refused, sizeof(r->reason));
		r->largest_context_tok = r->largest_concurrency = FIT_UNKNOWN;
	} else if (k->unknown[0]) {
		memcpy(r->reason, k->unknown, sizeof(r->reason));
	} else if (!known) {
		snprintf(r->reason, sizeof(r->reason), "%s",
		         r->context_tok == FIT_UNKNOWN ? "the lengths are in the trace, not in the plan"
		                                       : "the plan does not bound the requests in flight");
		if (r->has_need && fit_judge(&r->need, k->memory_bytes, k->setup.usable_share) == FIT_NO)
			r->answer = FIT_NO;
	} else if (r->has_need) {
		r->answer = fit_judge(&r->need, k->memory_bytes, k->setup.usable_share);
		if (!row_held(k, r)) {
			r->answer = FIT_NO;
		} else if (r->answer != FIT_NO && k->adds[0]) {
			r->answer = FIT_NOT_KNOWN;
			memcpy(r->reason, k->adds, sizeof(r->reason));
		}
	}
}

static void add_row(struct fit_case *k, const struct cell *c)
{
	struct fit_row r = { .wl = c->wl, .context_tok = context_of(c) };

	r.concurrency = c->concurrency ? c->concurrency : FIT_UNKNOWN;
	for (size_t i = 0; i < k->n_rows; i++)
		if (k->rows[i].wl == r.wl && k->rows[i].context_tok == r.context_tok &&
		    k->rows[i].concurrency == r.concurrency)
			return;
	row_judge(k, &r);
	k->rows[k->n_rows++] = r;
}

bool fit_case_judge(struct fit_case *k, const struct plan *p)
{
	static const int worst[] = { [FIT_FITS] = 0, [FIT_TIGHT] = 1, [FIT_NOT_KNOWN] = 2, [FIT_NO] = 3 };
	size_t n = 0;
	auto_free struct cell *cells = cells_of_plan(p, &n);

	k->rows = calloc(n ? n : 1, sizeof(*k->rows));
	if (!cells || !k->rows)
		return false;
	for (size_t i = 0; i < n; i++)
		add_row(k, &cells[i]);
	k->answer = k->n_rows ? FIT_FITS : FIT_NOT_KNOWN;
	for (size_t i = 0; i < k->n_rows; i++)
		if (worst[k->rows[i].answer] > worst[k->answer])
			k->answer = k->rows[i].answer;
	return true;
}

/* --- as text ------------------------------------------------------------------------------------------- */

static const char *size_words(char out[32], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double n = (double)bytes;
	size_t unit = 0;

	if (bytes == FIT_UNKNOWN)
		return "unknown";
	for (; n >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
		n /= 1024;
	snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
	return out;
}

static const char *count_words(char out[32], uint64_t n)
{
	if (n == FIT_UNKNOWN)
		return "unknown";
	if (n == 0)
		return "no";
	snprintf(out, 32, "%" PRIu64, n);
	return out;
}

static uint64_t total_weights(const struct fit_case *k)
{
	return k->facts->problems.n_errors ? FIT_UNKNOWN : k->facts->tensor_bytes;
}

static const char *per_device(const struct fit_case *k)
{
	return k->is_cpu ? "" : " on the fullest GPU";
}

static void print_head(const struct fit_case *k)
{
	const struct fit_setup *s = &k->setup;
	char a[32], b[32];

	if (k->is_cpu)
		printf("%s: %s, CPU, %s (%s)\n", k->c->name, engine_kind_words[k->c->engine],
		       size_words(a, k->memory_bytes), k->memory_source[0] ? k->memory_source : "no source");
	else
		printf("%s: %s, %" PRIu64 " x %s (%s), tensor %u, pipeline %u, data %u\n", k->c->name,
		       engine_kind_words[k->c->engine], k->gpus, size_words(a, k->memory_bytes),
		       k->memory_source[0] ? k->memory_source : "no source", s->tensor, s->pipeline, s->data);
	printf("  weights   %s", size_words(a, total_weights(k)));
	printf(" in %" PRIu64 " tensors%s%s", k->facts->n_tensors, k->facts->quantisation[0] ? ", " : "",
	       k->facts->quantisation);
	if (!k->is_cpu)
		printf("; %s%s", size_words(b, k->device_weights_bytes), per_device(k));
	printf("\n  KV        %s a token%s", size_words(a, k->token_bytes), per_device(k));
	if (k->key_type[0])
		printf(": keys %s, values %s (%s)", k->key_type, k->value_type, k->kv_source);
	printf("\n  overhead  %s to", size_words(a, s->overhead_least_bytes));
	printf(" %s (%s)\n", size_words(b, s->overhead_most_bytes), k->overhead_source);
	if (s->usable_share < 1)
		printf("  usable    %g of the memory (%s)\n", s->usable_share, k->usable_source);
	if (s->ahead_tok)
		printf("  ahead     %" PRIu64 " tokens are taken at the start, whatever is asked (%s)\n",
		       s->ahead_tok, k->ahead_source);
	for (size_t i = 0; i < k->n_notes; i++)
		printf("  note      %s\n", k->notes[i]);
}

static void print_row(const struct fit_case *k, const struct fit_row *r)
{
	char a[32], b[32], c[32], d[32];

	printf("  %-7s %s: %s tokens x", fit_answer_words[r->answer], r->wl->name,
	       count_words(a, r->context_tok));
	printf(" %s: KV %s", count_words(a, r->concurrency), size_words(b, r->kv_asked_bytes));
	if (k->setup.ahead_tok && r->has_need)
		printf(" asked, %s taken", size_words(a, r->need.kv_bytes));
	if (r->has_need)
		printf("; in all %s to %s of %s", size_words(a, r->need.least_bytes),
		       size_words(b, r->need.most_bytes), size_words(c, k->memory_bytes));
	if (r->reason[0])
		printf("; %s", r->reason);
	printf("\n          largest that fits: %s tokens x %s", count_words(a, r->largest_context_tok),
	       count_words(b, r->concurrency));
	printf(", %s tokens x %s%s\n", count_words(c, r->context_tok), count_words(d, r->largest_concurrency),
	       k->setup.ahead_tok ? " (with -c to match)" : "");
}

void fit_print(const struct fit_case *k)
{
	print_head(k);
	for (size_t i = 0; i < k->n_rows; i++)
		print_row(k, &k->rows[i]);
	printf("  = %s\n", fit_answer_words[k->answer]);
}

/* --- as JSON ------------------------------------------------------------------------------------------- */

static void text(struct json_out *o, const char *key, const char *s)
{
	jo_str(o, key, s && s[0] ? s : NULL);
}

static void write_row(struct json_out *o, const struct fit_row *r)
{
	jo_obj(o, NULL);
	jo_str(o, "workload", r->wl->name);
	jo_opt_u64(o, "context_tok", r->context_tok);
	jo_opt_u64(o, "concurrency", r->concurrency);
	jo_str(o, "answer", fit_answer_words[r->answer]);
	text(o, "reason", r->reason);
	jo_opt_u64(o, "kv_asked_bytes", r->kv_asked_bytes);
	jo_opt_u64(o, "kv_taken_bytes", r->has_need ? r->need.kv_bytes : FIT_UNKNOWN);
	jo_opt_u64(o, "least_bytes", r->has_need ? r->need.least_bytes : FIT_UNKNOWN);
	jo_opt_u64(o, "most_bytes", r->has_need ? r->need.most_bytes : FIT_UNKNOWN);
	jo_opt_u64(o, "largest_context_tok", r->largest_context_tok);
	jo_opt_u64(o, "largest_concurrency", r->largest_concurrency);
	jo_end(o);
}

void fit_write(struct json_out *o, const struct fit_case *k)
{
	const struct fit_setup *s = &k->setup;

	jo_obj(o, NULL);
	jo_str(o, "name", k->c->name);
	jo_str(o, "engine", engine_kind_words[k->c->engine]);
	jo_str(o, "answer", fit_answer_words[k->answer]);
	jo_opt_u64(o, "gpus", k->is_cpu ? FIT_UNKNOWN : k->gpus);
	jo_u64(o, "tensor_ranks", s->tensor);
	jo_u64(o, "pipeline_ranks", s->pipeline);
	jo_u64(o, "data_ranks", s->data);
	jo_opt_u64(o, "memory_bytes", k->memory_bytes);
	text(o, "memory_source", k->memory_bytes == FIT_UNKNOWN ? NULL : k->memory_source);
	jo_num(o, "usable_share", s->usable_share);
	text(o, "usable_source", k->usable_source);
	jo_opt_u64(o, "weights_bytes", total_weights(k));
	jo_opt_u64(o, "weights_device_bytes", k->device_weights_bytes);
	jo_str(o, "weights_source", "tensors of the model's files");
	jo_opt_u64(o, "kv_token_device_bytes", k->token_bytes);
	text(o, "kv_key_type", k->key_type);
	text(o, "kv_value_type", k->value_type);
	text(o, "kv_source", k->kv_source);
	jo_opt_u64(o, "ahead_tok", s->ahead_tok ? s->ahead_tok : FIT_UNKNOWN);
	text(o, "ahead_source", k->ahead_source);
	jo_u64(o, "overhead_least_bytes", s->overhead_least_bytes);
	jo_u64(o, "overhead_most_bytes", s->overhead_most_bytes);
	jo_str(o, "overhead_source", k->overhead_source);
	jo_arr(o, "notes");
	for (size_t i = 0; i < k->n_notes; i++)
		jo_str(o, NULL, k->notes[i]);
	jo_end_arr(o);
	jo_arr(o, "loads");
	for (size_t i = 0; i < k->n_rows; i++)
		write_row(o, &k->rows[i]);
	jo_end_arr(o);
	jo_end(o);
}
