/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of hf_config. */
#ifndef PIN_HF_PARTS_H
#define PIN_HF_PARTS_H

#include "base/json_in.h"
#include "pin/hf_config.h"

/* Member `key`, HF_NONE when absent or null; a default of the class stands in and is noted. */
uint64_t hf_number(struct hf_config *c, const struct cJSON *cfg, const char *key);
/* The first of several names ("n_layer\0num_layers\0"), without defaults. */
uint64_t hf_first(const struct cJSON *cfg, const char *const *keys);
bool hf_is_null(const struct cJSON *cfg, const char *key);
bool hf_has_default(const struct hf_config *c, const char *key, uint64_t *out);
void hf_contradiction(struct hf_config *c, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Fills c->quant. */
warn_unused int hf_read_quant(struct hf_config *c, const struct cJSON *doc, const struct cJSON *text,
                              const struct cJSON *side, const char *side_name, struct err *err);
/* Fills c->kv, or c->kv_unknown. */
warn_unused int hf_read_layers(struct hf_config *c, const struct cJSON *cfg, struct err *err);
/* Fills the counts of parameters and bytes. */
void hf_count(struct hf_config *c, const struct cJSON *cfg);

#endif
