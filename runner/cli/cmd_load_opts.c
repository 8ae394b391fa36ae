/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_load.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_in.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define KEY_BYTES_MAX 65536
#define DEFAULT_DURATION_S 60
#define TOKENS_MAX 100000000u
#define COUNT_MAX 10000000u
#define STREAMS_MAX 65536u
#define DAY_S 86400.0

enum {
	O_API,
	O_ENGINE,
	O_MODEL,
	O_CONCURRENCY,
	O_RATE,
	O_ARRIVAL,
	O_BURSTINESS,
	O_REQUESTS,
	O_DURATION,
	O_PROMPT,
	O_OUTPUT,
	O_NO_FORCE,
	O_NO_STREAM,
	O_TURNS,
	O_SHARED,
	O_TRACE,
	O_SPEED,
	O_SEED,
	O_WARMUP,
	O_SLO,
	O_REQUIRE,
	O_KEY_ENV,
	O_KEY_FILE,
	O_CA,
	O_CONNECT,
	O_FIRST_BYTE,
	O_STALL,
	O_DEADLINE,
	O_THREADS,
	O_BUSY,
	O_NO_CALIBRATE,
	O_MAX_LAG,
	O_JSON,
	O_RECORDS,
	O_QUIET,
	O_SHARD,
	O_START_AT,
	O_SYNC,
	O_MERGE,
	O_MAX_OFFSET,
	N_LOAD_OPTS
};
_Static_assert(N_LOAD_OPTS <= OPT_MAX, "opt.h: OPT_MAX");

static const char *const engine_choice[] = { "auto", "plain",  "llamacpp", "vllm", "sglang",
	                                     "tgi",  "trtllm", "ollama",   NULL };
static const enum engine_kind engine_of_choice[] = { ENGINE_ATTACH, ENGINE_ATTACH, ENGINE_LLAMACPP,
	                                             ENGINE_VLLM,   ENGINE_SGLANG, ENGINE_TGI,
	                                             ENGINE_TRTLLM, ENGINE_OLLAMA };
static const char *const arrival_choice[] = { "constant", "poisson", "gamma", NULL };
static const enum arrival arrival_of_choice[] = { ARRIVAL_CONSTANT, ARRIVAL_POISSON, ARRIVAL_GAMMA };

#define FLAG(o, name, help) [o] = { name, 0, OPT_FLAG, NULL, help, NULL }
#define TEXT(o, name, arg, help) [o] = { name, 0, OPT_STR, arg, help, NULL }
#define COUNT(o, name, arg, help) [o] = { name, 0, OPT_U64, arg, help, NULL }
#define NUMBER(o, name, arg, help) [o] = { name, 0, OPT_NUM, arg, help, NULL }

const struct opt load_opt_table[] = {
	[O_API] = { "api", 0, OPT_CHOICE, "API", "how to ask (default: chat)", api_words },
	[O_ENGINE] = { "engine", 0, OPT_CHOICE, "KIND", "which extensions it takes (default: auto)",
	               engine_choice },
	TEXT(O_MODEL, "model", "NAME", "model to ask for (default: the server's first)"),
	COUNT(O_CONCURRENCY, "concurrency", "N", "requests in flight (default: 1); with --rate the most"),
	NUMBER(O_RATE, "rate", "R", "open loop: R requests a second, whatever is in flight"),
	[O_ARRIVAL] = { "arrival", 0, OPT_CHOICE, "KIND", "spacing of --rate (default: poisson)",
	                arrival_choice },
	NUMBER(O_BURSTINESS, "burstiness", "X", "shape of gamma gaps: 1 as poisson, below 1 in bursts"),
	COUNT(O_REQUESTS, "requests", "N", "end after N requests"),
	TEXT(O_DURATION, "duration", "TIME", "send for so long (default without --requests: 60s)"),
	TEXT(O_PROMPT, "prompt-tokens", "N", "prompt length (default: 512), or a mix: 128:3,2048:1"),
	COUNT(O_OUTPUT, "output-tokens", "N", "answer length (default: 128)"),
	FLAG(O_NO_FORCE, "no-force-output", "let answers end by themselves before that length"),
	FLAG(O_NO_STREAM, "no-stream", "ask for the answer in one piece"),
	COUNT(O_TURNS, "turns", "N", "conversations of N turns"),
	NUMBER(O_SHARED, "shared-prefix", "SHARE",
	       "share of each prompt that is the same in all (default: 0)"),
	TEXT(O_TRACE, "trace", "FILE", "replay a recorded load (JSON lines or CSV)"),
	NUMBER(O_SPEED, "speed", "X", "replay the trace X times as fast"),
	COUNT(O_SEED, "seed", "N", "of prompts and arrivals (default: 1)"),
	COUNT(O_WARMUP, "warmup", "N", "requests before, not measured (default: 0)"),
	TEXT(O_SLO, "slo", "LIMITS", "goodput within ttft=T,itl=T,tpot=T,e2e=T"),
	NUMBER(O_REQUIRE, "require-slo", "SHARE", "exit 1 unless this share of requests meets --slo"),
	TEXT(O_KEY_ENV, "key-env", "NAME", "environment variable that holds the API key"),
	TEXT(O_KEY_FILE, "key-file", "FILE", "file whose first line is the API key"),
	TEXT(O_CA, "ca-file", "FILE", "certificates to trust (PEM)"),
	TEXT(O_CONNECT, "connect", "TIME", "limit for connecting (default: 5s)"),
	TEXT(O_FIRST_BYTE, "first-byte", "TIME", "limit up to the first byte (default: 60s)"),
	TEXT(O_STALL, "stall", "TIME", "limit between bytes (default: 60s)"),
	TEXT(O_DEADLINE, "deadline", "TIME", "limit for a whole request (default: 300s)"),
	COUNT(O_THREADS, "threads", "N", "threads of the client (default: 1)"),
	FLAG(O_BUSY, "busy-poll", "spin instead of sleeping: less lag, one core a thread"),
	FLAG(O_NO_CALIBRATE, "no-calibrate", "do not measure the client's own error afterwards"),
	TEXT(O_MAX_LAG, "max-lag", "TIME", "client lag or error that makes figures invalid (default: 10ms)"),
	FLAG(O_JSON, "json", "print the result as one JSON object"),
	TEXT(O_RECORDS, "records", "DIR", "keep every request and token time in a new folder"),
	FLAG(O_QUIET, "quiet", "no progress"),
	TEXT(O_SHARD, "shard", "I/N", "send the I-th (from 0) of N parts of this load"),
	TEXT(O_START_AT, "start-at", "TIME", "begin at that time (RFC 3339, or seconds since 1970)"),
	TEXT(O_SYNC, "sync", "HOST:PORT", "compare clocks: shard 0 listens there, the others ask"),
	FLAG(O_MERGE, "merge", "sum up the --records folders of all shards"),
	TEXT(O_MAX_OFFSET, "max-offset", "TIME", "clock offset that makes a merge invalid (default: 10ms)"),
	{ 0 },
};

#define USAGE(...) err_set(err, ERR_USAGE, "load: " __VA_ARGS__)

static int positive_s(double *s, const struct parsed *p, int o, const char *otherwise, struct err *err)
{
	char option[32];
	uint64_t ns;
	snprintf(option, sizeof(option), "--%s", load_opt_table[o].name);
	if (load_duration(&ns, p->v[o].given ? p->v[o].str : otherwise, option, err))
		return -1;
	if (!ns)
		return USAGE("%s: want a time above 0", option);
	*s = (double)ns / 1e9;
	return 0;
}

/* --- groups of options ------------------------------------------------------------------------------------
 */

static uint64_t u64_of(const struct parsed *p, int o, uint64_t otherwise)
{
	return p->v[o].given ? p->v[o].u64 : otherwise;
}

static int count_of(uint64_t *out, const struct parsed *p, int o, uint64_t otherwise, uint64_t lo,
                    uint64_t hi, struct err *err)
{
	*out = u64_of(p, o, otherwise);
	if (p->v[o].given && (*out < lo || *out > hi))
		return USAGE("--%s: want %llu to %llu, got %llu", load_opt_table[o].name,
		             (unsigned long long)lo, (unsigned long long)hi, (unsigned long long)*out);
	return 0;
}

static int num_of(double *out, const struct parsed *p, int o, double otherwise, bool zero_ok, double hi,
                  struct err *err)
{
	*out = p->v[o].given ? p->v[o].num : otherwise;
	if (p->v[o].given && (*out < 0 || (!zero_ok && !(*out > 0)) || *out > hi))
		return USAGE("--%s: want a number %s 0 and at most %g, got %s", load_opt_table[o].name,
		             zero_ok ? "from" : "above", hi, p->v[o].str);
	return 0;
}

static unsigned word_of(const struct parsed *p, int o, const char *const *words, unsigned otherwise)
{
	for (unsigned i = 0; p->v[o].given && words[i]; i++)
		if (strcmp(words[i], p->v[o].str) == 0)
			return i;
	return otherwise;
}

static int check_pairs(const struct parsed *p, struct err *err)
{
	static const struct {
		int a, b;
	} apart[] = { { O_KEY_ENV, O_KEY_FILE }, { O_TRACE, O_RATE },  { O_TRACE, O_PROMPT },
		      { O_TRACE, O_OUTPUT },     { O_TRACE, O_TURNS }, { O_TRACE, O_SHARED },
		      { O_TURNS, O_RATE },       { O_QUIET, O_MERGE } };
	static const struct {
		int a, needs;
	} needs[] = { { O_ARRIVAL, O_RATE }, { O_BURSTINESS, O_RATE }, { O_SPEED, O_TRACE },
		      { O_REQUIRE, O_SLO },  { O_SHARD, O_RECORDS },   { O_SYNC, O_SHARD } };
	for (size_t i = 0; i < ARRAY_LEN(apart); i++)
		if (p->v[apart[i].a].given && p->v[apart[i].b].given)
			return USAGE("--%s and --%s do not go together", load_opt_table[apart[i].a].name,
			             load_opt_table[apart[i].b].name);
	for (size_t i = 0; i < ARRAY_LEN(needs); i++)
		if (p->v[needs[i].a].given && !p->v[needs[i].needs].given)
			return USAGE("--%s wants --%s", load_opt_table[needs[i].a].name,
			             load_opt_table[needs[i].needs].name);
	if (p->v[O_MAX_OFFSET].given && !p->v[O_MERGE].given)
		return USAGE("--max-offset belongs to --merge");
	if (p->v[O_BURSTINESS].given && (!p->v[O_ARRIVAL].given || strcmp(p->v[O_ARRIVAL].str, "gamma") != 0))
		return USAGE("--burstiness wants --arrival gamma");
	if (p->v[O_NO_STREAM].given && p->v[O_SLO].given &&
	    (strstr(p->v[O_SLO].str, "ttft=") || strstr(p->v[O_SLO].str, "itl=") ||
	     strstr(p->v[O_SLO].str, "tpot=")))
		return USAGE("--slo: an answer in one piece has no first token: with --no-stream only e2e");
	return 0;
}

static int read_url(struct load_opts *o, const char *url, struct err *err)
{
	const char *at = strstr(url, "://"), *host = at ? at + 3 : url;
	bool web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0,
	     local = strncmp(url, "unix:///", 8) == 0 && url[8];
	size_t authority = strcspn(host, "/?#"), len = strlen(url);
	/* not echoed: what stands before an '@' may be a password */
	if ((!web && !local) || (web && (!authority || memchr(host, '@', authority) || strpbrk(host, "?# "))))
		return USAGE("want a URL http://HOST:PORT, https://HOST[:PORT][/PREFIX] or unix:///PATH, "
		             "without user, "
		             "query and fragment");
	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= 0x20 || *c == 0x7f)
			return USAGE("the URL holds blanks or control characters");
	while (web && len > 1 && url[len - 1] == '/')
		len--;
	o->url = strndup(url, len);
	if (!o->url)
		return err_set(err, ERR_ENV, "load: no memory");
	if (web && len >= 3 && strcmp(o->url + len - 3, "/v1") == 0)
		return USAGE("the URL ends in /v1: leave that away, the path comes from --api");
	return 0;
}

static int read_arrival(struct load_opts *o, const struct parsed *p, struct err *err)
{
	uint64_t ns = 0;
	bool open = p->v[O_RATE].given;
	o->arrival = p->v[O_TRACE].given ? ARRIVAL_TRACE
	             : open              ? arrival_of_choice[word_of(p, O_ARRIVAL, arrival_choice, 1)]
	                                 : ARRIVAL_CLOSED;
	o->trace = p->v[O_TRACE].str;
	if (num_of(&o->rate_rps, p, O_RATE, 0, false, 1e6, err) ||
	    num_of(&o->burstiness, p, O_BURSTINESS, 1, false, 1e6, err) ||
	    num_of(&o->speed, p, O_SPEED, 1, false, 1e6, err) ||
	    count_of(&o->concurrency, p, O_CONCURRENCY, o->arrival == ARRIVAL_CLOSED, 1, STREAMS_MAX, err) ||
	    count_of(&o->requests, p, O_REQUESTS, 0, 1, COUNT_MAX, err))
		return -1;
	if (p->v[O_DURATION].given && load_duration(&ns, p->v[O_DURATION].str, "--duration", err))
		return -1;
	if (p->v[O_DURATION].given && !ns)
		return USAGE("--duration: want a time above 0");
	o->duration_s = (double)ns / 1e9;
	if (!ns && !o->requests && o->arrival != ARRIVAL_TRACE)
		o->duration_s = DEFAULT_DURATION_S;
	return 0;
}

static int mix_part(struct load_opts *o, const char *part, struct err *err)
{
	char *end;
	if (o->n_mix == LOAD_MIX_MAX)
		return USAGE("--prompt-tokens: at most %d lengths", LOAD_MIX_MAX);
	errno = 0;
	unsigned long long n = isdigit((unsigned char)part[0]) ? strtoull(part, &end, 10) : 0;
	double weight = 1;
	if (n && *end == ':' && (isdigit((unsigned char)end[1]) || end[1] == '.'))
		weight = strtod(end + 1, &end);
	if (!n || errno || n > TOKENS_MAX || *end || !(weight > 0 && weight <= 1e6))
		return USAGE("--prompt-tokens: want a length such as 512 or a mix such as 128:3,2048:1, got "
		             "\"%.64s\"",
		             part);
	o->mix[o->n_mix].prompt_tok = n;
	o->mix[o->n_mix++].weight = weight;
	return 0;
}

static int read_lengths(struct load_opts *o, const struct parsed *p, struct err *err)
{
	auto_free char *copy = strdup(p->v[O_PROMPT].given ? p->v[O_PROMPT].str : "512");
	char *rest = copy, *part;
	if (!copy)
		return err_set(err, ERR_ENV, "load: no memory");
	while ((part = strsep(&rest, ",")))
		if (mix_part(o, part, err))
			return -1;
	o->prompt_tok = o->mix[0].prompt_tok;
	if (o->n_mix == 1)
		o->n_mix = 0;
	if (count_of(&o->output_tok, p, O_OUTPUT, 128, 1, TOKENS_MAX, err) ||
	    count_of(&o->turns, p, O_TURNS, 0, 2, 64, err) ||
	    num_of(&o->shared_prefix_share, p, O_SHARED, 0, true, 1, err) ||
	    count_of(&o->seed, p, O_SEED, 1, 0, 9007199254740991u, err) ||
	    count_of(&o->warmup, p, O_WARMUP, 0, 0, 100000, err))
		return -1;
	if (o->turns && o->n_mix)
		return USAGE("--turns and a mix of --prompt-tokens do not go together");
	o->force_output = !p->v[O_NO_FORCE].given;
	o->stream = !p->v[O_NO_STREAM].given;
	return 0;
}

static int read_server(struct load_opts *o, const struct parsed *p, struct err *err)
{
	static const struct {
		enum api api;
		enum engine_kind engine;
	} native[] = { { API_LLAMACPP, ENGINE_LLAMACPP },
		       { API_TGI, ENGINE_TGI },
		       { API_OLLAMA, ENGINE_OLLAMA },
		       { API_SGLANG, ENGINE_SGLANG },
		       { API_TRITON, ENGINE_TRTLLM } };
	unsigned choice = word_of(p, O_ENGINE, engine_choice, 0);
	o->api = (enum api)word_of(p, O_API, api_words, API_CHAT);
	o->engine = engine_of_choice[choice];
	o->engine_known = choice != 0;
	for (size_t i = 0; !o->engine_known && i < ARRAY_LEN(native); i++)
		if (native[i].api == o->api) {
			o->engine = native[i].engine;
			o->engine_known = true;
		}
	if (o->engine_known && !proto_of(o->engine, o->api))
		return USAGE("--engine %s has no api %s", p->v[O_ENGINE].str, api_words[o->api]);
	o->model = p->v[O_MODEL].str;
	if (o->model && !*o->model)
		return USAGE("--model: want a name");
	if (o->api == API_TRITON && !o->model)
		return USAGE("--api triton wants --model, it is part of the path");
	o->ca_file = p->v[O_CA].str;
	return positive_s(&o->connect_s, p, O_CONNECT, "5s", err) ||
	                       positive_s(&o->first_byte_s, p, O_FIRST_BYTE, "60s", err) ||
	                       positive_s(&o->stall_s, p, O_STALL, "60s", err) ||
	                       positive_s(&o->deadline_s, p, O_DEADLINE, "300s", err)
	               ? -1
	               : 0;
}

/* Deadlines of steps need not be longer than that of the whole. */
static void cut_limits(struct load_opts *o)
{
	o->connect_s = fmin(o->connect_s, o->deadline_s);
	o->first_byte_s = fmin(o->first_byte_s, o->deadline_s);
	o->stall_s = fmin(o->stall_s, o->deadline_s);
}

static int read_key(struct load_opts *o, const struct parsed *p, struct err *err)
{
	auto_buf text = BUF_INIT(KEY_BYTES_MAX);
	const char *value = NULL, *name = p->v[O_KEY_ENV].str;
	if (p->v[O_KEY_ENV].given) {
		value = getenv(name);
		if (!value || !*value)
			return USAGE("--key-env: the variable %.64s is not set or empty", name);
		o->key = strdup(value);
	} else if (p->v[O_KEY_FILE].given) {
		if (fs_read(&text, p->v[O_KEY_FILE].str, KEY_BYTES_MAX, err)) {
			err->cls = ERR_USAGE;
			return err_wrap(err, "load: --key-file");
		}
		o->key = strndup(text.p ? text.p : "", text.p ? strcspn(text.p, "\r\n") : 0);
		if (text.p)
			explicit_bzero(text.p, text.len);
	} else {
		return 0;
	}
	if (!o->key)
		return err_set(err, ERR_ENV, "load: no memory");
	for (const char *c = o->key; *c; c++)
		if ((unsigned char)*c <= 0x20 || *c == 0x7f)
			return USAGE("the API key holds blanks or control characters");
	return *o->key ? 0 : USAGE("the API key is empty");
}

static int read_start_at(struct load_opts *o, const char *text, struct err *err)
{
	int64_t now = clock_wall_ns(), at;
	char *end;
	if (!text)
		return 0;
	if (clock_parse_rfc3339(text, &at) < 0) {
		double s = isdigit((unsigned char)text[0]) ? strtod(text, &end) : (double)NAN;
		if (!(s > 0 && s < 9e9) || *end)
			return USAGE("--start-at: want a time such as 2026-01-31T12:00:00Z or seconds since "
			             "1970, got "
			             "\"%.64s\"",
			             text);
		at = (int64_t)(s * 1e9);
	}
	if (at <= now || at - now > (int64_t)(DAY_S * 1e9))
		return USAGE("--start-at: %.64s is not within the next 24 hours (%.1f s from now)", text,
		             (double)(at - now) / 1e9);
	o->starts_at = true;
	o->start_at_wall_ns = at;
	return 0;
}

static int read_shard(struct load_opts *o, const struct parsed *p, struct err *err)
{
	unsigned i = 0, n = 1;
	char more = 0;
	const char *text = p->v[O_SHARD].str;
	if (text && (!isdigit((unsigned char)text[0]) || sscanf(text, "%9u/%9u%c", &i, &n, &more) != 2 ||
	             !n || n > LOAD_SHARDS_MAX || i >= n))
		return USAGE("--shard: want I/N with I from 0 to N-1 and N up to %d, got \"%.64s\"",
		             LOAD_SHARDS_MAX, text);
	o->shard = i;
	o->n_shards = n;
	o->records = p->v[O_RECORDS].str;
	o->sync = p->v[O_SYNC].str;
	if (n > 1 && o->turns)
		return USAGE("--shard and --turns do not go together");
	if (o->concurrency && o->concurrency < n)
		return USAGE("--shard: %u parts of %llu in flight leave nothing for some", n,
		             (unsigned long long)o->concurrency);
	if (o->requests && o->requests < n)
		return USAGE("--shard: %u parts of %llu requests leave nothing for some", n,
		             (unsigned long long)o->requests);
	return read_start_at(o, p->v[O_START_AT].str, err);
}

static int read_judging(struct load_opts *o, const struct parsed *p, struct err *err)
{
	double share, lag_s, offset_s;
	for (size_t i = 0; i < N_SLOS; i++)
		o->slo.limit_ns[i] = REC_NONE;
	if (num_of(&share, p, O_REQUIRE, (double)NAN, false, 1, err))
		return -1;
	o->slo.required_share = share;
	if (p->v[O_SLO].given && load_slo_read(&o->slo, p->v[O_SLO].str, err))
		return -1;
	if (positive_s(&lag_s, p, O_MAX_LAG, "10ms", err) ||
	    positive_s(&offset_s, p, O_MAX_OFFSET, "10ms", err))
		return -1;
	if (lag_s > 10)
		return USAGE("--max-lag: want at most 10s");
	o->max_lag_ms = lag_s * 1e3;
	o->max_offset_ns = (uint64_t)llround(offset_s * 1e9);
	o->json = p->v[O_JSON].given;
	o->quiet = p->v[O_QUIET].given;
	return 0;
}

int load_opts_read(struct load_opts *out, const struct parsed *p, struct err *err)
{
	if (p->n_args > 1)
		return USAGE("too many arguments: \"%.64s\"; usage: proofmark load URL", p->args[1]);
	if (check_pairs(p, err) || read_url(out, p->args[0], err) || read_server(out, p, err) ||
	    read_arrival(out, p, err) || read_lengths(out, p, err) || read_judging(out, p, err) ||
	    read_shard(out, p, err) || count_of(&out->threads, p, O_THREADS, 1, 1, 256, err))
		return -1;
	out->busy_poll = p->v[O_BUSY].given;
	out->calibrate = !p->v[O_NO_CALIBRATE].given;
	cut_limits(out);
	return read_key(out, p, err);
}

bool load_opts_merge(const struct parsed *p)
{
	return p->v[O_MERGE].given;
}

int load_opts_read_merge(struct load_opts *out, const struct parsed *p, struct err *err)
{
	static const int taken[] = { O_MERGE, O_JSON, O_MAX_OFFSET, O_SLO, O_REQUIRE };
	for (int i = 0; i < N_LOAD_OPTS; i++) {
		bool ok = !p->v[i].given;
		for (size_t k = 0; k < ARRAY_LEN(taken); k++)
			ok |= taken[k] == i;
		if (!ok)
			return USAGE("--%s and --merge do not go together", load_opt_table[i].name);
	}
	return read_judging(out, p, err);
}

void load_opts_done(struct load_opts *o)
{
	if (o->key)
		explicit_bzero(o->key, strlen(o->key));
	free(o->key);
	free(o->url);
}
