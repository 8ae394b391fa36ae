/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine is made of: its program and interpreter, the code its processes have mapped, the files its
 * arguments name. */
#include "base/buf.h"
#include "base/fs.h"
#include "pin/pin_parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAPS_BYTES_MAX (64u << 20)
#define ARGS_BYTES_MAX (4u << 20)
#define SCRIPT_LINE_BYTES 256
#define INTERPRETERS_MAX 4 /* as the kernel */
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* --- program and interpreter --------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* malloc'd path with links followed, or NULL. */
static char *find_program(const char *name, const char *path_env)
{
	if (strchr(name, '/'))
		return is_program(name) ? realpath(name, NULL) : NULL;
	auto_free char *dirs = strdup(path_env && *path_env ? path_env : DEFAULT_PATH);
	char *rest = dirs, *dir;
	while (rest && (dir = strsep(&rest, ":"))) {
		auto_free char *path = fs_join(*dir ? dir : ".", name);
		if (path && is_program(path))
			return realpath(path, NULL);
	}
	return NULL;
}

static char *next_word(char **p)
{
	*p += strspn(*p, " \t");
	char *word = *p;
	*p += strcspn(*p, " \t");
	if (**p)
		*(*p)++ = '\0';
	return *word ? word : NULL;
}

/* `env [-S] [NAME=value…] program` stands for the program it finds. */
static char *behind_env(char *rest, const char *path_env)
{
	char *word;
	while ((word = next_word(&rest)))
		if (word[0] != '-' && !strchr(word, '='))
			return find_program(word, path_env);
	return NULL;
}

/* The interpreter that the first line of the script `path` names. *out = NULL when it is no script. */
static int interpreter_of(char **out, const char *path, const char *path_env, struct err *err)
{
	char line[SCRIPT_LINE_BYTES + 1];
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, line, SCRIPT_LINE_BYTES, 0);
	if (n < 0)
		return err_sys(err, ERR_ENV, errno, "%s: cannot read", path);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	*out = NULL;
	if (strncmp(line, "#!", 2) != 0)
		return 0;
	char *rest = line + 2, *word = next_word(&rest);
	const char *base = word ? strrchr(word, '/') : NULL;
	char *found = base && strcmp(base, "/env") == 0 ? behind_env(rest, path_env)
	              : base                            ? find_program(word, path_env)
	                                                : NULL;
	if (!found)
		return err_set(err, ERR_ENV, "%s: its first line names an interpreter that is not here",
		               path);
	*out = found;
	return 0;
}

static int add_program(struct pin_jobs *jobs, const char *program, const char *path_env, struct err *err)
{
	auto_free char *path = find_program(program, path_env);
	if (!path)
		return err_set(err, ERR_ENV, "%s: no such program%s", program,
		               strchr(program, '/') ? " (or not executable)" : " on the PATH");
	for (unsigned i = 0; path && i <= INTERPRETERS_MAX; i++) {
		char *next = NULL;
		if (interpreter_of(&next, path, path_env, err))
			return -1;
		if (pin_job_add(jobs, steal_ptr(&path), NULL, false)) {
			free(next);
			return err_set(err, ERR_ENV, "%s: no memory", program);
		}
		path = next;
	}
	return 0;
}

int pin_program(struct pin_files *out, const char *program, const char *path_env, bool cache, struct err *err)
{
	struct pin_jobs jobs = { 0 };
	int rc = add_program(&jobs, program, path_env, err);
	if (rc == 0)
		rc = pin_jobs_hash(out, &jobs, cache, NULL, err);
	pin_jobs_done(&jobs);
	return rc;
}

/* --- mapped code --------------------------------------------------------------------------------------- */

static bool is_pseudo(const char *path)
{
	static const char *const starts[] = { "/memfd:", "/dev/", "/SYSV", "/anon_hugepage", "/proc/" };
	for (size_t i = 0; i < ARRAY_LEN(starts); i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* A path as that process sees it (it may live in a container); ours where we may not look. */
static char *seen_by(pid_t pid, const char *path)
{
	char *through = str_fmt("/proc/%d/root%s", (int)pid, path);
	if (through && access(through, R_OK) != 0) {
		free(through);
		through = strdup(path);
	}
	return through;
}

/* The bytes of a mapped file that lost its name: /proc shows them to the privileged, or as the program. */
static char *seen_deleted(pid_t pid, const char *range, uint64_t inode)
{
	struct stat st;
	auto_free char *exe = str_fmt("/proc/%d/exe", (int)pid);
	auto_free char *mapped = str_fmt("/proc/%d/map_files/%s", (int)pid, range);
	if (mapped && stat(mapped, &st) == 0)
		return steal_ptr(&mapped);
	if (exe && stat(exe, &st) == 0 && st.st_ino == inode)
		return steal_ptr(&exe);
	return NULL;
}

static int add_mapping(struct pin_jobs *jobs, pid_t pid, char *line, struct err *err)
{
	static const char mark[] = " (deleted)";
	char range[64], perms[8];
	uint64_t inode = 0;
	int at = -1;
	if (sscanf(line, "%63s %7s %*s %*s %" SCNu64 " %n", range, perms, &inode, &at) != 3 || at < 0 ||
	    perms[2] != 'x' || line[at] != '/' || inode == 0 || is_pseudo(line + at))
		return 0;
	char *path = line + at;
	size_t len = strlen(path), tail = sizeof(mark) - 1;
	bool deleted = len > tail && strcmp(path + len - tail, mark) == 0;
	if (deleted)
		path[len - tail] = '\0';
	char *open_path = deleted ? seen_deleted(pid, range, inode) : seen_by(pid, path);
	if (!open_path)
		return err_set(
			err, ERR_ENV,
			"%s: mapped by process %d but deleted or replaced since, and its bytes cannot be "
			"read: start the engine again",
			path, (int)pid);
	if (pin_job_add(jobs, strdup(path), open_path, deleted))
		return err_set(err, ERR_ENV, "%s: no memory", path);
	return 0;
}

/* 1 = read, 0 = the process is gone. */
static int read_proc(struct buf *out, pid_t pid, const char *what, size_t max_bytes, struct err *err)
{
	struct err why = { 0 };
	auto_free char *path = str_fmt("/proc/%d/%s", (int)pid, what);
	buf_init(out, max_bytes);
	if (!path)
		return err_set(err, ERR_ENV, "no memory");
	if (fs_read(out, path, max_bytes, &why) == 0)
		return 1;
	auto_free char *dir = str_fmt("/proc/%d", (int)pid);
	if (!dir || access(dir, F_OK) != 0)
		return 0;
	*err = why;
	return -1;
}

static int add_mapped(struct pin_jobs *jobs, pid_t pid, struct err *err)
{
	auto_buf maps = BUF_INIT(0);
	int rc = read_proc(&maps, pid, "maps", MAPS_BYTES_MAX, err);
	char *rest = rc > 0 ? maps.p : NULL, *line;
	rc = rc < 0 ? -1 : 0;
	while (rc == 0 && rest && (line = strsep(&rest, "\n")))
		rc = add_mapping(jobs, pid, line, err);
	/* Hundreds of mappings name the same file, for each process again. */
	pin_jobs_sort_unique(jobs);
	return rc;
}

int pin_mapped_files(struct pin_files *out, const pid_t *pids, size_t n_pids, bool cache, struct err *err)
{
	struct pin_jobs jobs = { 0 };
	int rc = 0;
	for (size_t i = 0; i < n_pids && rc == 0; i++)
		rc = add_mapped(&jobs, pids[i], err);
	if (rc == 0 && jobs.n == 0)
		rc = err_set(err, ERR_ENV, "the engine's processes have no file mapped: did they end?");
	if (rc == 0)
		rc = pin_jobs_hash(out, &jobs, cache, NULL, err);
	pin_jobs_done(&jobs);
	return rc;
}

/* --- files named by arguments -------------------------------------------------------------------------- */

struct arg_search {
	struct pin_jobs jobs;
	const pid_t *pids;
	size_t n_pids;
	struct stat *except;
	size_t n_except;
	uint64_t max_bytes;
};

static bool is_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool fd_writes(pid_t pid, const char *fd)
{
	struct err ignored = { 0 };
	unsigned flags = 0;
	auto_buf text = BUF_INIT(1 << 16);
	auto_free char *path = str_fmt("/proc/%d/fdinfo/%s", (int)pid, fd);
	if (!path || fs_read(&text, path, 1 << 16, &ignored))
		return false;
	const char *p = strstr(text.p, "flags:");
	return p && sscanf(p, "flags: %o", &flags) == 1 && (flags & O_ACCMODE) != O_RDONLY;
}

/* A file that the engine itself writes (a log) is no part of what it is. */
static bool is_written_by(pid_t pid, const struct stat *file)
{
	auto_free char *dir = str_fmt("/proc/%d/fd", (int)pid);
	DIR *d = dir ? opendir(dir) : NULL;
	bool written = false;
	for (struct dirent *e; d && !written && (e = readdir(d));) {
		struct stat st;
		if (isdigit((unsigned char)e->d_name[0]) && fstatat(dirfd(d), e->d_name, &st, 0) == 0)
			written = is_file(&st, file) && fd_writes(pid, e->d_name);
	}
	if (d)
		closedir(d);
	return written;
}

static bool is_wanted(const struct arg_search *s, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size > s->max_bytes)
		return false;
	for (size_t i = 0; i < s->n_except; i++)
		if (is_file(&s->except[i], st))
			return false;
	for (size_t i = 0; i < s->n_pids; i++)
		if (is_written_by(s->pids[i], st))
			return false;
	return true;
}

static int add_argument(struct arg_search *s, pid_t pid, const char *arg, struct err *err)
{
	struct stat st;
	if (!*arg || strlen(arg) >= PATH_MAX)
		return 0;
	auto_free char *cwd = str_fmt("/proc/%d/cwd/%s", (int)pid, arg);
	auto_free char *open_path = arg[0] == '/' ? seen_by(pid, arg) : steal_ptr(&cwd);
	if (!open_path)
		return err_set(err, ERR_ENV, "no memory");
	if (stat(open_path, &st) || !is_wanted(s, &st) || access(open_path, R_OK))
		return 0;
	char *name = realpath(open_path, NULL);
	if (pin_job_add(&s->jobs, name, steal_ptr(&open_path), false))
		return err_set(err, ERR_ENV, "no memory");
	return 0;
}

static int add_arguments(struct arg_search *s, pid_t pid, struct err *err)
{
	auto_buf text = BUF_INIT(0);
	int rc = read_proc(&text, pid, "cmdline", ARGS_BYTES_MAX, err);
	if (rc <= 0)
		return rc;
	bool program = true; /* argv[0] is what is mapped */
	for (size_t at = 0; at < text.len; at += strlen(text.p + at) + 1) {
		const char *arg = text.p + at, *value = arg[0] == '-' ? strchr(arg, '=') : NULL;
		if (!program && add_argument(s, pid, value ? value + 1 : arg, err))
			return -1;
		program = false;
	}
	pin_jobs_sort_unique(&s->jobs);
	return 0;
}

int pin_argument_files(struct pin_files *out, const pid_t *pids, size_t n_pids, const char *const *except,
                       size_t n_except, uint64_t max_bytes, bool cache, struct err *err)
{
	struct arg_search s = { .pids = pids, .n_pids = n_pids, .max_bytes = max_bytes };
	auto_free struct stat *known = calloc(n_except + 1, sizeof(*known));
	if (!known)
		return err_set(err, ERR_ENV, "no memory");
	s.except = known;
	for (size_t i = 0; i < n_except; i++)
		s.n_except += stat(except[i], &known[s.n_except]) == 0;
	int rc = 0;
	for (size_t i = 0; i < n_pids && rc == 0; i++)
		rc = add_arguments(&s, pids[i], err);
	if (rc == 0)
		rc = pin_jobs_hash(out, &s.jobs, cache, NULL, err);
	pin_jobs_done(&s.jobs);
	return rc;
}
