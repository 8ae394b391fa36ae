/* SPDX-License-Identifier: Apache-2.0 */
/* Between the prompts*.c files: words, the text of one request, its exact length, conversations. */
#ifndef TRIAL_PROMPTS_PARTS_H
#define TRIAL_PROMPTS_PARTS_H

#include "model/schedule.h"
#include "trial/prompt_words.h"
#include "trial/prompts.h"

#define PROMPTS_RECIPE "proofmark prompts 2"
#define BODY_BYTES_MAX (64u << 20)

#define WORD_BYTES 16 /* of the list: blank, word, NUL */

struct word {
	const char *text;
	size_t len;
};

struct prompts {
	struct prompts_spec spec;
	bool exact;
	size_t n_words;
	double word_bytes;                          /* mean of `words` */
	struct word words[ARRAY_LEN(prompt_words)]; /* each with a blank before it */
	char spaced[ARRAY_LEN(prompt_words)][WORD_BYTES];
};

/* Tokens of a text as the server will see it; asks the server. */
warn_unused int prompts_count(const struct prompts *p, enum api api, const char *text, uint64_t *n,
                              struct err *err);

/* --- prompts_text.c: what stands in a request ------------------------------------------------------------
 */

struct texts { /* of one cell */
	const struct prompts *p;
	const struct cell *cell;
	bool warmup;
	uint64_t seed;
	uint64_t overhead_tok; /* of lead and chat template, once a length was fitted */
	struct buf corpus;     /* whole text, words cut at blanks */
	size_t n_corpus_words;
	struct word *corpus_words;
};
/* Reads the corpus where the workload has one. */
warn_unused int texts_open(struct texts *t, const struct prompts *p, const struct cell *cell, bool warmup,
                           struct err *err);
void texts_done(struct texts *t);
struct fill {
	uint64_t words; /* behind the lead */
	uint64_t pad;   /* list words behind those: where the last word is several tokens long */
};
/* The prompt of `i` and its canary's text. */
void texts_prompt(struct buf *out, const struct texts *t, const struct sched_item *i, struct fill fill);
/* What the user says in a later turn: turn_prompt_tok words, and the canary's text. A chat's begins with a
 * word, a plain text's with a blank. */
void texts_turn(struct buf *out, const struct texts *t, const struct sched_item *i, bool chat);

/* --- prompts_fit.c: how many words make the planned length ------------------------------------------------
 */

struct fit_length {
	uint64_t prompt_tok;
	struct fill fill;
};
struct fits {
	struct texts *t;
	bool each; /* every prompt has a count of its own: a corpus, or words that do not keep their count */
	size_t n;
	struct fit_length *list; /* ascending */
	uint64_t canary_tok;     /* of the last canary fitted: the first guess for the next one */
};
/* Fits every length of the cell by the server's tokenizer and checks that other requests of that length have
 * it too. ERR_PLAN when a length cannot be reached. */
warn_unused int fits_open(struct fits *f, struct texts *t, const struct sched *s, const struct trace *trace,
                          struct err *err);
void fits_done(struct fits *f);
/* True: the words of `i` are known only from the tokenizer (fits_one). */
bool fits_must_ask(const struct fits *f, const struct sched_item *i);
struct fill fits_known(const struct fits *f, const struct sched_item *i);
warn_unused int fits_one(struct fill *fill, struct fits *f, const struct sched_item *i, struct err *err);

/* --- prompts_talk.c: conversations ------------------------------------------------------------------------
 */

/* A request body around the place where the conversation goes; depends on max_tok alone. */
struct talk_form {
	uint64_t max_tok;
	bool chat; /* messages; else one text */
	char *before, *after;
	size_t before_len, after_len;
	struct talk_form *next;
};
/* The form for `max_tok`, made when `*list` lacks it. */
warn_unused int talk_form_of(const struct talk_form **out, struct talk_form **list, const struct texts *t,
                             const struct proto *proto, uint64_t max_tok, struct err *err);
void talk_forms_done(struct talk_form *list);

struct talk {            /* one conversation so far */
	struct buf json; /* chat: messages without the brackets; else the inside of a JSON string */
};
struct talk *talk_new(const struct talk_form *f, const char *prompt);
void talk_free(struct talk *k);
/* The server's answer and what the user says next. -1: too long, or no memory. */
int talk_add(struct talk *k, const struct talk_form *f, const char *answer, size_t answer_len,
             const char *prompt);
/* The whole body, malloc'd; NULL without memory. */
char *talk_body(size_t *len, const struct talk *k, const struct talk_form *f);

#endif
