/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const fit_answer_words[] = { "fits", "tight", "no", "unknown", NULL };

/* --- weights ------------------------------------------------------------------------------------------- */

bool fit_weights_init(struct fit_weights *w, size_t n_layers)
{
	*w = (struct fit_weights){ .n_layers = n_layers };
	w->layers = calloc(n_layers ? n_layers : 1, sizeof(*w->layers));
	return w->layers != NULL;
}

void fit_weights_done(struct fit_weights *w)
{
	free(w->layers);
	*w = (struct fit_weights){ 0 };
}

static bool layer_of(const char *name, size_t n_layers, size_t *out)
{
	static const char *const marks[] = { "blk.", "layers.", "h.", "blocks." };

	if (strstr(name, "vision") || strstr(name, "visual") || strstr(name, "audio"))
		return false;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		size_t len = strlen(marks[i]);
		for (const char *at = name; (at = strstr(at, marks[i])) != NULL; at++) {
			char *end = NULL;
			if ((at != name && at[-1] != '.') || at[len] < '0' || at[len] > '9')
				continue;
			unsigned long long n = strtoull(at + len, &end, 10);
			if (*end != '.' || n >= n_layers)
				continue;
			*out = (size_t)n;
			return true;
		}
	}
	return false;
}

static bool is_embedding(const char *name)
{
	return strstr(name, "token_embd.") || strstr(name, "embed_tokens.") || strstr(name, "wte.") ||
	       strstr(name, "word_embeddings.");
}

static bool add(uint64_t *sum, uint64_t n)
{
	return !__builtin_add_overflow(*sum, n, sum);
}

/* A sum that would overflow stays at the top: no device holds it. */
static void add_most(uint64_t *sum, uint64_t n)
{
	if (!add(sum, n))
		*sum = UINT64_MAX;
}

void fit_weights_add(struct fit_weights *w, const char *name, uint32_t n_dims, uint64_t bytes)
{
	size_t layer = 0;
	struct fit_part *part = layer_of(name, w->n_layers, &layer) ? &w->layers[layer]
	                        : is_embedding(name)                ? &w->first
	                                                            : &w->last;

	w->has_output |= strcmp(name, "output.weight") == 0 || strstr(name, "lm_head.");
	add_most(n_dims >= 2 ? &part->split_bytes : &part->whole_bytes, bytes);
}

/* --- one stage ----------------------------------------------------------------------------------------- */

struct stage {
	size_t begin, end; /* layers */
	bool is_first, is_last;
};

/* The first `n % ranks` stages have one layer more. */
static struct stage stage_of(const struct fit_setup *s, size_t n_layers, uint32_t rank)
{
	size_t on_device = s->device_layers < n_layers ? (size_t)s->device_layers : n_layers;
	size_t each = on_device / s->pipeline, more = on_device % s->pipeline;
	size_t begin = n_layers - on_device + rank * each + (rank < more ? rank : more);

	return (struct stage){ begin, begin + each + (rank < more), rank == 0, rank == s->pipeline - 1 };
}

static bool add_part(uint64_t *sum, const struct fit_part *p, uint32_t ranks)
{
	return add(sum, p->split_bytes / ranks + (p->split_bytes % ranks != 0)) && add(sum, p->whole_bytes);
}

static bool stage_weights(uint64_t *out, const struct fit_weights *w, const struct fit_setup *s,
                          const struct stage *st)
{
	bool has_end = st->is_last && s->device_layers > w->n_layers;
	bool has_embedding = st->is_first && !s->embedding_on_host && s->device_layers > w->n_layers;
	uint64_t sum = 0;

	for (size_t i = st->begin; i < st->end && i < w->n_layers; i++)
		if (!add_part(&sum, &w->layers[i], s->tensor))
			return false;
	if (has_embedding && !add_part(&sum, &w->first, s->tensor))
		return false;
	if (has_end && !add_part(&sum, &w->last, s->tensor))
		return false;
	if (has_end && !w->has_output && !has_embedding && !add_part(&sum, &w->first, s->tensor))
		return false;
	*out = sum;
	return true;
}

/* Of one sequence. */
static bool stage_kv(uint64_t *out, const struct kv_model *kv, const struct fit_setup *s,
                     const struct stage *st, uint64_t tokens)
{
	struct kv_model part = { st->end - st->begin, kv->layers + st->begin };
	uint64_t values = 0, bytes = 0;

	*out = 0;
	if (part.n_layers == 0 || s->kv_on_host)
		return true;
	if (kv_count(&part, KV_LAYER_FULL) + kv_count(&part, KV_LAYER_WINDOW) +
	            kv_count(&part, KV_LAYER_LATENT) !=
	    0) {
		bool known = s->all_full
		                     ? kv_bytes_all_full(out, &part, tokens, s->keys, s->values, s->tensor)
		                     : kv_bytes(out, &part, tokens, s->keys, s->values, s->tensor);
		if (!known)
			return false;
	}
	return kv_state_values(&values, &part) && !__builtin_mul_overflow(values, s->state_bytes, &bytes) &&
	       add(out, bytes / s->tensor + (bytes % s->tensor != 0));
}

/* --- the fullest device -------------------------------------------------------------------------------- */

static bool blocks_of(uint64_t *tokens, uint64_t block_tok)
{
	uint64_t rest = block_tok > 1 ? *tokens % block_tok : 0;

	return rest == 0 || add(tokens, block_tok - rest);
}

bool fit_device_weights(uint64_t *out, const struct fit_weights *w, const struct fit_setup *s)
{
	uint64_t most = 0;

	for (uint32_t rank = 0; rank < s->pipeline; rank++) {
		struct stage st = stage_of(s, w->n_layers, rank);
		uint64_t bytes = 0;
		if (!stage_weights(&bytes, w, s, &st))
			return false;
		most = bytes > most ? bytes : most;
	}
	*out = most;
	return true;
}

bool fit_need(struct fit_need *out, const struct fit_weights *w, const struct kv_model *kv,
              const struct fit_setup *s, uint64_t tokens, uint64_t sequences)
{
	struct fit_need most = { 0 };
	bool any = false;

	if (s->ahead_tok) {
		sequences = s->ahead_sequences;
		tokens = s->ahead_tok / sequences;
	} else {
		sequences = sequences / s->data + (sequences % s->data != 0);
	}
	if (tokens == 0 || sequences == 0 || w->n_layers != kv->n_layers || !blocks_of(&tokens, s->block_tok))
		return false;
	for (uint32_t rank = 0; rank < s->pipeline; rank++) {
		struct stage st = stage_of(s, kv->n_layers, rank);
		struct fit_need n = { 0 };
		if (!stage_weights(&n.weights_bytes, w, s, &st) ||
		    !stage_kv(&n.kv_bytes, kv, s, &st, tokens) ||
		    __builtin_mul_overflow(n.kv_bytes, sequences, &n.kv_bytes))
			return false;
		if (!add(&n.least_bytes, n.weights_bytes) || !add(&n.least_bytes, n.kv_bytes))
			return false;
		n.most_bytes = n.least_bytes;
		if (!add(&n.least_bytes, s->overhead_least_bytes) ||
		    !add(&n.most_bytes, s->overhead_most_bytes))
			return false;
		if (!any || n.most_bytes > most.most_bytes)
			most = n;
		any = true;
	}
	*out = most;
	return any;
}

bool fit_token_bytes(uint64_t *out, const struct kv_model *kv, const struct fit_setup *s)
{
	uint64_t most = 0;

	for (uint32_t rank = 0; rank < s->pipeline; rank++) {
		struct stage st = stage_of(s, kv->n_layers, rank);
		struct kv_model part = { st.end - st.begin, kv->layers + st.begin };
		uint64_t bytes = 0, before = 0;
		bool attends = kv_count(&part, KV_LAYER_FULL) + kv_count(&part, KV_LAYER_LATENT) +
		                       (s->all_full ? kv_count(&part, KV_LAYER_WINDOW) : 0) !=
		               0;
		if (!attends || s->kv_on_host)
			continue;
		if (s->all_full ? !kv_bytes_all_full(&bytes, &part, 2, s->keys, s->values, s->tensor) ||
		                          !kv_bytes_all_full(&before, &part, 1, s->keys, s->values, s->tensor)
		                : !kv_growth_bytes(&bytes, &part, s->keys, s->values, s->tensor))
			return false;
		most = bytes - before > most ? bytes - before : most;
	}
	*out = most;
	return true;
}

enum fit_answer fit_judge(const struct fit_need *need, uint64_t memory_bytes, double usable_share)
{
	double memory = (double)memory_bytes, usable = memory * usable_share;

	if (memory_bytes == FIT_UNKNOWN || memory_bytes == 0)
		return FIT_NOT_KNOWN;
	if ((double)need->least_bytes > usable)
		return FIT_NO;
	if ((double)need->most_bytes > usable || (double)need->most_bytes > memory * (1 - FIT_ROOM_SHARE))
		return FIT_TIGHT;
	return FIT_FITS;
}

/* --- the largest that fits ----------------------------------------------------------------------------- */

struct search {
	const struct fit_weights *w;
	const struct kv_model *kv;
	struct fit_setup s;
	uint64_t memory_bytes, fixed;
	bool by_tokens;
};

static bool fits_with(const struct search *q, uint64_t n)
{
	struct fit_need need;

	return fit_need(&need, q->w, q->kv, &q->s, q->by_tokens ? n : q->fixed,
	                q->by_tokens ? q->fixed : n) &&
	       fit_judge(&need, q->memory_bytes, q->s.usable_share) == FIT_FITS;
}

static uint64_t largest(const struct search *q, uint64_t cap)
{
	struct fit_need need;
	uint64_t low = 0, high = cap;

	if (q->memory_bytes == FIT_UNKNOWN || q->memory_bytes == 0 || q->fixed == 0 ||
	    !fit_need(&need, q->w, q->kv, &q->s, q->by_tokens ? 1 : q->fixed, q->by_tokens ? q->fixed : 1))
		return FIT_UNKNOWN;
	while (low < high) {
		uint64_t mid = low + (high - low + 1) / 2;
		if (fits_with(q, mid))
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

uint64_t fit_largest_context(const struct fit_weights *w, const struct kv_model *kv,
                             const struct fit_setup *s, uint64_t sequences, uint64_t memory_bytes,
                             uint64_t cap)
{
	struct search q = { w, kv, *s, memory_bytes, sequences, true };

	q.s.ahead_tok = 0;
	return largest(&q, cap < FIT_TOKENS_MAX ? cap : FIT_TOKENS_MAX);
}

uint64_t fit_largest_concurrency(const struct fit_weights *w, const struct kv_model *kv,
                                 const struct fit_setup *s, uint64_t tokens, uint64_t memory_bytes,
                                 uint64_t cap)
{
	struct search q = { w, kv, *s, memory_bytes, tokens, false };

	q.s.ahead_tok = 0;
	return largest(&q, cap < FIT_TOKENS_MAX ? cap : FIT_TOKENS_MAX);
}

/* --- numbers ------------------------------------------------------------------------------------------- */

double fit_error(uint64_t predicted_bytes, uint64_t measured_bytes)
{
	if (predicted_bytes == FIT_UNKNOWN || measured_bytes == FIT_UNKNOWN || measured_bytes == 0)
		return (double)NAN;
	return ((double)predicted_bytes - (double)measured_bytes) / (double)measured_bytes * 100;
}

bool fit_bytes_read(uint64_t *out, const char *text)
{
	static const struct {
		const char *word;
		double bytes;
	} units[] = {
		{ "", 1 },         { "B", 1 },      { "MB", 1e6 },        { "GB", 1e9 },
		{ "TB", 1e12 },    { "KiB", 1024 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 },
		{ "TiB", 0x1p40 },
	};
	size_t digits = strspn(text, "0123456789"), part = 0;

	if (digits == 0 || digits > 15)
		return false;
	if (text[digits] == '.') {
		part = strspn(text + digits + 1, "0123456789");
		if (part == 0 || part > 9)
			return false;
		part++;
	}
	const char *unit = text + digits + part;
	unit += *unit == ' ';
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(unit, units[i].word) != 0)
			continue;
		double bytes = strtod(text, NULL) * units[i].bytes;
		if (bytes < 1 || bytes > 0x1p60 || (units[i].bytes <= 1 && part))
			return false;
		*out = (uint64_t)bytes;
		return true;
	}
	return false;
}
