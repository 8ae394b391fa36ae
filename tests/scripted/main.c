/* SPDX-License-Identifier: Apache-2.0 */
/* Options, start-up, faults. README.md lists the options. */
#include "scripted.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct options opt = {
	.host = "127.0.0.1",
	.model = "scripted.gguf",
	.port = 8080,
	.ttft_ns = 20 * NS_MS,
	.itl_ns = 5 * NS_MS,
	.slow_ns = 2000 * NS_MS,
	.seed = 1,
	.natural_tok = 8,
	.group = 4,
	.huge_mib = 1024,
	.tiny_events = 1000000,
};
uint64_t ready_at_ns;

/* --- faults --- */

static const char *const fault_names[N_FAULTS] = {
	[F_ERROR_IN_STREAM] = "error-in-stream",
	[F_CUT] = "cut",
	[F_RST] = "rst",
	[F_NO_DONE] = "no-done",
	[F_EMPTY] = "empty",
	[F_STALL] = "stall",
	[F_SLOW_HEADERS] = "slow-headers",
	[F_CORRUPT_TEXT] = "corrupt-text",
	[F_BAD_JSON] = "bad-json",
	[F_BAD_UTF8] = "bad-utf8",
	[F_ROLE_EARLY] = "role-early",
	[F_MULTI_TOK] = "multi-tok",
	[F_MULTI_EVENT] = "multi-event",
	[F_COMMENTS] = "comments",
	[F_WRONG_LENGTH] = "wrong-length",
	[F_WRONG_USAGE] = "wrong-usage",
	[F_SPIKE] = "spike",
	[F_NONCE_LEAK] = "nonce-leak",
	[F_DIE] = "die",
	[F_KILL9] = "kill9",
	[F_RESTART] = "restart",
	[F_DRIP] = "drip",
	[F_HALF_CLOSE] = "half-close",
	[F_LONG_LENGTH] = "long-length",
	[F_SHORT_LENGTH] = "short-length",
	[F_TRAILERS] = "trailers",
	[F_GZIP] = "gzip",
	[F_INTERIM] = "interim",
	[F_HUGE_EVENT] = "huge-event",
	[F_TINY_EVENTS] = "tiny-events",
	[F_NUL] = "nul",
	[F_RST_HEAD] = "rst-head",
	[F_GARBAGE] = "garbage",
	[F_ENDLESS_HEAD] = "endless-head",
	[F_UNTIL_CLOSE] = "until-close",
	[F_BAD_CHUNK] = "bad-chunk",
	[F_AFTER_DONE] = "after-done",
	[F_STAY_OPEN] = "stay-open",
	[F_HANG_HEALTH] = "hang-health",
	[F_NEVER_READY] = "never-ready",
	[F_HANG_COMPLETION] = "hang-completion",
	[F_OOM_EXIT] = "oom-exit",
	[F_LOAD_FAIL] = "load-fail",
	[F_SIGILL] = "sigill",
};

static void __attribute__((noreturn)) usage(const char *what, const char *arg)
{
	fprintf(stderr, "error: %s: %s\n", what, arg);
	exit(1);
}

static enum fault_kind fault_named(const char *name, int *http)
{
	if (!strncmp(name, "http", 4) && strlen(name) == 7) {
		*http = atoi(name + 4);
		return F_HTTP;
	}
	for (int k = 1; k < N_FAULTS; k++)
		if (fault_names[k] && !strcmp(fault_names[k], name))
			return (enum fault_kind)k;
	usage("unknown fault", name);
}

static void fault_rule(struct fault *f, char *rule)
{
	char *value = rule + strcspn(rule, " =");
	if (*value)
		*value++ = '\0';
	if (!strcmp(rule, "every")) {
		f->every = strtoull(value, NULL, 10);
	} else if (!strcmp(rule, "from")) {
		f->from = strtoull(value, NULL, 10);
	} else if (!strcmp(rule, "tok")) {
		f->tok = strtoull(value, NULL, 10);
	} else if (!strcmp(rule, "match")) {
		f->match = value;
	} else if (!strcmp(rule, "at")) {
		for (char *n = strtok(value, ","); n && f->n_at < 32; n = strtok(NULL, ","))
			f->at[f->n_at++] = strtoull(n, NULL, 10);
	} else {
		usage("unknown fault rule", rule);
	}
}

static void fault_parse(const char *text)
{
	if (opt.n_faults == sizeof(opt.faults) / sizeof(opt.faults[0]))
		usage("too many faults", text);
	struct fault *f = &opt.faults[opt.n_faults++];
	char *copy = strdup(text), *save = NULL; /* kept: rules point into it */
	*f = (struct fault){ .tok = 3 };
	f->kind = fault_named(strtok_r(copy, ":", &save), &f->http);
	/* strtok_r keeps its place in `save`, so a rule may use strtok itself. */
	for (char *rule; (rule = strtok_r(NULL, ":", &save));)
		fault_rule(f, rule);
}

const struct fault *fault_of_kind(enum fault_kind kind)
{
	for (size_t i = 0; i < opt.n_faults; i++)
		if (opt.faults[i].kind == kind)
			return &opt.faults[i];
	return NULL;
}

static bool fault_hits(const struct fault *f, uint64_t n, const char *prompt)
{
	if (f->match && !strstr(prompt, f->match))
		return false;
	if (f->every && n % f->every)
		return false;
	if (n < f->from)
		return false;
	for (size_t i = 0; i < f->n_at; i++)
		if (f->at[i] == n)
			return true;
	return f->n_at == 0;
}

const struct fault *fault_for(uint64_t n, const char *prompt)
{
	for (size_t i = 0; i < opt.n_faults; i++)
		if (opt.faults[i].kind < F_HANG_HEALTH && fault_hits(&opt.faults[i], n, prompt))
			return &opt.faults[i];
	return NULL;
}

/* --- options --- */

static uint64_t scaled(const char *name, const char *value, double scale)
{
	char *end;
	errno = 0;
	double v = strtod(value, &end);
	if (end == value || *end || errno || !(v >= 0) || v > 1e12)
		usage("not a number", name);
	return (uint64_t)(v * scale + 0.5);
}

/* Options with a number: where it goes and what one of it is. */
static const struct {
	const char *name;
	uint64_t *to;
	double scale;
} numbers[] = {
	{ "--load-ms", &opt.load_ns, 1e6 },
	{ "--ttft-ms", &opt.ttft_ns, 1e6 },
	{ "--ttft-per-prompt-tok-us", &opt.per_prompt_tok_ns, 1e3 },
	{ "--itl-us", &opt.itl_ns, 1e3 },
	{ "--jitter-us", &opt.jitter_ns, 1e3 },
	{ "--jitter", &opt.jitter_ns, 1e3 },
	{ "--slow-ms", &opt.slow_ns, 1e6 },
	{ "--seed", &opt.seed, 1 },
	{ "--slots", &opt.slots, 1 },
	{ "-np", &opt.slots, 1 },
	{ "--parallel", &opt.slots, 1 },
	{ "-c", &opt.ctx_tok, 1 },
	{ "--ctx-size", &opt.ctx_tok, 1 },
	{ "--natural-tok", &opt.natural_tok, 1 },
	{ "--group", &opt.group, 1 },
	{ "--children", &opt.children, 1 },
	{ "--daemons", &opt.daemons, 1 },
	{ "--mem-mb", &opt.mem_mb, 1 },
	{ "--retry-after-s", &opt.retry_after_s, 1 },
	{ "--huge-mib", &opt.huge_mib, 1 },
	{ "--tiny-events", &opt.tiny_events, 1 },
};
static const struct {
	const char *name;
	bool *to;
} flags[] = {
	{ "--metrics", &opt.metrics },         { "--bos", &opt.bos },
	{ "--fault-all", &opt.fault_all },     { "--early-headers", &opt.early_headers },
	{ "--ignore-term", &opt.ignore_term }, { "--quiet", &opt.quiet },
};
static const struct {
	const char *name;
	const char **to;
} texts[] = {
	{ "-m", &opt.model },         { "--model", &opt.model }, { "--host", &opt.host },
	{ "--alias", &opt.alias },    { "-a", &opt.alias },      { "--api-key", &opt.api_key },
	{ "--unix", &opt.unix_path },
};
/* llama-server's, taken with one value and without effect. */
static const char *const ignored[] = {
	"-t", "--threads", "-tb", "-ngl", "-b", "-ub", "-fa", "--threads-batch"
};

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static bool set_flag(const char *arg)
{
	for (size_t i = 0; i < LEN(flags); i++)
		if (!strcmp(flags[i].name, arg)) {
			*flags[i].to = true;
			return true;
		}
	return false;
}

static void open_truth(const char *path)
{
	opt.truth = fopen(path, "we");
	if (!opt.truth)
		usage(strerror(errno), path);
}

static void set_value(const char *arg, const char *value)
{
	for (size_t i = 0; i < LEN(numbers); i++)
		if (!strcmp(numbers[i].name, arg)) {
			*numbers[i].to = scaled(arg, value, numbers[i].scale);
			return;
		}
	for (size_t i = 0; i < LEN(texts); i++)
		if (!strcmp(texts[i].name, arg)) {
			*texts[i].to = value;
			return;
		}
	for (size_t i = 0; i < LEN(ignored); i++)
		if (!strcmp(ignored[i], arg))
			return;
	if (!strcmp(arg, "--port"))
		opt.port = (int)scaled(arg, value, 1);
	else if (!strcmp(arg, "--fault"))
		fault_parse(value);
	else if (!strcmp(arg, "--truth"))
		open_truth(value);
	else if (!strcmp(arg, "--answers"))
		answers_load(value);
	else
		usage("invalid argument", arg);
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--version")) {
			fputs("version: scripted 1\n", stderr);
			exit(0);
		}
		if (set_flag(argv[i]))
			continue;
		if (i + 1 == argc)
			usage("invalid argument, or its value is missing", argv[i]);
		set_value(argv[i], argv[i + 1]);
		i++;
	}
	if (opt.slots == 0)
		opt.slots = 4;
	if (opt.ctx_tok == 0)
		opt.ctx_tok = 8192 * opt.slots;
	if (opt.group == 0)
		opt.group = 1;
	if (!opt.alias)
		opt.alias = opt.model;
}

/* --- start-up
 * -------------------------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) sleep_for_ever(void)
{
	for (;;)
		pause();
}

/* Helpers keep no descriptor, so that a closed port or log shows that the server itself is gone. */
static void fork_helpers(void)
{
	for (uint64_t i = 0; i < opt.children; i++)
		if (fork() == 0) {
			close_range(0, ~0u, 0);
			sleep_for_ever();
		}
	for (uint64_t i = 0; i < opt.daemons; i++) {
		if (fork() != 0)
			continue;
		setsid();
		if (fork() == 0) {
			close_range(0, ~0u, 0);
			sleep_for_ever();
		}
		_exit(0);
	}
}

static void touch_memory(void)
{
	size_t n = (size_t)opt.mem_mb << 20;
	volatile char *p = n ? malloc(n) : NULL;
	for (size_t i = 0; p && i < n; i += 4096)
		p[i] = 1;
}

static void start_faults(void)
{
	if (fault_of_kind(F_OOM_EXIT)) {
		fputs("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size "
		      "42949672960\n"
		      "llama_model_load: error loading model: unable to allocate CPU buffer\n"
		      "main: exiting due to model loading error\n",
		      stderr);
		exit(1);
	}
	if (fault_of_kind(F_LOAD_FAIL)) {
		fprintf(stderr,
		        "gguf_init_from_file_impl: failed to read magic\n"
		        "srv    load_model: failed to load model, '%s'\n",
		        opt.model);
		exit(1);
	}
	if (fault_of_kind(F_SIGILL)) {
		fputs("AMX is not ready to be used!\n", stderr);
		raise(SIGILL);
	}
}

static int used_port;

static int listen_on(const char *host, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &a.sin_addr) != 1)
		usage("not an IPv4 address", host);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4096)) {
		fprintf(stderr, "couldn't bind HTTP server socket, hostname: %s, port: %d: %s\n", host, port,
		        strerror(errno));
		exit(1);
	}
	getsockname(fd, (struct sockaddr *)&a, &len);
	used_port = ntohs(a.sin_port);
	if (!opt.quiet)
		printf("main: server is listening on http://%s:%u\n", host, ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (strlen(path) >= sizeof(a.sun_path))
		usage("path too long", path);
	strcpy(a.sun_path, path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1024))
		usage(strerror(errno), path);
	if (!opt.quiet)
		printf("main: server is listening on unix://%s\n", path);
	fflush(stdout);
	return fd;
}

int listen_again(void)
{
	opt.quiet = true;
	return opt.unix_path ? listen_unix(opt.unix_path) : listen_on(opt.host, used_port);
}

static void end_now(int sig)
{
	_exit(sig == SIGTERM ? 0 : 128 + sig);
}

int main(int argc, char **argv)
{
	struct rlimit fds;
	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* helpers leave no zombies */
	signal(SIGTERM, opt.ignore_term ? SIG_IGN : end_now);
	signal(SIGINT, opt.ignore_term ? SIG_IGN : end_now);
	prctl(PR_SET_TIMERSLACK, 1L);
	if (getrlimit(RLIMIT_NOFILE, &fds) == 0) {
		fds.rlim_cur = fds.rlim_max;
		setrlimit(RLIMIT_NOFILE, &fds);
	}
	start_faults();
	ready_at_ns = now_ns() + opt.load_ns;
	int fd = opt.unix_path ? listen_unix(opt.unix_path) : listen_on(opt.host, opt.port);
	fork_helpers();
	touch_memory();
	serve(fd);
}
