/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"

/* The order is that of a trial, and of `proofmark help`. Only what exists stands here. */
const struct command *const commands[] = {
	&cmd_init, &cmd_check,  &cmd_lock, &cmd_fit,        &cmd_run,  &cmd_load,    &cmd_seal, &cmd_report,
	&cmd_show, &cmd_verify, &cmd_key,  &cmd_completion, &cmd_help, &cmd_version, NULL,
};
