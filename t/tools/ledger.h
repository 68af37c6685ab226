/* SPDX-License-Identifier: MIT */
/*
 * ledger: every allocation of this process, the library's, libevent's and libcrypto's included, goes through here: it
 * can be counted, and a chosen one can be made to fail. Only calls between open and close count; all threads do.
 */
#ifndef T_LEDGER_H
#define T_LEDGER_H

/* Starts to count. fail_from 1, 2, 3 ...: the first, second, third allocation from here on fails; 0: none does. With
 * `on` the ones after it fail as well, as when memory has really run out. */
void ledger_open(unsigned long fail_from, int on);

/* Ends it; how often memory was asked for or given back meanwhile, and whether one of these calls was made to fail. */
typedef struct ledger_sums {
    unsigned long taken; /* malloc, calloc, realloc, memalign and its kin, mmap without a file */
    unsigned long given; /* free, munmap */
    int failed;
} ledger_sums;
ledger_sums ledger_close(void);

/* Who asked first between the last open and close: "malloc 48 at 0x...; ..." for addr2line; "" when nobody did. */
const char *ledger_first(void);

/* What this process has allocated and not freed since its start, in pieces of heap. */
long ledger_alive(void);

#endif
