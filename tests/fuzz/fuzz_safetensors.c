/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors: any bytes as a header, and the whole as a file. */
#include "base/fs.h"
#include "fuzz.h"
#include "pin/safetensors.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

static void check(const struct safetensors *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < s->n_tensors; i++) {
		const struct st_tensor *t = &s->tensors[i];
		assert(t->begin <= t->end && t->end <= s->tensor_bytes);
		assert(safetensors_find(s, t->name) == t);
		sum += t->end - t->begin;
	}
	assert(sum == s->tensor_bytes); /* they fill it, none twice */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct safetensors s = { 0 };
	struct err err = { 0 };
	char path[64];
	auto_fd fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || fs_write_all(fd, data, size))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = safetensors_read(&s, path, &err);
	assert(rc == 0 || (err.cls == ERR_PLAN && err.msg[0]));
	assert(rc == 0 || s.tensors == NULL); /* outputs stay untouched */
	check(&s);
	safetensors_done(&s);
	if (size > 8 && safetensors_parse(&s, (const char *)data + 8, size - 8, 16, "fuzz", &err) == 0)
		check(&s);
	safetensors_done(&s);
	return 0;
}
