/* SPDX-License-Identifier: MIT */
/*
 * fuzz: what every target in this folder defines. libFuzzer (clang) calls LLVMFuzzerTestOneInput with inputs that it
 * invents; standalone.c calls it with the files of fuzz/corpus/<fuzz_name>/, so that every compiler and every test
 * run repeats what was found before. A target is deterministic, and calls fuzz_check for what must be true.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern const char fuzz_name[]; /* folder below fuzz/corpus/ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program so that the fuzzer keeps the input. */
#define fuzz_check(condition)                                                                                          \
    ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition), abort()))

/* An input that is read as a script of bytes; behind its end there are zeros. */
typedef struct fuzz_script {
    const uint8_t *at;
    size_t left;
} fuzz_script;

static inline uint8_t
fuzz_next(fuzz_script *s)
{
    if (s->left == 0)
        return 0;
    s->left--;
    return *s->at++;
}

#endif
