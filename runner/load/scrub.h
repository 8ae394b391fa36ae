/* SPDX-License-Identifier: Apache-2.0 */
/* A server may repeat the key it was given, in whatever it says: whole, cut to a bound of ours, or with
 * JSON's escapes. Nothing of that is kept. Pure. */
#ifndef LOAD_SCRUB_H
#define LOAD_SCRUB_H

#define SCRUB_PREFIX_BYTES 6 /* so much of the secret's beginning is taken for the secret, cut off */

/* Overwrites each of them in `text`, which gets no longer, by "***". `secret` NULL or "" = there is none. */
void scrub(char *text, const char *secret);

#endif
