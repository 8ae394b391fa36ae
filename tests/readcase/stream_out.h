/* SPDX-License-Identifier: Apache-2.0 */
/* What both forms of a recorded stream (.sse and .http) print, from the product's own answer. */
#ifndef TESTS_READCASE_STREAM_OUT_H
#define TESTS_READCASE_STREAM_OUT_H

#include "load/answer.h"
#include "readcase.h"

#define KEPT_EVENTS 1000
#define KEPT_BYTES (8u << 20)

struct reading { /* one answer with everything kept that the product only counts */
	struct answer ans;
	struct record rec;
	struct buf text[N_CHANNELS];
	struct buf events; /* a JSON array without its brackets */
	uint64_t n_kept, read_no, first_event_read;
	bool error_by_field, error_by_event;
};

void reading_init(struct reading *r, const struct proto *proto);
/* `whole`: an answer that is not streamed. */
void reading_init_whole(struct reading *r, const struct proto *proto, bool whole);
void reading_done(struct reading *r);
/* The wire of a recorded stream: told by the engine in a real run, by the members of its events here. */
const struct proto *reading_proto(const char *bytes, size_t len);
/* `timed` = read times are known. Adds members to the open object. */
void reading_put(struct json_out *o, const struct reading *r, bool timed);
void put_hex(struct json_out *o, const char *key, const char *bytes, size_t len);
void put_sha256(struct json_out *o, const char *key, const char *bytes, size_t len);

int read_http(const struct case_dir *c, const struct case_input *in, struct json_out *o, struct err *err);

#endif
