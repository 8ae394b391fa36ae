/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations: what was said so far is kept as ready JSON, so that a later turn costs one copy and no
 * encoding of what was encoded before. */
#include "base/json_out.h"
#include "trial/prompts_parts.h"

#include <string.h>

#define PLACE "proofmark-puts-the-conversation-here"

static bool takes_messages(const struct proto *proto)
{
	return proto->wire == WIRE_OPENAI_CHAT || proto->wire == WIRE_OLLAMA;
}

static int cut_form(struct talk_form *f, const char *body)
{
	const char *at = strstr(body, PLACE), *rest = at ? at + sizeof(PLACE) - 1 : NULL;
	if (!at || strstr(rest, PLACE))
		return -1;
	f->before = strndup(body, (size_t)(at - body));
	f->after = strdup(rest);
	if (!f->before || !f->after)
		return -1;
	f->before_len = strlen(f->before);
	f->after_len = strlen(f->after);
	return 0;
}

int talk_form_of(const struct talk_form **out, struct talk_form **list, const struct texts *t,
                 const struct proto *proto, uint64_t max_tok, struct err *err)
{
	for (const struct talk_form *f = *list; f; f = f->next)
		if (f->max_tok == max_tok) {
			*out = f;
			return 0;
		}
	bool chat = takes_messages(proto);
	auto_buf body = BUF_INIT(BODY_BYTES_MAX);
	struct proto_request r = {
		.model = t->p->spec.model_name,
		.prompt = PLACE,
		.messages = chat ? "[" PLACE "]" : NULL,
		.max_tok = max_tok,
		.force_output = t->cell->wl->force_output,
		.whole = !t->cell->wl->stream,
		.sampling = &t->cell->wl->sampling,
	};
	struct talk_form *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, ERR_ENV, "no memory");
	*f = (struct talk_form){ .max_tok = max_tok, .chat = chat, .next = *list };
	if (proto_body(&body, proto, &r) || cut_form(f, body.p)) {
		f->next = NULL;
		talk_forms_done(f);
		return err_set(err, ERR_ENV, "%s: the request of a conversation cannot be made", t->cell->id);
	}
	*list = f;
	*out = f;
	return 0;
}

void talk_forms_done(struct talk_form *list)
{
	while (list) {
		struct talk_form *next = list->next;
		free(list->before);
		free(list->after);
		free(list);
		list = next;
	}
}

/* --- what was said ----------------------------------------------------------------------------------------
 */

static void add_message(struct buf *json, const char *role, const char *text, size_t len)
{
	struct json_out o;
	if (json->len)
		buf_addc(json, ',');
	jo_init(&o, json, 0);
	jo_obj(&o, NULL);
	jo_str(&o, "role", role);
	jo_strn(&o, "content", text, len);
	jo_end(&o);
}

/* The text of a JSON string goes on: written with its quotes, which are then taken off. */
static void add_plain(struct buf *json, const char *text, size_t len)
{
	struct json_out o;
	size_t at = json->len;
	jo_init(&o, json, 0);
	jo_strn(&o, NULL, text, len);
	if (json->failed || json->len < at + 2)
		return;
	memmove(json->p + at, json->p + at + 1, json->len - at - 2);
	json->len -= 2;
	json->p[json->len] = '\0';
}

static void add(struct talk *k, const struct talk_form *f, const char *role, const char *text, size_t len)
{
	if (f->chat)
		add_message(&k->json, role, text, len);
	else
		add_plain(&k->json, text, len);
}

struct talk *talk_new(const struct talk_form *f, const char *prompt)
{
	struct talk *k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	buf_init(&k->json, BODY_BYTES_MAX);
	add(k, f, "user", prompt, strlen(prompt));
	if (!k->json.failed)
		return k;
	talk_free(k);
	return NULL;
}

void talk_free(struct talk *k)
{
	if (k)
		buf_done(&k->json);
	free(k);
}

int talk_add(struct talk *k, const struct talk_form *f, const char *answer, size_t answer_len,
             const char *prompt)
{
	add(k, f, "assistant", answer, answer_len);
	add(k, f, "user", prompt, strlen(prompt));
	return k->json.failed ? -1 : 0;
}

char *talk_body(size_t *len, const struct talk *k, const struct talk_form *f)
{
	size_t n = f->before_len + k->json.len + f->after_len;
	char *body = n <= BODY_BYTES_MAX ? malloc(n + 1) : NULL;
	if (!body)
		return NULL;
	memcpy(body, f->before, f->before_len);
	memcpy(body + f->before_len, k->json.p, k->json.len);
	memcpy(body + f->before_len + k->json.len, f->after, f->after_len + 1);
	*len = n;
	return body;
}
