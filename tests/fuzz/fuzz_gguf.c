/* SPDX-License-Identifier: Apache-2.0 */
/* gguf: any bytes as a model file, and what is derived from its header. */
#include "base/fs.h"
#include "fuzz.h"
#include "model/kv_size.h"
#include "pin/gguf.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

static void check(const struct gguf *g, size_t size)
{
	struct kv_model m = { 0 };
	struct kv_width w = { 1, 2 };
	struct err err = { 0 };
	uint64_t n;
	assert(g->version == 2 || g->version == 3);
	assert(g->header_bytes <= size && g->tensor_bytes <= size);
	for (size_t i = 0; i < g->n_tensors; i++)
		assert(g->data_offset + g->tensors[i].offset + g->tensors[i].bytes <= size);
	for (size_t i = 0; i < g->n_values; i++)
		assert(gguf_find(g, g->values[i].key) == &g->values[i]);
	int rc = gguf_kv_model(&m, g, &err);
	assert(rc == 0 || err.msg[0]);
	if (rc == 0)
		(void)kv_bytes(&n, &m, 131072, w, w, 8);
	kv_model_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gguf g = { 0 };
	struct err err = { 0 };
	char path[64];
	auto_fd fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || fs_write_all(fd, data, size))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = gguf_read(&g, path, &err);
	assert(rc == 0 || (err.cls == ERR_PLAN && err.msg[0]));
	assert(rc == 0 || g.version == 0); /* outputs stay untouched */
	if (rc == 0)
		check(&g, size);
	gguf_done(&g);
	return 0;
}
