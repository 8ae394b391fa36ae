/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rundir_load.h"

#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MEMBER_BYTES_MAX (4ull << 30)
/* Small files are copied: nobody changes or cuts them under us. */
#define COPY_BYTES_MAX (32u << 20)

const char *const evidence_member_names[] = { "plan.json",
	                                      "plan.lock.json",
	                                      "facts.json",
	                                      "events.jsonl",
	                                      "requests.jsonl",
	                                      "tokens.bin",
	                                      "schedule.jsonl",
	                                      "answers.jsonl",
	                                      "engine_metrics.jsonl",
	                                      "telemetry.jsonl",
	                                      "controls.jsonl",
	                                      "prompts.jsonl",
	                                      "engine.log",
	                                      NULL };
const char *const derived_member_names[] = { "verdict.json", "report.html", "junit.xml", "summary.txt",
	                                     NULL };

static int copy_member(struct member_set *set, int fd, const char *name, size_t len, struct err *err)
{
	auto_free char *data = malloc(len + 1);
	size_t have = 0;
	if (!data)
		return err_set(err, ERR_ENV, "%s: no memory", name);
	while (have < len) {
		ssize_t n = read(fd, data + have, len - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, ERR_ENV, errno, "%s: cannot read", name);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	data[have] = '\0';
	if (member_add(set, name, data, have, data))
		return err_set(err, ERR_ENV, "%s: no memory", name);
	data = NULL;
	return 0;
}

static int map_member(struct member_set *set, int fd, const char *name, size_t len, struct err *err)
{
	void *at = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return err_sys(err, ERR_ENV, errno, "%s: cannot map", name);
	if (member_add(set, name, at, len, NULL)) {
		munmap(at, len);
		return err_set(err, ERR_ENV, "%s: no memory", name);
	}
	set->list[set->n - 1].map_len = len;
	return 0;
}

static int load_one(struct member_set *set, int dir_fd, const char *name, struct err *err)
{
	auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == ELOOP)
		return err_set(err, ERR_PLAN, "%s: is a link, want a file", name);
	if (fd < 0 || fstat(fd, &st))
		return err_sys(err, ERR_ENV, errno, "%s: cannot open", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_PLAN, "%s: is not a regular file", name);
	if ((uint64_t)st.st_size > MEMBER_BYTES_MAX)
		return err_set(err, ERR_PLAN, "%s: larger than %llu GiB", name, MEMBER_BYTES_MAX >> 30);
	size_t len = (size_t)st.st_size;
	return len <= COPY_BYTES_MAX ? copy_member(set, fd, name, len, err)
	                             : map_member(set, fd, name, len, err);
}

int rundir_load_names(struct member_set *out, const char *path, const char *const names[], struct err *err)
{
	auto_fd dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_sys(err, errno == ENOENT || errno == ENOTDIR ? ERR_USAGE : ERR_ENV, errno,
		               "%s: cannot open the run directory", path);
	struct member_set set = { 0 };
	for (size_t i = 0; names[i]; i++)
		if (load_one(&set, dir_fd, names[i], err)) {
			member_set_done(&set);
			return err_wrap(err, "%s", path);
		}
	*out = set;
	return 0;
}

int rundir_load(struct member_set *out, const char *path, struct err *err)
{
	return rundir_load_names(out, path, evidence_member_names, err);
}
