/* SPDX-License-Identifier: MIT */
/*
 * line_writer: whole lines into a descriptor of the program, such as standard error, that may be a pipe which nobody
 * reads or a terminal that is stopped. Writing never waits for those for longer than the patience, once a second: a line
 * that is not taken is lost, and the next one gives the number. A file is written to as files are. Not thread-safe.
 */
#ifndef HP_LINE_WRITER_H
#define HP_LINE_WRITER_H

#include <stdint.h>

typedef struct hp_line_writer {
    int fd;
    int patience_ms;       /* for a reader that is slow */
    uint64_t patient_from; /* after a lost line there is no patience before this time */
    unsigned lost;         /* lines since the last that was written */
} hp_line_writer;

/* `line` has no newline; more than 1400 bytes are cut. Keeps errno. */
void hp_line_writer_put(hp_line_writer *writer, const char *line);

#endif
