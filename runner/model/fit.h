/* SPDX-License-Identifier: Apache-2.0 */
/* Does a model fit into a device? Pure arithmetic, all in bytes of the fullest device:
 *
 *   weights   a tensor of two or more dimensions is divided by the tensor-parallel ranks, a vector is kept
 *             whole by each; pipeline stages take neighbouring layers, as evenly as it goes, the first stage
 *             the embedding too and the last one the output
 *   KV        kv_bytes(tokens of a sequence) x sequences of a replica, of the layers of the stage
 *   overhead  a range: what the engine's context, graphs and work buffers take. Not measured, assumed.
 *
 * Answers: no = weights + KV + least overhead are above the usable memory; tight = most overhead is, or less
 * than a tenth of the memory is left beside it; fits = else. */
#ifndef MODEL_FIT_H
#define MODEL_FIT_H

#include "model/kv_size.h"

#define FIT_UNKNOWN UINT64_MAX
#define FIT_ROOM_SHARE 0.1 /* of the memory that has to be left */
#define FIT_TOKENS_MAX (1ull << 40)

enum fit_answer { FIT_FITS, FIT_TIGHT, FIT_NO, FIT_NOT_KNOWN };
extern const char *const fit_answer_words[];

struct fit_part {
	uint64_t split_bytes; /* divided by tensor-parallel ranks */
	uint64_t whole_bytes; /* kept by each rank */
};

struct fit_weights {
	size_t n_layers;
	struct fit_part *layers;
	struct fit_part first, last; /* embedding; all else outside of the layers */
	bool has_output;             /* else the embedding serves as output too */
};
/* False without memory; fit_weights_done accepts zeroed. */
bool fit_weights_init(struct fit_weights *w, size_t n_layers);
void fit_weights_done(struct fit_weights *w);
/* Sorts a tensor in by its name: "blk.3.attn_q.weight", "model.layers.3.mlp.up_proj.weight". */
void fit_weights_add(struct fit_weights *w, const char *name, uint32_t n_dims, uint64_t bytes);

struct fit_setup {
	uint32_t tensor, pipeline, data; /* ranks, each at least 1 */
	struct kv_width keys, values;
	uint32_t state_bytes;     /* a value of a state */
	uint64_t device_layers;   /* so many of the last layers are on the device; FIT_UNKNOWN = all */
	bool embedding_on_host;   /* the first part stays in the host's memory */
	bool kv_on_host;          /* and so does the cache */
	bool all_full;            /* windows are not used */
	uint64_t block_tok;       /* a sequence takes whole blocks; at least 1 */
	uint64_t ahead_tok;       /* taken at the start for all sequences together; 0 = as needed */
	uint64_t ahead_sequences; /* that share it; at least 1 */
	uint64_t overhead_least_bytes, overhead_most_bytes; /* a device */
	double usable_share;                                /* of the memory, that the engine allows itself */
};

struct fit_need { /* of the fullest device */
	uint64_t weights_bytes, kv_bytes, least_bytes, most_bytes;
};
/* For `sequences` at once of `tokens` tokens each (with ahead_tok: what is taken at the start, whatever is
 * asked for). False: overflow, or a state whose size is not known. */
bool fit_need(struct fit_need *out, const struct fit_weights *w, const struct kv_model *kv,
              const struct fit_setup *s, uint64_t tokens, uint64_t sequences);
/* The fullest device's weights alone; needs no KV model. */
bool fit_device_weights(uint64_t *out, const struct fit_weights *w, const struct fit_setup *s);
/* What one token more of one sequence adds on the fullest device, windows filled. */
bool fit_token_bytes(uint64_t *out, const struct kv_model *kv, const struct fit_setup *s);

enum fit_answer fit_judge(const struct fit_need *need, uint64_t memory_bytes, double usable_share);
/* The most tokens (sequences) that still get the answer "fits", taken as needed; 0 = not even one; at most
 * `cap`. FIT_UNKNOWN when the need is not known. */
uint64_t fit_largest_context(const struct fit_weights *w, const struct kv_model *kv,
                             const struct fit_setup *s, uint64_t sequences, uint64_t memory_bytes,
                             uint64_t cap);
uint64_t fit_largest_concurrency(const struct fit_weights *w, const struct kv_model *kv,
                                 const struct fit_setup *s, uint64_t tokens, uint64_t memory_bytes,
                                 uint64_t cap);

/* How far a prediction was off, in percent of what was measured, above 0 = predicted too much; NaN when one
 * is FIT_UNKNOWN or nothing was measured (0). */
double fit_error(uint64_t predicted_bytes, uint64_t measured_bytes);

/* "80GiB", "80 GB", "85899345920": bytes above 0. False for anything else. */
bool fit_bytes_read(uint64_t *out, const char *text);

#endif
