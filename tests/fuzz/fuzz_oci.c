/* SPDX-License-Identifier: Apache-2.0 */
/* oci: any bytes as an index or manifest, as a configuration, as an image archive, as a cosign bundle (first
 * byte: which). What is taken keeps its bounds; a refusal says why. */
#include "base/clock.h"
#include "fuzz.h"
#include "pin/cosign.h"
#include "pin/pin_image.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const types[] = { NULL, OCI_TYPE_INDEX, OCI_TYPE_MANIFEST, "application/json" };

static void as_document(const char *p, size_t len, const char *type)
{
	struct oci_doc d;
	struct err err = { 0 };
	struct oci_platform want = { .os = "linux", .architecture = "amd64" };
	const struct oci_desc *found = NULL;
	char list[64];
	if (oci_doc_parse(&d, p, len, type, "x", &err)) {
		assert(err.cls == ERR_ENV && err.msg[0]);
		return;
	}
	assert(d.n <= OCI_ENTRIES_MAX && d.media_type[0]);
	for (size_t i = 0; i < d.n; i++)
		assert(!oci_digest_fault(d.list[i].digest));
	assert(d.kind == OCI_INDEX || !oci_digest_fault(d.config.digest));
	if (d.kind == OCI_INDEX && oci_doc_pick(&found, &d, &want, "x", &err) == 0 && found)
		assert(oci_desc_runnable(found) && !found->attestation);
	oci_doc_platforms(&d, list, sizeof(list));
	assert(strlen(list) < sizeof(list));
	oci_doc_done(&d);
}

static void as_config(const char *p, size_t len)
{
	struct oci_config c;
	struct err err = { 0 };
	if (oci_config_parse(&c, p, len, "x", &err))
		return;
	for (size_t i = 0; i < c.n_diff_ids; i++)
		assert(!oci_digest_fault(c.diff_ids[i]));
	oci_config_done(&c);
}

static void as_archive(const char *p, size_t len)
{
	struct image_pin pin;
	struct err err = { 0 };
	char path[64];
	int fd = memfd_create("archive", MFD_CLOEXEC);
	assert(fd >= 0 && write(fd, p, len) == (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct image_spec spec = { .path = path,
		                   .platform = "linux/amd64",
		                   .check_layers = true,
		                   .deadline_ns = clock_now_ns() + 10 * NS_PER_S };
	if (image_resolve(&pin, &spec, &err) == 0) {
		assert(pin.config.digest[0] && pin.layers_checked);
		image_pin_done(&pin);
	} else {
		assert(err.msg[0]);
	}
	close(fd);
}

static void as_bundle(const char *p, size_t len)
{
	static const char pem[] = "-----BEGIN PUBLIC KEY-----\n"
				  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
				  "-----END PUBLIC KEY-----\n";
	static struct cosign_key *k;
	struct err err;
	if (!k)
		assert(cosign_key_parse(&k, pem, sizeof(pem) - 1, "key", &err) == 0);
	assert(cosign_bundle_fault(k, p, len, "sha256:00"));
	assert(cosign_payload_fault(k, "AAAA", p, len, "sha256:00"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const char *p = (const char *)data + 1;
	switch (data[0] % 7) {
	case 4:
		as_config(p, size - 1);
		break;
	case 5:
		as_archive(p, size - 1);
		break;
	case 6:
		as_bundle(p, size - 1);
		break;
	default:
		as_document(p, size - 1, types[data[0] % 7]);
	}
	return 0;
}
