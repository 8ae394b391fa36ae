/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C: the first press asks for an orderly end, the second for an immediate one. SIGTERM and SIGHUP count
 * as presses too. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

extern bool interrupt_drain, interrupt_abort;
void interrupt_catch(void); /* also ignores SIGPIPE */

#endif
