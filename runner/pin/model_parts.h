/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of model_facts: the common facts from what was read, and checks of it. */
#ifndef PIN_MODEL_PARTS_H
#define PIN_MODEL_PARTS_H

#include "pin/model_facts.h"

void model_facts_from_gguf(struct model_facts *f);
void model_facts_from_st(struct model_facts *f);

#endif
