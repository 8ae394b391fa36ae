/* SPDX-License-Identifier: Apache-2.0 */
/* gguf: any bytes as a model file. */
#include "base/fs.h"
#include "fuzz.h"
#include "pin/gguf.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gguf_info g = { 0 };
	struct err err = { 0 };
	char path[64];
	auto_fd fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || fs_write_all(fd, data, size))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = gguf_read(&g, path, &err);
	assert(rc == 0 || (err.cls == ERR_PLAN && err.msg[0]));
	assert(rc == 0 || g.version == 0); /* outputs stay untouched */
	assert(memchr(g.name, '\0', sizeof(g.name)) && memchr(g.architecture, '\0', sizeof(g.architecture)));
	return 0;
}
