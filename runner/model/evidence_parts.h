/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of evidence_*.c share; nobody else includes it. */
#ifndef MODEL_EVIDENCE_PARTS_H
#define MODEL_EVIDENCE_PARTS_H

#include "base/json_in.h"
#include "model/evidence.h"

#define MISSING_MAX 100u /* lines kept in evidence.missing; one more tells how many were left out */

struct ev_loader {
	struct evidence *e;
	const struct member_set *set;
	const char *file;                                           /* what is being read, for messages */
	uint64_t line_no;                                           /* from 1; 0 = the file as a whole */
	void (*take)(struct ev_loader *l, const struct cJSON *obj); /* of ev_each_object */
	size_t n_left_out;
	size_t cap_records, cap_answers, cap_calibrations, cap_controls, cap_readings, cap_starts, cap_phases,
		cap_labels, cap_differences, cap_missing, cap_not_tested, cap_words;
	size_t n_words;
	const char **words; /* interned */
	uint64_t *n_load;   /* load records seen, for each cell */
	size_t last_cell;
	struct ev_cell_state *block; /* of schedule.jsonl: what is being read */
	bool block_warmup, block_told;
	uint64_t n_events, next_seq, next_record, next_control, tokens_used;
	bool began;  /* run_begin was there */
	bool failed; /* no memory */
};

/* "FILE:LINE: what" into evidence.missing. */
void ev_miss(struct ev_loader *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Copies into the arena; NULL (and l->failed) without memory. */
char *ev_keep(struct ev_loader *l, const char *text, size_t len);
/* The same pointer for the same text. NULL when there are too many different ones. */
const char *ev_word(struct ev_loader *l, const char *text);
/* Makes room for one more element; false (and l->failed) without memory. `list` is the address of the array
 * pointer. */
bool ev_room(struct ev_loader *l, void *list, size_t n, size_t *cap, size_t elem_bytes);
void ev_add_line(struct ev_loader *l, char ***list, size_t *n, size_t *cap, const char *text);

/* Calls `take` for each whole line that is one JSON object (l->line_no is set). A last line without newline
 * and lines that are too long or no JSON are told and left out. False when the file is not there. */
bool ev_each_object(struct ev_loader *l, const char *file, size_t max_line_bytes,
                    void (*take)(struct ev_loader *l, const struct cJSON *obj));
/* The same for lines as bytes. */
bool ev_each_line(struct ev_loader *l, const char *file, size_t max_line_bytes,
                  void (*take)(struct ev_loader *l, const char *line, size_t len));

/* Members of a line; what is absent, of the wrong type or too long is told and gives false. */
bool ev_u64(struct ev_loader *l, const struct cJSON *obj, const char *key, uint64_t *out);
/* null gives REC_NONE. */
bool ev_u64_or_none(struct ev_loader *l, const struct cJSON *obj, const char *key, uint64_t *out);
/* null gives NULL, a text a copy in the arena. */
bool ev_text_or_null(struct ev_loader *l, const struct cJSON *obj, const char *key, const char **out,
                     size_t *len);
bool ev_str(struct ev_loader *l, const struct cJSON *obj, const char *key, char *out, size_t out_bytes);
bool ev_bool(struct ev_loader *l, const struct cJSON *obj, const char *key, bool *out);

/* Index of a cell by id; n_cells when the plan has none of that name. */
size_t ev_cell(struct ev_loader *l, const char *id);

void ev_read_events(struct ev_loader *l);
/* Behind the events. */
void ev_read_requests(struct ev_loader *l);
/* Behind the requests, which are held against it. */
void ev_read_schedule(struct ev_loader *l);
/* Behind the schedule, which names the canaries. */
void ev_read_answers(struct ev_loader *l);
void ev_read_engine_metrics(struct ev_loader *l);
void ev_read_controls(struct ev_loader *l);
void ev_read_telemetry(struct ev_loader *l);
/* One record against itself and tokens.bin: what a sane writer cannot have written is told. A record whose
 * tokens are not there loses its reference to them, so that no reader runs past the end. */
void ev_check_record(struct ev_loader *l, struct record *r, uint64_t *tokens_used);

#endif
