/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the tool itself: it cannot go on. (What a request or an engine does wrong is an observation or a
 * finding, never an `err`.) A `struct err` lives on the caller's stack, holds one line, allocates nothing.
 * Functions return 0, or -1 with `*err` filled and every output untouched. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define warn_unused __attribute__((warn_unused_result))

enum err_class {
	ERR_NONE = 0,
	ERR_USAGE,       /* wrong option or argument                          exit 2 */
	ERR_PLAN,        /* plan, lock or other input file not acceptable     exit 2 */
	ERR_NOT_GENUINE, /* signature, hash or recomputation differs          exit 1 */
	ERR_RECOMPUTE,   /* genuine, but cannot be recomputed here            exit 3 */
	ERR_INVALID,     /* the measurement itself is not sound               exit 4 */
	ERR_ENV,         /* environment: file, disk, network, engine, as-pinned  exit 5 */
	ERR_BUG,         /* our own mistake                                   exit 70 */
	ERR_INTERRUPTED, /* Ctrl-C                                            exit 130 */
	ERR_N_CLASSES
};

#define ERR_MSG_BYTES 1024

struct err {
	enum err_class cls;
	char msg[ERR_MSG_BYTES]; /* one line, no newline; control bytes replaced by '?' */
};

/* Fill and return -1: `return err_set(err, ERR_PLAN, "plans/x.json: /workloads/1/rate_rps: want …, got …")`.
 * A message says where, what is wrong, and what to do next. Longer text is cut with "…". */
int err_set(struct err *err, enum err_class cls, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, with ": " and the text of `errnum` behind it. */
int err_sys(struct err *err, enum err_class cls, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Put an outer step in front of what is there: "lock: " + msg. The class stays. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The exit code of a class (design.md's table; one place in the program). */
int err_exit_code(enum err_class cls);

#endif
