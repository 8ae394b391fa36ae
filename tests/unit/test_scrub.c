/* SPDX-License-Identifier: Apache-2.0 */
/* What a server repeats of the key it was given is not kept: whole, cut, escaped, in every field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "load/answer.h"
#include "load/scrub.h"
#include "model/proto.h"

#include <stdio.h>
#include <string.h>

#define KEY "s3cr3t/key\"0123456789"

static void nothing_of_the_key_is_kept(void **state)
{
	(void)state;
	static const struct {
		const char *key, *text, *want;
	} table[] = {
		{ KEY, "bad key " KEY ".", "bad key ***." },
		{ KEY, KEY KEY, "******" },
		{ KEY, "cut: s3cr3t/k", "cut: ***" },
		{ KEY, "cut: s3cr3t: more", "cut: ***: more" },
		{ KEY, "s3cr3 is too short to be one", "s3cr3 is too short to be one" },
		{ KEY, "s3cr3t\\/key\\\"0123456789!", "***!" },
		{ KEY, "\\u0073\\u0033\\u0063\\u0072\\u0033\\u0074\\u002F\\u006b!", "***!" },
		{ KEY, "s3cr3t/\\u00", "***\\u00" },
		{ KEY, "", "" },
		{ KEY, "\\", "\\" },
		{ KEY, "s3cs3cr3t/key", "s3c***" },
		{ "ab", "ab cab abc", "** c** **c" },
		{ "", "nothing is secret", "nothing is secret" },
		{ NULL, "nothing is secret", "nothing is secret" },
	};
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		char text[128];
		snprintf(text, sizeof text, "%s", table[i].text);
		scrub(text, table[i].key);
		assert_string_equal(text, table[i].want);
	}
}

static void no_field_of_a_record_holds_it(void **state)
{
	(void)state;
	static const char *const streams[] = {
		"data: {\"error\":{\"type\":\"%s %s %s\",\"code\":\"%s\",\"message\":\"%s\"}}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"by "
		"%s\"}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}\n\ndata: "
		"[DONE]\n\n",
	};
	static const char key[] = "s3cr3t-key-0123456789-abcdefgh-0123456789";
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		struct answer a;
		struct record r;
		char text[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int len = snprintf(text, sizeof text, streams[i], key, key, key, key, key);
#pragma GCC diagnostic pop
		record_init(&r);
		r.http = 200;
		r.sent_ns = 1;
		answer_init(&a, proto_of(ENGINE_ATTACH, API_CHAT), key);
		answer_start(&a, &r);
		answer_body(&a, 2, 0, text, (size_t)len);
		answer_end(&a, TRANSPORT_COMPLETE, "");
		assert_null(strstr(r.detail, "s3cr3t"));
		assert_null(strstr(r.finish, "s3cr3t"));
		assert_true(strstr(r.detail, "***") || strstr(r.finish, "***"));
		answer_done(&a);
	}
}

static void nothing_steers_a_terminal(void **state)
{
	(void)state;
	static const char body[] = "{\"error\":\"a\x1b[2Jb\xC2\x9B"
				   "2Jc\xE2\x80\xAE"
				   "d\xE2\x80\xA8"
				   "e\xE2\x81\xA6"
				   "f\xC3\xA9g\"}";
	struct answer a;
	struct record r;
	record_init(&r);
	r.http = 500;
	r.sent_ns = 1;
	answer_init(&a, proto_of(ENGINE_ATTACH, API_CHAT), NULL);
	answer_start(&a, &r);
	answer_body(&a, 2, 0, body, sizeof body - 1);
	answer_end(&a, TRANSPORT_COMPLETE, "");
	assert_string_equal(r.detail, "500: {\"error\":\"a?[2Jb?2Jc?d?e?f\xC3\xA9g\"}");
	answer_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_the_key_is_kept),
		cmocka_unit_test(no_field_of_a_record_holds_it),
		cmocka_unit_test(nothing_steers_a_terminal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
