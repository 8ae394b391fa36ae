/* SPDX-License-Identifier: Apache-2.0 */
/* replay MUTATIONS FILE_OR_FOLDER…: gives every seed file to the target, and MUTATIONS seeded changes of
 * each. Without libFuzzer, always the same inputs; a failing one is written to ./fuzz-crash.bin and named. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SEED_BYTES_MAX = 1 << 20, GROW_BYTES = 4096, SEEDS_MAX = 4096, TIME_LIMIT_S = 10 };

struct seeds {
	size_t n;
	char *paths[SEEDS_MAX];
};

static uint64_t state;
static const uint8_t *now;
static size_t now_len;
static const char *now_name;
static uint64_t now_mutation;

static uint64_t splitmix64(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n ? (size_t)(splitmix64() % n) : 0;
}

/* Keeps the input for the one who looks for the reason. */
static void on_crash(int sig)
{
	char line[512];
	FILE *f = fopen("fuzz-crash.bin", "w");
	if (f) {
		fwrite(now, 1, now_len, f);
		fclose(f);
	}
	int n = snprintf(line, sizeof(line), "\n%s of seed %s, mutation %" PRIu64 ": fuzz-crash.bin\n",
	                 sig == SIGALRM ? "hang" : "crash", now_name, now_mutation);
	if (n > 0)
		(void)!write(STDERR_FILENO, line, (size_t)n);
	signal(sig, SIG_DFL);
	raise(sig == SIGALRM ? SIGABRT : sig);
}

static void feed(const char *name, uint64_t mutation, const uint8_t *data, size_t len)
{
	/* exact size on the heap, so that a sanitizer sees a read past the end */
	auto_free uint8_t *exact = malloc(len ? len : 1);
	if (!exact)
		abort();
	if (len)
		memcpy(exact, data, len);
	now = exact;
	now_len = len;
	now_name = name;
	now_mutation = mutation;
	alarm(TIME_LIMIT_S);
	LLVMFuzzerTestOneInput(exact, len);
	alarm(0);
}

/* --- changes ------------------------------------------------------------------------------------------- */

static const char *const words[] = { "{",
	                             "}",
	                             "[",
	                             "]",
	                             "\"",
	                             "\\",
	                             ",",
	                             ":",
	                             "\\u0000",
	                             "\\ud83d",
	                             "\\ude00",
	                             "null",
	                             "1e999",
	                             "-",
	                             "0",
	                             "NaN",
	                             "\xef\xbb\xbf",
	                             "\xf0\x9f\x9a\x80",
	                             "\xc0\xaf",
	                             "data: ",
	                             "\r\n",
	                             "\n\n",
	                             "\r",
	                             "[DONE]",
	                             "../",
	                             "18446744073709551616",
	                             "\x80",
	                             "\0" };

static size_t replace(uint8_t *d, size_t len, size_t room, size_t at, size_t cut, const void *with, size_t n)
{
	if (cut > len - at)
		cut = len - at;
	if (len - cut + n > room)
		return len;
	memmove(d + at + n, d + at + cut, len - at - cut);
	memcpy(d + at, with, n);
	return len - cut + n;
}

static size_t repeat_part(uint8_t *d, size_t len, size_t room)
{
	uint8_t part[64];
	size_t at = below(len), n = below(sizeof(part)) + 1;
	n = n < len - at ? n : len - at;
	memcpy(part, d + at, n);
	for (size_t k = below(40) + 1; k > 0; k--)
		len = replace(d, len, room, at, 0, part, n);
	return len;
}

static size_t change(uint8_t *d, size_t len, size_t room)
{
	size_t at = below(len + 1);
	const char *word = words[below(ARRAY_LEN(words))];
	uint8_t byte = (uint8_t)splitmix64();
	switch (below(7)) {
	case 0:
		if (at < len)
			d[at] = (uint8_t)(d[at] ^ 1u << below(8));
		return len;
	case 1:
		return replace(d, len, room, at, 1, &byte, 1);
	case 2:
		return replace(d, len, room, at, 0, word, strlen(word));
	case 3:
		return replace(d, len, room, at, below(16), word, strlen(word));
	case 4:
		return replace(d, len, room, at, below(len / 4 + 2), "", 0);
	case 5:
		return len ? repeat_part(d, len, room) : len;
	default:
		return at; /* cut off */
	}
}

static void mutate(const char *name, const struct buf *seed, uint64_t n_mutations)
{
	size_t room = seed->len + GROW_BYTES;
	auto_free uint8_t *d = malloc(room);
	if (!d)
		abort();
	for (uint64_t i = 1; i <= n_mutations; i++) {
		size_t len = seed->len;
		state = i; /* each mutation stands alone: it can be made again without those before */
		memcpy(d, seed->p, len);
		for (size_t k = below(6) + 1; k > 0; k--)
			len = change(d, len, room);
		feed(name, i, d, len);
	}
}

/* --- seeds --------------------------------------------------------------------------------------------- */

static void add_seed(struct seeds *s, char *path)
{
	if (path && s->n < SEEDS_MAX)
		s->paths[s->n++] = path;
	else
		free(path);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_seeds(struct seeds *s, const char *path)
{
	DIR *d = opendir(path);
	if (!d) {
		add_seed(s, strdup(path));
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			add_seed(s, fs_join(path, e->d_name));
	closedir(d);
}

int main(int argc, char **argv)
{
	static struct seeds s;
	uint64_t n_mutations = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
	for (int i = 2; i < argc; i++)
		find_seeds(&s, argv[i]);
	if (s.n == 0) {
		fputs("usage: replay MUTATIONS FILE_OR_FOLDER…: no seed was given\n", stderr);
		return 2;
	}
	qsort(s.paths, s.n, sizeof(s.paths[0]), by_text);
	static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		signal(signals[i], on_crash);
	for (size_t i = 0; i < s.n; i++) {
		auto_buf seed = BUF_INIT(SEED_BYTES_MAX);
		struct err err = { 0 };
		if (fs_read(&seed, s.paths[i], SEED_BYTES_MAX, &err)) {
			fprintf(stderr, "%s\n", err.msg);
			return 2;
		}
		feed(s.paths[i], 0, (const uint8_t *)seed.p, seed.len);
		mutate(s.paths[i], &seed, n_mutations);
		free(s.paths[i]);
	}
	printf("%zu seeds, %" PRIu64 " mutations each\n", s.n, n_mutations);
	return 0;
}
