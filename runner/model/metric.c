/* SPDX-License-Identifier: Apache-2.0 */
#include "model/metric.h"

#include <string.h>

#define QUANTILES                                                                                            \
	{                                                                                                    \
		"p50", "median", "p90", "p95", "p99", "p999", "mean", "min", "max", NULL                     \
	}
#define ONE(word)                                                                                            \
	{                                                                                                    \
		word, NULL                                                                                   \
	}
#define NO_TELEMETRY "no device or power telemetry is read yet"
#define NO_TRAINING "training jobs are not executed yet"

const struct metric metrics[] = {
	{ .name = "ttft",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "time from the scheduled send time of a request to its first token of any channel" },
	{ .name = "ttft_content",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "time from the scheduled send time of a request to its first token of the answer proper "
	          "(reasoning does not count)" },
	{ .name = "itl",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "gap between two token events that follow each other in one answer" },
	{ .name = "tpot",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "(last token - first token) / (output tokens - 1) of a request" },
	{ .name = "e2e",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "time from the scheduled send time of a request to the end of its answer" },
	{ .name = "send_lag",
	  .kind = METRIC_LATENCY,
	  .dim = DIM_TIME,
	  .needs_cell = true,
	  .statistics = QUANTILES,
	  .says = "time from the scheduled to the real send time of a request: the client's own delay" },
	{ .name = "output_tok_s",
	  .kind = METRIC_RATE,
	  .dim = DIM_TOK_RATE,
	  .needs_cell = true,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "output tokens of completed requests / time from first due to last end of the cell" },
	{ .name = "request_s",
	  .kind = METRIC_RATE,
	  .dim = DIM_REQ_RATE,
	  .needs_cell = true,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "completed requests / time from first due to last end of the cell" },
	{ .name = "prefill_tok_s",
	  .kind = METRIC_RATE,
	  .dim = DIM_TOK_RATE,
	  .needs_cell = true,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "prompt tokens not from a cache / TTFT from sending: median over the completed requests of "
	          "the cell" },
	{ .name = "decode_tok_s",
	  .kind = METRIC_RATE,
	  .dim = DIM_TOK_RATE,
	  .needs_cell = true,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "(output tokens - 1) / (last token - first token): median over the completed requests of "
	          "the "
	          "cell" },
	{ .name = "failed_share",
	  .kind = METRIC_SHARE,
	  .dim = DIM_SHARE,
	  .needs_cell = true,
	  .functional = true,
	  .statistics = ONE("share"),
	  .says = "requests that failed, timed out, stalled, were cut off, empty or corrupt / requests "
	          "scheduled" },
	{ .name = "controls_failed",
	  .kind = METRIC_COUNT,
	  .dim = DIM_COUNT,
	  .functional = true,
	  .statistics = ONE("count"),
	  .says = "control answers that broke an expectation, or could not be judged, over all rounds" },
	{ .name = "completed_requests",
	  .kind = METRIC_COUNT,
	  .dim = DIM_COUNT,
	  .functional = true,
	  .higher_is_better = true,
	  .statistics = ONE("count"),
	  .says = "load requests that ended with a whole answer, over all cells" },
	{ .name = "output_length_mismatch",
	  .kind = METRIC_COUNT,
	  .dim = DIM_COUNT,
	  .functional = true,
	  .statistics = ONE("count"),
	  .says = "completed requests whose output tokens by the server's usage differ from the forced "
	          "length" },
	{ .name = "engine_exits",
	  .kind = METRIC_COUNT,
	  .dim = DIM_COUNT,
	  .functional = true,
	  .statistics = ONE("count"),
	  .says = "times the engine ended without being told to" },
	{ .name = "engine_pss_peak",
	  .kind = METRIC_PEAK,
	  .dim = DIM_BYTES,
	  .statistics = ONE("max"),
	  .says = "largest proportional set size (PSS) of the engine's process tree" },
	{ .name = "engine_rss_peak",
	  .kind = METRIC_PEAK,
	  .dim = DIM_BYTES,
	  .statistics = ONE("max"),
	  .says = "largest resident set size (RSS) of the engine's process tree, shared pages counted in "
	          "each process" },
	{ .name = "host_used_peak",
	  .kind = METRIC_PEAK,
	  .dim = DIM_BYTES,
	  .statistics = ONE("max"),
	  .says = "largest MemTotal - MemAvailable of the machine" },
	{ .name = "cold_start",
	  .kind = METRIC_TIME,
	  .dim = DIM_TIME,
	  .statistics = ONE("value"),
	  .says = "time from the first start of the engine's process to its first completion" },
	{ .name = "second_cold_start",
	  .kind = METRIC_TIME,
	  .dim = DIM_TIME,
	  .statistics = ONE("value"),
	  .says = "the same for the start after a full stop" },
	{ .name = "restart",
	  .kind = METRIC_TIME,
	  .dim = DIM_TIME,
	  .statistics = ONE("value"),
	  .says = "time from the kill of the engine until, started again, it gives a first completion" },
	{ .name = "rollback",
	  .kind = METRIC_TIME,
	  .dim = DIM_TIME,
	  .statistics = ONE("value"),
	  .says = "time from the order to stop until the previous release gives a completion" },
	{ .name = "second_to_first_cold_start",
	  .kind = METRIC_RATIO,
	  .dim = DIM_RATIO,
	  .statistics = ONE("value"),
	  .says = "second_cold_start / cold_start" },
	{ .name = "device_memory_peak",
	  .kind = METRIC_LATER,
	  .dim = DIM_BYTES,
	  .statistics = ONE("max"),
	  .says = "largest memory in use on any device of the candidate",
	  .later = NO_TELEMETRY },
	{ .name = "device_power_mean",
	  .kind = METRIC_LATER,
	  .dim = DIM_POWER,
	  .statistics = { "mean", "max", NULL },
	  .says = "power of all devices of the candidate, time-weighted",
	  .later = NO_TELEMETRY },
	{ .name = "wall_power_mean",
	  .kind = METRIC_LATER,
	  .dim = DIM_POWER,
	  .statistics = { "mean", "max", NULL },
	  .says = "power at the wall meter or PDU, time-weighted",
	  .later = NO_TELEMETRY },
	{ .name = "energy_per_output_tok",
	  .kind = METRIC_LATER,
	  .dim = DIM_ENERGY_PER_TOK,
	  .statistics = ONE("value"),
	  .says = "energy over the cell / output tokens of completed requests",
	  .later = NO_TELEMETRY },
	{ .name = "leak_slope",
	  .kind = METRIC_LATER,
	  .dim = DIM_BYTE_RATE,
	  .statistics = ONE("value"),
	  .says = "Sen slope of the engine's memory under constant load",
	  .later = "no soak phase is executed yet" },
	{ .name = "prefix_cache_hit_share",
	  .kind = METRIC_LATER,
	  .dim = DIM_SHARE,
	  .needs_cell = true,
	  .higher_is_better = true,
	  .statistics = ONE("share"),
	  .says = "prompt tokens served from the prefix cache / prompt tokens",
	  .later = "engine metrics are not read yet" },
	{ .name = "scaling_efficiency",
	  .kind = METRIC_LATER,
	  .dim = DIM_SHARE,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "speed on all devices / (number of devices x speed on one)",
	  .later = "one device count is run at a time" },
	{ .name = "train_step",
	  .kind = METRIC_LATER,
	  .dim = DIM_TIME,
	  .statistics = { "p50", "median", "p90", "p95", "p99", "mean", "max", NULL },
	  .says = "time of one optimizer step",
	  .later = NO_TRAINING },
	{ .name = "train_tok_s",
	  .kind = METRIC_LATER,
	  .dim = DIM_TOK_RATE,
	  .higher_is_better = true,
	  .statistics = ONE("value"),
	  .says = "trained tokens / time, first steps left out",
	  .later = NO_TRAINING },
	{ .name = "train_loss_deviation",
	  .kind = METRIC_LATER,
	  .dim = DIM_SHARE,
	  .functional = true,
	  .statistics = ONE("max"),
	  .says = "largest |loss - reference| / reference over the curve",
	  .later = NO_TRAINING },
	{ .name = "train_bad_steps",
	  .kind = METRIC_LATER,
	  .dim = DIM_COUNT,
	  .functional = true,
	  .statistics = ONE("count"),
	  .says = "steps whose loss or gradient norm is not a finite number",
	  .later = NO_TRAINING },
	{ .name = "train_resume",
	  .kind = METRIC_LATER,
	  .dim = DIM_TIME,
	  .functional = true,
	  .statistics = ONE("value"),
	  .says = "time from killing the job to its first step past the one it was killed at",
	  .later = NO_TRAINING },
	{ .name = NULL },
};

const struct unit units[] = {
	{ "ns", DIM_TIME, 1 },
	{ "us", DIM_TIME, 1e3 },
	{ "ms", DIM_TIME, 1e6 },
	{ "s", DIM_TIME, 1e9 },
	{ "min", DIM_TIME, 60e9 },
	{ "h", DIM_TIME, 3600e9 },
	{ "tok/s", DIM_TOK_RATE, 1 },
	{ "requests/s", DIM_REQ_RATE, 1 },
	{ "requests/min", DIM_REQ_RATE, 1.0 / 60 },
	{ "share", DIM_SHARE, 1 },
	{ "%", DIM_SHARE, 0.01 },
	{ "count", DIM_COUNT, 1 },
	{ "B", DIM_BYTES, 1 },
	{ "kB", DIM_BYTES, 1e3 },
	{ "MB", DIM_BYTES, 1e6 },
	{ "GB", DIM_BYTES, 1e9 },
	{ "KiB", DIM_BYTES, 1024 },
	{ "MiB", DIM_BYTES, 1048576 },
	{ "GiB", DIM_BYTES, 1073741824 },
	{ "ratio", DIM_RATIO, 1 },
	{ "W", DIM_POWER, 1 },
	{ "kW", DIM_POWER, 1e3 },
	{ "J/tok", DIM_ENERGY_PER_TOK, 1 },
	{ "mJ/tok", DIM_ENERGY_PER_TOK, 1e-3 },
	{ "kWh/Mtok", DIM_ENERGY_PER_TOK, 3.6 },
	{ "B/s", DIM_BYTE_RATE, 1 },
	{ "MiB/min", DIM_BYTE_RATE, 1048576.0 / 60 },
	{ "MiB/h", DIM_BYTE_RATE, 1048576.0 / 3600 },
	{ NULL, DIM_TIME, 0 },
};

const struct metric *metric_find(const char *name)
{
	for (const struct metric *m = metrics; m->name; m++)
		if (name && strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

const struct unit *unit_find(const char *name)
{
	for (const struct unit *u = units; u->name; u++)
		if (name && strcmp(u->name, name) == 0)
			return u;
	return NULL;
}

bool statistic_quantile(const char *statistic, unsigned *num, unsigned *den)
{
	static const struct {
		const char *word;
		unsigned num, den;
	} table[] = {
		{ "p50", 50, 100 }, { "median", 50, 100 }, { "p90", 90, 100 },
		{ "p95", 95, 100 }, { "p99", 99, 100 },    { "p999", 999, 1000 },
	};

	for (size_t i = 0; statistic && i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(table[i].word, statistic) == 0) {
			*num = table[i].num;
			*den = table[i].den;
			return true;
		}
	return false;
}
