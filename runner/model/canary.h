/* SPDX-License-Identifier: Apache-2.0 */
/* Canaries: requests of the load that carry a nonce to be repeated and a question whose answer is known. A
 * server that mixes up its requests answers with somebody else's nonce; one that computes wrongly misses the
 * answer. Pure: text in, text out.
 *
 * Nonce = "PMK" and the first 13 letters of the base32 (RFC 4648: A-Z 2-7) of
 *   SHA-256("proofmark nonce 1\n" CELL "\n" KIND "\n" K "\n" SEED)
 * with KIND "load", K the number of the request in its cell and SEED arrival.seed, both decimal: 65 bits.
 * Question = number (K mod CANARY_QUESTIONS) of the table in canary.c, in its order. */
#ifndef MODEL_CANARY_H
#define MODEL_CANARY_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANARY_OUTPUT_TOK_MIN 24 /* an answer holds the nonce and a word */
#define CANARY_NONCE_CHARS 16
#define CANARY_NONCE_BYTES (CANARY_NONCE_CHARS + 1)

void canary_nonce(char out[CANARY_NONCE_BYTES], const char *cell_id, const char *kind, uint64_t k,
                  uint64_t seed);

struct canary_question {
	const char *question; /* one sentence */
	const char *answer;   /* one word, ASCII */
};
extern const struct canary_question canary_questions[]; /* NULL-question-ended */
size_t canary_questions_n(void);
const struct canary_question *canary_question_of(uint64_t k);

/* What is appended to the prompt of request k: begins with a blank line. */
void canary_text(struct buf *out, const char *nonce, uint64_t k);

/* The next text of the form of a nonce from byte *at on, which moves behind it; NULL = none left. Found
 * nonces do not overlap; what touches another letter or digit of the alphabet A-Z 2-7 counts too, since a
 * model may glue words to it. */
const char *canary_find(const char *text, size_t len, size_t *at);

struct canary_result {
	bool has_nonce;    /* its own */
	bool has_expected; /* the known answer, ASCII letters of either case */
	size_t n_foreign;  /* of `others`, found in the text */
};
/* `others`: nonces of other requests in ascending order of bytes, each CANARY_NONCE_BYTES, may be NULL; `own`
 * and `expected` NULL = not a canary (then false). */
struct canary_result canary_judge(const char *text, size_t len, const char *own, const char *expected,
                                  const char (*others)[CANARY_NONCE_BYTES], size_t n_others);

#endif
