/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int exit_codes[ERR_N_CLASSES] = {
	[ERR_NONE] = 0,    [ERR_USAGE] = 2, [ERR_PLAN] = 2, [ERR_NOT_GENUINE] = 1,   [ERR_RECOMPUTE] = 3,
	[ERR_INVALID] = 4, [ERR_ENV] = 5,   [ERR_BUG] = 70, [ERR_INTERRUPTED] = 130,
};

int err_exit_code(enum err_class cls)
{
	return (unsigned)cls < ERR_N_CLASSES ? exit_codes[cls] : 70;
}

/* Text from outside may stand in a message: no control byte reaches the terminal. */
static void make_one_line(char *msg)
{
	for (unsigned char *p = (unsigned char *)msg; *p; p++)
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
}

static void mark_cut(char *msg, int want)
{
	static const char dots[] = "\xe2\x80\xa6";
	if (want >= ERR_MSG_BYTES) {
		size_t at = ERR_MSG_BYTES - sizeof(dots);
		while (at > 0 && ((unsigned char)msg[at] & 0xc0) == 0x80)
			at--;
		memcpy(msg + at, dots, sizeof(dots));
	}
}

__attribute__((format(printf, 2, 0))) static void format_into(struct err *err, const char *fmt, va_list ap)
{
	char text[ERR_MSG_BYTES];
	int want = vsnprintf(text, sizeof(text), fmt, ap);
	mark_cut(text, want);
	make_one_line(text);
	memcpy(err->msg, text, sizeof(text));
}

static void append(struct err *err, const char *text)
{
	size_t len = strlen(err->msg), add = strlen(text), room = sizeof(err->msg) - 1 - len;
	memcpy(err->msg + len, text, add < room ? add : room);
	err->msg[len + (add < room ? add : room)] = '\0';
	make_one_line(err->msg);
}

int err_set(struct err *err, enum err_class cls, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	format_into(err, fmt, ap);
	va_end(ap);
	err->cls = cls;
	return -1;
}

int err_sys(struct err *err, enum err_class cls, int errnum, const char *fmt, ...)
{
	char why[128];
	va_list ap;
	va_start(ap, fmt);
	format_into(err, fmt, ap);
	va_end(ap);
	err->cls = cls;
	append(err, ": ");
	append(err, strerror_r(errnum, why, sizeof(why)));
	return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char inner[ERR_MSG_BYTES];
	va_list ap;
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	format_into(err, fmt, ap);
	va_end(ap);
	append(err, ": ");
	append(err, inner);
	return -1;
}
