/* SPDX-License-Identifier: MIT */
/*
 * hash: FNV-1a with 64 bits (Fowler, Noll, Vo). The same bytes give the same number on every machine and in every
 * release: ranks compare such numbers. It is no defence against an attacker who chooses the bytes. Pure.
 */
#ifndef HP_HASH_H
#define HP_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HP_HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues `hash` (HP_HASH_START, or an earlier result) with n bytes. */
uint64_t hp_hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* The same with the characters of a string, without its 0. */
uint64_t hp_hash_text(uint64_t hash, const char *text);

#endif
