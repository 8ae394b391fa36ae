/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted engine: an HTTP server that speaks like llama-server, with known timings, known answers and
 * faults on command. It calibrates the client and stands in for an engine in tests; it shares no code with
 * the product, so that a mistake there cannot hide here. One process, one epoll loop, libc only. */
#ifndef SCRIPTED_H
#define SCRIPTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NS_MS 1000000ull
#define NS_US 1000ull
#define NO_DUE UINT64_MAX
#define BOS_ID 1u

/* --- text.c: growing text, a small JSON reader, the tokenizer, the generated text --- */

struct sb { /* growing text; aborts without memory */
	char *p;
	size_t len, cap;
};
void sb_add(struct sb *b, const void *data, size_t len);
void sb_adds(struct sb *b, const char *s);
void sb_addf(struct sb *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sb_json(struct sb *b, const char *s, size_t len); /* a quoted JSON string */

struct span { /* a piece of somebody else's text; p NULL = absent */
	const char *p;
	size_t len;
};
struct span json_member(struct span obj, const char *key); /* value of a member of the top object */
bool json_elem(struct span *rest, struct span *elem);      /* walks an array; `rest` starts as the array */
bool json_valid_shape(struct span text);                   /* brackets and strings balance */
char *json_text(struct span value, size_t *len);           /* unescaped string, malloc'd; NULL if no string */
bool json_true(struct span value);
double json_number(struct span value, double otherwise);

/* One token per word together with the blanks in front of it; trailing blanks are a token of their own. */
size_t next_piece(const char *text, size_t len, size_t at);
size_t count_pieces(const char *text, size_t len);
uint32_t piece_id(const char *p, size_t len);   /* the same piece has the same id in every run */
const char *piece_of(uint32_t id, size_t *len); /* pieces seen in this run; else NULL */
uint64_t hash64(const void *data, size_t len, uint64_t seed);
uint64_t mix64(uint64_t x);
void add_word(struct sb *out, uint64_t key, size_t k); /* k-th generated word, with a blank in front */

void answers_load(const char *path);        /* lines "needle<TAB>answer"; exits on error */
const char *answer_for(const char *prompt); /* NULL = none */

/* --- faults --- */

enum fault_kind {
	F_NONE,
	F_HTTP, /* httpNNN */
	F_ERROR_IN_STREAM,
	F_CUT,
	F_RST,
	F_NO_DONE,
	F_EMPTY,
	F_STALL,
	F_SLOW_HEADERS,
	F_CORRUPT_TEXT,
	F_BAD_JSON,
	F_BAD_UTF8,
	F_ROLE_EARLY,
	F_MULTI_TOK,
	F_MULTI_EVENT,
	F_COMMENTS,
	F_WRONG_LENGTH,
	F_WRONG_USAGE,
	F_SPIKE,
	F_NONCE_LEAK,
	F_DIE,
	F_KILL9,
	F_RESTART, /* all connections reset, the port closed for slow_ns, then open again */
	/* wild.c: a child process plays the answer */
	F_DRIP,
	F_HALF_CLOSE,
	F_LONG_LENGTH,
	F_SHORT_LENGTH,
	F_TRAILERS,
	F_GZIP,
	F_INTERIM,
	F_HUGE_EVENT,
	F_TINY_EVENTS,
	F_NUL,
	F_RST_HEAD,
	F_GARBAGE,
	F_ENDLESS_HEAD,
	F_UNTIL_CLOSE,
	F_BAD_CHUNK,
	F_AFTER_DONE,
	F_STAY_OPEN,
	/* not tied to a request */
	F_HANG_HEALTH,
	F_NEVER_READY,
	F_HANG_COMPLETION,
	F_OOM_EXIT,
	F_LOAD_FAIL,
	F_SIGILL,
	N_FAULTS
};

struct fault {
	enum fault_kind kind;
	int http;             /* F_HTTP */
	uint64_t every, from; /* 0 = not asked */
	size_t n_at;
	uint64_t at[32];
	const char *match; /* the prompt holds this text */
	uint64_t tok;      /* happens after this many tokens */
};

/* --- options --- */

struct options {
	const char *host, *model, *alias, *api_key;
	int port;
	uint64_t ctx_tok, slots;
	uint64_t load_ns, ttft_ns, per_prompt_tok_ns, itl_ns, jitter_ns, slow_ns;
	uint64_t seed, natural_tok, group;
	uint64_t retry_after_s, huge_mib, tiny_events;
	const char *unix_path;
	bool bos, metrics, fault_all, early_headers, ignore_term, quiet;
	uint64_t children, daemons, mem_mb;
	FILE *truth;
	size_t n_faults;
	struct fault faults[16];
};
extern struct options opt;
const struct fault *fault_of_kind(enum fault_kind kind);
/* The fault of generation request `n` (from 1), or NULL. */
const struct fault *fault_for(uint64_t n, const char *prompt);

/* --- serve.c: connections and answers --- */

extern uint64_t ready_at_ns;
uint64_t now_ns(void);
void serve(int listen_fd) __attribute__((noreturn));
int listen_again(void); /* main.c: the same address once more */

#endif
