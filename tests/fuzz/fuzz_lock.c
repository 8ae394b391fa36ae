/* SPDX-License-Identifier: Apache-2.0 */
/* lock_read: any bytes. What is accepted is written and read again as the same text. */
#include "fuzz.h"
#include "model/lock.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lock lock = { 0 }, again = { 0 };
	struct err err = { 0 };
	auto_buf one = BUF_INIT(LOCK_BYTES_MAX);
	auto_buf two = BUF_INIT(LOCK_BYTES_MAX);
	if (lock_read(&lock, (const char *)data, size, "fuzz", &err)) {
		assert(err.msg[0]);
		return 0;
	}
	assert(!lock_write(&one, &lock) && !lock_read(&again, one.p, one.len, "written", &err) &&
	       !lock_write(&two, &again));
	assert(one.len == two.len && memcmp(one.p, two.p, one.len) == 0);
	lock_done(&lock);
	lock_done(&again);
	return 0;
}
