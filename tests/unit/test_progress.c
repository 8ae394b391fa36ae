/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/progress.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	struct load_progress p;
	const char *text;
} texts[] = {
	{ { .planned = 120, .ttft_p50_ns = REC_NONE, .ttft_p99_ns = REC_NONE },
	  "load chat/32in/16out/c1: 0/120 requests, 0 failed, 120 needed" },
	{ { .done = 30,
	    .failed = 1,
	    .planned = 120,
	    .tokens = 480,
	    .ttft_p50_ns = 213 * NS_PER_MS,
	    .ttft_p99_ns = 8500 * NS_PER_US,
	    .elapsed_ns = 20 * NS_PER_S },
	  "load chat/32in/16out/c1: 30/120 requests, TTFT p50 213 ms p99 8.50 ms, 24.0 tok/s, 1 failed, 90 "
	  "needed, "
	  "about 60 s" },
	{ { .done = 120, .planned = 120, .ttft_p50_ns = 45 * NS_PER_MS, .ttft_p99_ns = REC_NONE },
	  "load chat/32in/16out/c1: 120/120 requests, TTFT p50 45.0 ms, 0 failed" },
	{ { .done = 7, .ttft_p50_ns = REC_NONE, .ttft_p99_ns = REC_NONE },
	  "load chat/32in/16out/c1: 7 requests, 0 failed" },
};

static void tells_what_is_known_and_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char text[PROGRESS_TEXT_BYTES];
		progress_text(text, "load", "chat/32in/16out/c1", &texts[i].p);
		assert_string_equal(text, texts[i].text);
	}
}

static const struct {
	const char *text;
	size_t columns;
	const char *want;
} cuts[] = {
	{ "abcdef", 10, "abcdef" },
	{ "abcdef", 6, "abcdef" },
	{ "abcdef", 4, "abc\xe2\x80\xa6" },
	{ "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 3, "\xc3\xa4\xc3\xb6\xe2\x80\xa6" },
	{ "abcd", 3, "ab" },
	{ "abcdef", 0, "" },
	{ "", 5, "" },
};

static void cuts_to_the_width_and_never_inside_a_character(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		char text[64];
		snprintf(text, sizeof(text), "%s", cuts[i].text);
		progress_cut(text, cuts[i].columns);
		assert_string_equal(text, cuts[i].want);
	}
}

/* What `mode` leaves on standard error after a short story. */
static void tell_story(char out[4096], enum progress_mode mode)
{
	char path[] = "/tmp/progress-XXXXXX";
	int keep = dup(STDERR_FILENO), fd = mkostemp(path, O_CLOEXEC);
	struct load_progress p = {
		.done = 1, .planned = 2, .ttft_p50_ns = REC_NONE, .ttft_p99_ns = REC_NONE
	};
	unlink(path);
	dup2(fd, STDERR_FILENO);
	progress_open(mode);
	progress_phase("warm");
	progress_phase("load");
	progress_load("c/1", &p);
	p.done = 2;
	progress_load("c/1", &p);
	progress_line("a\nline");
	progress_phase("stop");
	progress_close();
	fflush(stderr);
	dup2(keep, STDERR_FILENO);
	ssize_t n = pread(fd, out, 4095, 0);
	out[n > 0 ? n : 0] = '\0';
	close(fd);
	close(keep);
}

static void writes_a_line_a_phase_and_a_line_a_cell_where_no_terminal_is(void **state)
{
	(void)state;
	char out[4096];
	tell_story(out, PROGRESS_AUTO);
	assert_string_equal(out, "warm\nload\na?line\nload c/1: 2/2 requests, 0 failed\nstop\n");
}

static void writes_json_lines_with_null_for_the_unknown(void **state)
{
	(void)state;
	char out[4096];
	tell_story(out, PROGRESS_JSON);
	assert_non_null(strstr(out, "\"phase\":\"warm\"}\n"));
	assert_non_null(strstr(out, "\"cell\":\"c/1\",\"n_done\":2,\"n_planned\":2,\"n_failed\":0"));
	assert_non_null(strstr(out, "\"ttft_p50_ns\":null"));
	assert_null(strstr(out, "18446744073709551615"));
}

static void is_silent_when_told_so_or_never_opened(void **state)
{
	(void)state;
	char out[4096];
	tell_story(out, PROGRESS_NONE);
	assert_string_equal(out, "");
	assert_int_equal(progress_mode_of("none"), PROGRESS_NONE);
	assert_int_equal(progress_mode_of(NULL), PROGRESS_AUTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_what_is_known_and_nothing_else),
		cmocka_unit_test(cuts_to_the_width_and_never_inside_a_character),
		cmocka_unit_test(writes_a_line_a_phase_and_a_line_a_cell_where_no_terminal_is),
		cmocka_unit_test(writes_json_lines_with_null_for_the_unknown),
		cmocka_unit_test(is_silent_when_told_so_or_never_opened),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
