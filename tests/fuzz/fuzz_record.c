/* SPDX-License-Identifier: Apache-2.0 */
/* A line of requests.jsonl and LEB128: what is read is written again as the same bytes. */
#include "fuzz.h"
#include "model/record.h"

#include <assert.h>
#include <string.h>

static void read_numbers(const uint8_t *data, size_t size)
{
	uint64_t v;
	for (size_t at = 0, used; at < size; at += used) {
		uint8_t again[10];
		used = leb128_get(data + at, size - at, &v);
		if (!used)
			return;
		assert(leb128_put(again, v) == used && !memcmp(again, data + at, used));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct record r;
	struct err err = { 0 };
	size_t len = size && data[size - 1] == '\n' ? size - 1 : size;
	if (record_read(&r, (const char *)data, len, "fuzz", 1, &err) == 0) {
		auto_buf b = BUF_INIT(1u << 20);
		record_write(&b, &r);
		assert(b.len == len + 1 && !memcmp(b.p, data, len));
	} else {
		assert(err.cls == ERR_PLAN && err.msg[0]);
	}
	read_numbers(data, size);
	return 0;
}
