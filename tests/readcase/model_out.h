/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds about models share. */
#ifndef TESTS_MODEL_OUT_H
#define TESTS_MODEL_OUT_H

#include "readcase.h"

#include "model/kv_size.h"
#include "pin/hf_config.h"

/* null for UINT64_MAX */
void put_known(struct json_out *o, const char *key, uint64_t n);
/* Members with the KV sizes of a model; `c` NULL for a GGUF file. */
void put_kv_members(struct json_out *o, const struct kv_model *m, const struct hf_config *c);
/* The same of a config, or status and reason. */
void put_config_kv(struct json_out *o, const struct hf_config *c);

#endif
