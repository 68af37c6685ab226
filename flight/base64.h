/* SPDX-License-Identifier: MIT */
/* base64: bytes as text (RFC 4648, section 4). Pure. */
#ifndef HP_FLIGHT_BASE64_H
#define HP_FLIGHT_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* The length of the text of n bytes, without the zero at its end. */
#define HP_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

void hp_base64_put(char *out, const uint8_t *bytes, size_t n); /* with a zero at the end */

/* Up to `room` bytes of a text of n characters. Returns how many; -1: it is no such text, or longer. */
ptrdiff_t hp_base64_get(uint8_t *out, size_t room, const char *text, size_t n);

#endif
