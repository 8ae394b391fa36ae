/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, failures and ends of engines, on the scripted engine beside this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "engine/engine.h"
#include "model/record.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char scripted[PATH_MAX]; /* the scripted engine */
static char folder[] = "/tmp/test_engine_XXXXXX";
static int log_fd = -1;

#define ARGS_MAX 24

struct fixture {
	struct plan_candidate cand;
	struct engine_start_spec spec;
	char *args[ARGS_MAX];
	struct plan_env env[4];
};

/* `args` in words: "--port {port} --fault cut". */
static void fixture_init(struct fixture *f, const char *args)
{
	static char words[4096], name[] = "cpu";
	*f = (struct fixture){ 0 };
	snprintf(words, sizeof(words), "%s", args);
	for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
		f->args[f->cand.n_args++] = w;
	f->cand.name = name;
	f->cand.engine = ENGINE_SCRIPTED;
	f->cand.launch.kind = LAUNCH_PROCESS;
	f->cand.launch.program = scripted;
	f->cand.args = f->args;
	f->cand.env = f->env;
	f->cand.ready_deadline_s = 20;
	f->spec = (struct engine_start_spec){ .cand = &f->cand,
		                              .ops = engine_find(ENGINE_SCRIPTED),
		                              .plan_dir = folder,
		                              .model_file = "model.gguf",
		                              .model_id = "tiny",
		                              .run_dir = folder,
		                              .log_fd = log_fd };
}

static struct engine_run *start(struct fixture *f, struct engine_times *times)
{
	struct engine_run *r = NULL;
	struct err err = { 0 };
	int rc = engine_start(&r, times, &f->spec, &err);
	if (rc)
		fail_msg("%s", err.msg);
	return r;
}

/* The start must fail within `limit_s`, say `want`, and leave no process behind. */
static void start_fails(struct fixture *f, const char *want, uint64_t limit_s)
{
	struct engine_run *r = NULL;
	struct engine_times times;
	struct err err = { 0 };
	uint64_t t = clock_now_ns();
	if (!engine_start(&r, &times, &f->spec, &err))
		fail_msg("started, but should have failed with \"%s\"", want);
	assert_null(r);
	if (!strstr(err.msg, want))
		fail_msg("\"%s\" lacks \"%s\"", err.msg, want);
	assert_true(clock_now_ns() - t < limit_s * NS_PER_S);
	assert_true(times.first_completion_ns == REC_NONE);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child, dead or alive */
}

static bool port_answers(const char *url)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_port = htons((uint16_t)strtoul(strrchr(url, ':') + 1, NULL, 10));
	return connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
}

/* --- starts --- */

static void times_are_in_order_and_the_load_time_is_in_them(void **state)
{
	struct fixture f;
	struct engine_times t;
	fixture_init(&f, "--host {host} --port {port} --load-ms 300 --ttft-ms 50");
	struct engine_run *r = start(&f, &t);
	assert_true(t.health_ns - t.spawn_ns >= 300 * NS_PER_MS);
	assert_true(t.health_ns - t.spawn_ns < 3 * NS_PER_S);
	assert_true(t.first_completion_ns - t.health_ns >= 50 * NS_PER_MS);
	assert_true(engine_pid(r) > 0);
	assert_true(engine_pidfd(r) >= 0);
	assert_null(engine_bearer(r));
	assert_false(engine_ended(r, NULL));
	engine_free(r);
}

static void every_api_gets_its_first_completion(void **state)
{
	static const enum api apis[] = { API_CHAT,   API_COMPLETIONS, API_LLAMACPP, API_TGI,
		                         API_OLLAMA, API_SGLANG,      API_TRITON };
	for (size_t i = 0; i < ARRAY_LEN(apis); i++) {
		struct fixture f;
		struct engine_times t;
		fixture_init(&f, "--port {port}");
		f.spec.api = apis[i];
		engine_free(start(&f, &t));
		assert_true(t.first_completion_ns != REC_NONE);
	}
}

static void stop_ends_the_whole_tree(void **state)
{
	struct fixture f;
	struct engine_times t;
	int status = -1;
	size_t n = 0;
	fixture_init(&f, "--port {port} --children 3 --daemons 2");
	struct engine_run *r = start(&f, &t);
	char *url = strdup(engine_url(r));
	pid_t *tree = proc_tree(engine_pid(r), &n);
	assert_int_equal(n, 6);
	assert_true(port_answers(url));
	engine_stop(r, &status);
	assert_true(WIFEXITED(status));
	assert_false(port_answers(url));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kill(tree[i], 0), -1);
	engine_stop(r, &status); /* again: nothing happens */
	engine_free(r);
	free(tree);
	free(url);
}

static void death_is_seen_by_pidfd_and_its_daemons_are_ended(void **state)
{
	struct fixture f;
	struct engine_times t;
	int status = 0;
	size_t n = 0;
	fixture_init(&f, "--port {port} --daemons 1");
	struct engine_run *r = start(&f, &t);
	pid_t *tree = proc_tree(engine_pid(r), &n);
	struct pollfd pfd = { .fd = engine_pidfd(r), .events = POLLIN };
	kill(engine_pid(r), SIGKILL);
	assert_int_equal(poll(&pfd, 1, 5000), 1);
	assert_true(engine_ended(r, &status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	engine_stop(r, &status);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kill(tree[i], 0), -1);
	free(tree);
	engine_free(r);
}

/* --- failures --- */

static void failed_start_names_step_status_line_and_remedy(void **state)
{
	static const struct {
		const char *args, *want;
	} cases[] = {
		{ "--port {port} --fault oom-exit", "exit status 1" },
		{ "--port {port} --fault oom-exit", "exiting due to model loading error" },
		{ "--port {port} --fault oom-exit", "not enough memory" },
		{ "--port {port} --fault load-fail", "cannot read the model file" },
		{ "--port {port} --fault sigill", "signal 4 (ILL)" },
		{ "--port {port} --fault sigill", "built for another CPU" },
		{ "--port {port} --no-such-option x", "does not take one of the args" },
		{ "--port {port} --fault die:tok=0 --fault-all", "ended before it was ready, exit status 1" },
		{ "--port {port} --fault kill9:tok=0 --fault-all", "for lack of memory" },
		{ "--port {port} --fault http400 --fault-all",
		  "first completion: /v1/chat/completions: HTTP 400: scripted failure" },
		{ "--port {port} --fault cut:tok=0 --fault-all", "first completion: " },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		fixture_init(&f, cases[i].args);
		start_fails(&f, cases[i].want, 5);
	}
}

static void last_line_is_of_this_start(void **state)
{
	struct fixture f;
	assert_int_equal(fs_write_all(log_fd, "failed to load model of an earlier start\n", 41), 0);
	fixture_init(&f, "-c");
	f.cand.launch.program = (char[]){ "/bin/false" };
	f.args[1] = (char[]){ "--port={port}" };
	f.cand.n_args = 2;
	start_fails(&f, "exit status 1; it wrote no log", 5);
}

static void deadline_ends_a_start_that_never_gets_ready(void **state)
{
	static const struct {
		const char *args, *want;
	} cases[] = {
		{ "--port {port} --fault never-ready",
		  "not ready within 1 s: health: /health: HTTP 503: Loading model" },
		{ "--port {port} --fault hang-health", "not ready within 1 s: health" },
		{ "--port {port} --fault hang-completion", "first completion" },
		{ "--port {port} --fault http503 --fault-all", "not ready within 1 s: first completion" },
		{ "--port {port} --fault never-ready --ignore-term --children 2", "not ready within 1 s" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		fixture_init(&f, cases[i].args);
		f.cand.ready_deadline_s = 1;
		start_fails(&f, cases[i].want, 8);
	}
}

static void stop_flag_ends_the_wait(void **state)
{
	struct fixture f;
	bool stop = true;
	fixture_init(&f, "--port {port} --fault never-ready");
	f.spec.stop = &stop;
	start_fails(&f, "interrupted", 5);
}

static void wrong_program_and_wrong_args_are_found_before_the_start(void **state)
{
	static const struct {
		const char *program, *args, *want;
	} cases[] = {
		{ "no-such-engine", "--port {port}", "not found on the PATH" },
		{ "./no-such-engine", "--port {port}", "No such file" },
		{ scripted, "--quiet", "name no port" },
		{ scripted, "--port 0", "want a port of 1-65535" },
		{ scripted, "--port 80x", "want a port of 1-65535" },
		{ scripted, "--port 65536", "want a port of 1-65535" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		char program[PATH_MAX];
		fixture_init(&f, cases[i].args);
		snprintf(program, sizeof(program), "%s", cases[i].program);
		f.cand.launch.program = program;
		start_fails(&f, cases[i].want, 5);
	}
}

static void taken_port_is_named_with_its_owner(void **state)
{
	struct fixture f, second;
	struct engine_times t;
	char args[64], want[64];
	fixture_init(&f, "--port {port}");
	struct engine_run *r = start(&f, &t);
	const char *port = strrchr(engine_url(r), ':') + 1;
	snprintf(args, sizeof(args), "--port %s", port);
	snprintf(want, sizeof(want), "port %s is taken by pid %d (scripted-engine)", port,
	         (int)engine_pid(r));
	fixture_init(&second, args);
	struct engine_run *none = NULL;
	struct err err = { 0 };
	assert_int_equal(engine_start(&none, &t, &second.spec, &err), -1);
	if (!strstr(err.msg, want))
		fail_msg("%s", err.msg);
	engine_free(r);
}

static unsigned unused_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return ntohs(a.sin_port);
}

/* The engine never listens; somebody else takes its port after it was found free. */
static void answer_of_a_stranger_on_the_port_is_not_taken(void **state)
{
	struct fixture f;
	struct engine_run *r = NULL;
	struct engine_times t;
	struct err err = { 0 };
	char args[64], port[16], want[64];
	snprintf(port, sizeof(port), "%u", unused_port());
	pid_t stranger = fork();
	if (stranger == 0) {
		usleep(400000);
		execl(scripted, scripted, "--quiet", "--port", port, (char *)NULL);
		_exit(127);
	}
	snprintf(args, sizeof(args), "-c exec&sleep&1000 --port %s", port);
	fixture_init(&f, args);
	for (char *c = f.args[1]; *c; c++)
		*c = *c == '&' ? ' ' : *c;
	f.cand.launch.program = (char[]){ "/bin/sh" };
	int rc = engine_start(&r, &t, &f.spec, &err);
	kill(stranger, SIGKILL);
	assert_int_equal(waitpid(stranger, NULL, 0), stranger);
	snprintf(want, sizeof(want), "belongs to pid %d (scripted-engine)", (int)stranger);
	assert_int_equal(rc, -1);
	if (!strstr(err.msg, want))
		fail_msg("%s", err.msg);
}

static void url_that_nobody_serves_is_said_so(void **state)
{
	struct fixture f;
	char url[64];
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", unused_port());
	fixture_init(&f, "");
	f.cand.launch = (struct plan_launch){ .kind = LAUNCH_ATTACH, .url = url };
	f.cand.ready_deadline_s = 1;
	f.spec.ops = engine_find(ENGINE_ATTACH);
	start_fails(&f, "not ready within 1 s: health: ", 5);
}

/* --- argv and environment --- */

static void placeholders_are_replaced_and_other_braces_stay(void **state)
{
	struct fixture f;
	struct err err = { 0 };
	char **argv, model[PATH_MAX];
	size_t n;
	fixture_init(&f, "-m {model} --port={port} --host {host} -a x{alias}y {\"a\":{}} {other}");
	f.spec.model_file = "/models/m.gguf";
	assert_int_equal(engine_argv(&argv, &n, &f.spec, 4711, &err), 0);
	const char *want[] = { scripted,    "-m", "/models/m.gguf", "--port=4711", "--host",
		               "127.0.0.1", "-a", "xtinyy",         "{\"a\":{}}",  "{other}" };
	assert_int_equal(n, ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++)
		assert_string_equal(argv[i], want[i]);
	assert_null(argv[n]);
	engine_argv_free(argv);
	/* For the lock the port is not known yet; relative paths are made whole. */
	f.spec.model_file = "m.gguf";
	f.cand.launch.program = (char[]){ "bin/engine" };
	assert_int_equal(engine_argv(&argv, &n, &f.spec, 0, &err), 0);
	assert_string_equal(argv[3], "--port={port}");
	assert_non_null(getcwd(model, sizeof(model) - 10));
	strcat(model, "/./m.gguf");
	assert_string_equal(argv[2], model);
	snprintf(model, sizeof(model), "%s/bin/engine", folder);
	assert_string_equal(argv[0], model);
	engine_argv_free(argv);
	f.spec.model_file = NULL;
	assert_int_equal(engine_argv(&argv, &n, &f.spec, 0, &err), -1);
	assert_int_equal(err.cls, ERR_PLAN);
	assert_non_null(strstr(err.msg, "{model}"));
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	struct err err;
	auto_free char *path = fs_join(folder, name);
	assert_int_equal(fs_write(path, text, strlen(text), &err), 0);
	chmod(path, mode);
}

/* A program in the plan's folder that tells its world and ends. */
static void environment_is_what_the_plan_gives_and_secrets_stay_out_of_messages(void **state)
{
	struct fixture f;
	struct engine_run *r = NULL;
	struct engine_times t;
	struct err err = { 0 };
	write_file("tell",
	           "#!/bin/sh\nenv | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort >world\necho "
	           "token is $TOKEN\nexit 3\n",
	           0755);
	write_file("token", "from-a-file-77\nsecond line\n", 0600);
	setenv("OURS", "from-outside-55", 1);
	setenv("NOT_THEIRS", "x", 1);
	fixture_init(&f, "--port {port}");
	f.cand.launch.program = (char[]){ "./tell" };
	f.env[0] = (struct plan_env){ .name = (char[]){ "TOKEN" }, .from_file = (char[]){ "token" } };
	f.env[1] = (struct plan_env){ .name = (char[]){ "LANG" }, .value = (char[]){ "C" } };
	f.env[2] = (struct plan_env){ .name = (char[]){ "THEIRS" }, .from_env = (char[]){ "OURS" } };
	f.cand.n_env = 3;
	assert_int_equal(engine_start(&r, &t, &f.spec, &err), -1);
	assert_non_null(strstr(err.msg, "token is **************"));
	assert_null(strstr(err.msg, "77"));
	auto_buf world = BUF_INIT(65536), want = BUF_INIT(65536);
	auto_free char *path = fs_join(folder, "world");
	assert_int_equal(fs_read(&world, path, 65536, &err), 0);
	buf_addf(&want, "HOME=%s\nLANG=C\nPATH=%s\nTHEIRS=from-outside-55\nTOKEN=from-a-file-77\n",
	         getenv("HOME"), getenv("PATH"));
	assert_string_equal(world.p, want.p);
}

static void missing_secret_names_its_source_only(void **state)
{
	struct fixture f;
	fixture_init(&f, "--port {port}");
	f.env[0] =
		(struct plan_env){ .name = (char[]){ "TOKEN" }, .from_env = (char[]){ "NO_SUCH_VARIABLE" } };
	f.cand.n_env = 1;
	start_fails(&f, "env TOKEN: the environment variable NO_SUCH_VARIABLE is not set", 5);
	f.env[0].from_env = NULL;
	f.env[0].from_file = (char[]){ "no-such-file" };
	start_fails(&f, "env TOKEN", 5);
	f.cand.n_env = 0;
	f.cand.launch.api_key_env = (char[]){ "NO_SUCH_VARIABLE" };
	start_fails(&f, "API key: the environment variable NO_SUCH_VARIABLE is not set", 5);
}

/* --- what the server says --- */

static void count_is_that_of_usage(void **state)
{
	static const char *const prompts[] = { "a b c", "", "one", "  two  blanks ",
		                               "caf\xc3\xa9 \xe6\xbc\xa2" };
	struct fixture f;
	struct engine_times t;
	fixture_init(&f, "--port {port} --bos");
	struct engine_run *r = start(&f, &t);
	for (size_t i = 0; i < ARRAY_LEN(prompts); i++) {
		struct err err = { 0 };
		uint64_t chat = 0, text = 0;
		uint32_t *ids = NULL;
		size_t n = 0;
		assert_int_equal(f.spec.ops->count_tokens(engine_http(r), API_CHAT, prompts[i], &chat, &err),
		                 0);
		assert_int_equal(
			f.spec.ops->count_tokens(engine_http(r), API_COMPLETIONS, prompts[i], &text, &err),
			0);
		assert_int_equal(f.spec.ops->tokenize(engine_http(r), prompts[i], &ids, &n, &err), 0);
		assert_int_equal(text, n + 1); /* the special one in front */
		free(ids);
		if (i == 0) {
			assert_int_equal(n, 3);
			assert_int_equal(chat, 1 + 6); /* <|user|> \na b c \n<|assistant|> \n */
		}
	}
	engine_free(r);
}

static void identity_tells_model_slots_and_context(void **state)
{
	struct fixture f;
	struct engine_times t;
	struct engine_identity id = { 0 };
	struct err err = { 0 };
	fixture_init(&f, "--port {port} -m {model} --alias {alias} -c 4096 -np 2");
	struct engine_run *r = start(&f, &t);
	assert_int_equal(f.spec.ops->identity(engine_http(r), &id, &err), 0);
	assert_string_equal(id.model_name, "tiny");
	assert_int_equal(id.slots, 2);
	assert_int_equal(id.context_tok, 2048);
	assert_non_null(strstr(id.model_path, "/model.gguf"));
	assert_non_null(json_get(id.raw, "props"));
	engine_identity_done(&id);
	engine_free(r);
}

static void attached_server_is_asked_with_the_key_and_left_running(void **state)
{
	struct fixture f, a;
	struct engine_times t;
	struct engine_identity id = { 0 };
	struct err err = { 0 };
	char url[128];
	uint64_t n = 0;
	setenv("KEY_OF_TEST", "sesame-99", 1);
	fixture_init(&f, "--port {port} --api-key sesame-99");
	f.cand.launch.api_key_env = (char[]){ "KEY_OF_TEST" };
	struct engine_run *server = start(&f, &t), *r = NULL;
	snprintf(url, sizeof(url), "%s/", engine_url(server));
	fixture_init(&a, "");
	a.cand.launch = (struct plan_launch){ .kind = LAUNCH_ATTACH, .url = url };
	a.spec.ops = engine_find(ENGINE_ATTACH);
	assert_int_equal(engine_start(&r, &t, &a.spec, &err), -1); /* without the key */
	assert_non_null(strstr(err.msg, "HTTP 401"));
	a.cand.launch.api_key_env = (char[]){ "KEY_OF_TEST" };
	r = start(&a, &t);
	assert_true(t.spawn_ns == REC_NONE);
	assert_string_equal(engine_url(r), engine_url(server));
	assert_string_equal(engine_bearer(r), "sesame-99");
	assert_int_equal(engine_pid(r), 0);
	assert_int_equal(engine_pidfd(r), -1);
	assert_false(engine_ended(r, NULL));
	assert_int_equal(a.spec.ops->identity(engine_http(r), &id, &err), 0);
	assert_string_equal(id.model_name, "scripted.gguf");
	engine_identity_done(&id);
	assert_int_equal(a.spec.ops->count_tokens(engine_http(r), API_CHAT, "a b c", &n, &err), 0);
	assert_int_equal(n, 6);
	engine_stop(r, NULL);
	engine_free(r);
	assert_true(port_answers(engine_url(server)));
	engine_free(server);
}

static void attached_socket_file_is_a_server_like_any_other(void **state)
{
	char path[PATH_MAX], url[PATH_MAX + 16];
	struct fixture f, attach;
	struct engine_times t;
	uint64_t n = 0;
	struct err err = { 0 };
	fixture_init(&f, "");
	snprintf(path, sizeof(path), "%s/s", folder);
	snprintf(url, sizeof(url), "unix://%s/", path);
	const char *const argv[] = { scripted, "--unix", path, NULL };
	const char *const envp[] = { NULL };
	struct proc *server = NULL;
	struct proc_spec spec = { .argv = argv, .envp = envp, .out_fd = log_fd, .die_with_parent = true };
	assert_int_equal(proc_spawn(&server, &spec, &err), 0);
	fixture_init(&attach, "");
	attach.cand.engine = ENGINE_ATTACH;
	attach.cand.launch = (struct plan_launch){ .kind = LAUNCH_ATTACH, .url = url };
	attach.spec.ops = engine_find(ENGINE_ATTACH);
	attach.spec.api = API_OLLAMA;
	struct engine_run *r = start(&attach, &t);
	assert_int_equal(attach.spec.ops->count_tokens(engine_http(r), API_OLLAMA, "a b c", &n, &err), 0);
	assert_true(n > 3); /* with the template */
	assert_int_equal(attach.spec.ops->count_tokens(engine_http(r), API_SGLANG, "a b c", &n, &err), 0);
	assert_int_equal(n, 3);
	engine_free(r);
	proc_free(server);
	unlink(path);
}

/* A server with vLLM's endpoints: no /apply-template, /tokenize by "prompt" or "messages". */
static void serve_like_vllm(int listen_fd)
{
	static const struct {
		const char *path, *body, *status, *answer;
	} table[] = {
		{ "GET /version ", "", "200 OK", "{\"version\":\"0.32.0\"}" },
		{ "GET /v1/models ", "", "200 OK",
		  "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"root\":\"/srv/"
		  "tiny\",\"max_model_len\":2048}]}" },
		{ "POST /tokenize ", "\"messages\"", "200 OK",
		  "{\"count\":12,\"tokens\":[1,2],\"token_strs\":null}" },
		{ "POST /tokenize ", "\"add_special_tokens\":true", "200 OK",
		  "{\"count\":4,\"tokens\":[1,5,6,7]}" },
		{ "POST /tokenize ", "\"prompt\"", "200 OK", "{\"count\":3,\"tokens\":[5,6,7]}" },
		{ "POST /tokenize ", "", "400 Bad", "{\"error\":{\"message\":\"prompt: field required\"}}" },
		{ "", "", "404 Not Found", "{\"detail\":\"Not Found\"}" },
	};
	for (;;) {
		char in[8192] = "", out[1024];
		size_t len = 0, i = 0;
		int fd = accept(listen_fd, NULL, NULL);
		for (ssize_t n; fd >= 0 && (n = recv(fd, in + len, sizeof(in) - 1 - len, 0)) > 0;) {
			const char *end, *cl;
			in[len += (size_t)n] = '\0';
			end = strstr(in, "\r\n\r\n");
			cl = strcasestr(in, "Content-Length: ");
			if (end && strlen(end + 4) >= (cl ? strtoul(cl + 16, NULL, 10) : 0))
				break;
		}
		while (strncmp(in, table[i].path, strlen(table[i].path)) != 0 || !strstr(in, table[i].body))
			i++;
		int n = snprintf(out, sizeof(out),
		                 "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
		                 table[i].status, strlen(table[i].answer), table[i].answer);
		send(fd, out, (size_t)n, MSG_NOSIGNAL);
		close(fd);
	}
}

static void attached_vllm_is_understood(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	const struct engine_ops *ops = engine_find(ENGINE_ATTACH);
	struct engine_identity id = { 0 };
	struct http_client *c = NULL;
	struct err err = { 0 };
	char url[64];
	uint64_t n = 0;
	uint32_t *ids = NULL;
	size_t n_ids = 0;
	auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	pid_t server = fork();
	if (server == 0)
		serve_like_vllm(fd);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(a.sin_port));
	assert_int_equal(http_open(&c, &(struct http_spec){ .base_url = url }, &err), 0);
	assert_int_equal(ops->identity(c, &id, &err), 0);
	assert_string_equal(id.version, "0.32.0");
	assert_string_equal(id.model_name, "tiny");
	assert_string_equal(id.model_path, "/srv/tiny");
	assert_int_equal(id.context_tok, 2048);
	assert_int_equal(id.slots, 0); /* not told */
	assert_int_equal(ops->count_tokens(c, API_CHAT, "x", &n, &err), 0);
	assert_int_equal(n, 12);
	assert_int_equal(ops->count_tokens(c, API_COMPLETIONS, "x", &n, &err), 0);
	assert_int_equal(n, 4);
	assert_int_equal(ops->tokenize(c, "x", &ids, &n_ids, &err), 0);
	assert_int_equal(n_ids, 3);
	assert_int_equal(ids[2], 7);
	free(ids);
	engine_identity_done(&id);
	http_close(c);
	kill(server, SIGKILL);
	assert_int_equal(waitpid(server, NULL, 0), server);
}

static void table_holds_what_runs_today(void **state)
{
	assert_non_null(engine_find(ENGINE_LLAMACPP));
	assert_null(engine_find(ENGINE_LLAMACPP)->label);
	assert_string_equal(engine_find(ENGINE_LLAMACPP)->default_program, "llama-server");
	assert_null(engine_find(ENGINE_ATTACH)->label);
	assert_string_equal(engine_find(ENGINE_SCRIPTED)->label, "scripted engine");
	assert_null(engine_find(ENGINE_VLLM));
	assert_null(engine_find(ENGINE_TORCHJOB));
}

static int group_setup(void **state)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0 || !mkdtemp(folder))
		return -1;
	self[n] = '\0';
	auto_free char *unit = fs_dirname(self);
	auto_free char *tests = fs_dirname(unit);
	snprintf(scripted, sizeof(scripted), "%s/scripted/scripted-engine", tests);
	auto_free char *log = fs_join(folder, "engine.log");
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return log_fd >= 0 && access(scripted, X_OK) == 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
	static const char *const names[] = { "engine.log", "tell", "token", "world" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		auto_free char *path = fs_join(folder, names[i]);
		unlink(path);
	}
	close(log_fd);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_in_order_and_the_load_time_is_in_them),
		cmocka_unit_test(every_api_gets_its_first_completion),
		cmocka_unit_test(stop_ends_the_whole_tree),
		cmocka_unit_test(death_is_seen_by_pidfd_and_its_daemons_are_ended),
		cmocka_unit_test(failed_start_names_step_status_line_and_remedy),
		cmocka_unit_test(last_line_is_of_this_start),
		cmocka_unit_test(deadline_ends_a_start_that_never_gets_ready),
		cmocka_unit_test(stop_flag_ends_the_wait),
		cmocka_unit_test(wrong_program_and_wrong_args_are_found_before_the_start),
		cmocka_unit_test(taken_port_is_named_with_its_owner),
		cmocka_unit_test(answer_of_a_stranger_on_the_port_is_not_taken),
		cmocka_unit_test(url_that_nobody_serves_is_said_so),
		cmocka_unit_test(placeholders_are_replaced_and_other_braces_stay),
		cmocka_unit_test(environment_is_what_the_plan_gives_and_secrets_stay_out_of_messages),
		cmocka_unit_test(missing_secret_names_its_source_only),
		cmocka_unit_test(count_is_that_of_usage),
		cmocka_unit_test(identity_tells_model_slots_and_context),
		cmocka_unit_test(attached_server_is_asked_with_the_key_and_left_running),
		cmocka_unit_test(attached_socket_file_is_a_server_like_any_other),
		cmocka_unit_test(attached_vllm_is_understood),
		cmocka_unit_test(table_holds_what_runs_today),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
