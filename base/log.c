/* SPDX-License-Identifier: MIT */
/*
 * log: see log.h. A line is "prefix hoop WARN text", written by one call, so that the lines of many ranks on one
 * terminal do not mix. It is lost where standard error takes none: strangers can make lines, and a thread that drives
 * a communicator must not wait for the reader of a pipe. The text may quote bytes of a peer or a file, so control
 * characters become '?'. One mutex guards the destination and the rate limits. It is held while the program's function
 * runs, so that the old function is never called after hoop_log_to() returns. A line that the function itself logs goes
 * to standard error.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024, PREFIX_BYTES = 64, CLASSES = 32, LINES_PER_SECOND = 10, PATIENCE_MS = 100 };
enum { LINE_BYTES = 1400, NOTE_BYTES = 64 };

/* --- lines into a descriptor --- */

/*
 * A pipe or a terminal may take fewer bytes than a line has, or another process that shares it may be faster. Opened
 * anew it can be written to without waiting, and for those that share it nothing changes. -1: it is a file or a socket,
 * or cannot be opened.
 */
static int
open_anew(int fd)
{
    char path[32];
    struct stat st;
    if (fstat(fd, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void
write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return; /* it is closed, or full: a lost line must not become an error */
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

static void
put(hp_line_writer *writer, const char *line)
{
    char text[LINE_BYTES + NOTE_BYTES + 1], note[NOTE_BYTES] = "";
    uint64_t now = hp_now();
    struct pollfd end = {.fd = writer->fd, .events = POLLOUT};
    if (poll(&end, 1, now < writer->patient_from ? 0 : writer->patience_ms) <= 0) {
        writer->patient_from = now + HP_SEC;
        writer->lost++;
        return;
    }
    if (writer->lost)
        snprintf(note, sizeof(note), " (%u lines before it are lost: nobody read them)", writer->lost);
    writer->lost = 0;
    int length = snprintf(text, sizeof(text), "%.*s%s\n", LINE_BYTES, line, note);
    int fd = open_anew(writer->fd);
    write_all(fd < 0 ? writer->fd : fd, text, (size_t)length);
    if (fd >= 0)
        close(fd);
}

void
hp_line_writer_put(hp_line_writer *writer, const char *line)
{
    int kept = errno;
    put(writer, line);
    errno = kept;
}

/* --- log lines --- */

typedef struct log_class {
    const char *name;
    uint64_t since;   /* start of the current second */
    unsigned lines;   /* printed in this second */
    unsigned dropped; /* not printed since the last printed line */
} log_class;

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static atomic_int log_level = HP_LOG_WARN;
static _Thread_local int inside; /* this thread runs the program's function */
static hoop_log_fn *log_fn;
static void *log_arg;
static hp_line_writer standard_error = {.fd = STDERR_FILENO, .patience_ms = PATIENCE_MS};
static char log_prefix[PREFIX_BYTES];
static log_class classes[CLASSES];

void
hoop_log_to(hoop_log_fn *fn, void *arg)
{
    pthread_mutex_lock(&mutex);
    log_fn = fn;
    log_arg = arg;
    pthread_mutex_unlock(&mutex);
}

void
hp_log_forked(void)
{
    mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

void
hp_log_level(int level)
{
    atomic_store_explicit(&log_level, level, memory_order_relaxed);
}

int
hp_log_enabled(int level)
{
    return level > HP_LOG_NONE && level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void
hp_log_prefix(const char *prefix)
{
    pthread_mutex_lock(&mutex);
    snprintf(log_prefix, sizeof(log_prefix), "%s", prefix ? prefix : "");
    pthread_mutex_unlock(&mutex);
}

/* The caller holds the mutex. */
static void
emit(int level, const char *text, unsigned dropped)
{
    char line[LINE_MAX_BYTES + PREFIX_BYTES + 64];
    char note[48] = "";
    const char *name = level == HP_LOG_WARN ? "WARN" : level == HP_LOG_INFO ? "INFO" : "TRACE";
    if (dropped > 0)
        snprintf(note, sizeof(note), " (and %u more like it, not shown)", dropped);
    snprintf(line, sizeof(line), "%s%shoop %s %s%s", log_prefix, log_prefix[0] ? " " : "", name, text, note);
    hp_text_tame(line, strlen(line), 0);
    if (!log_fn || inside) {
        hp_line_writer_put(&standard_error, line);
        return;
    }
    inside = 1;
    log_fn(log_arg, level, line);
    inside = 0;
}

/* Returns 1 if the line may be printed, with the number of *dropped ones; 0: too many this second. */
static int
class_admit(const char *name, unsigned *dropped)
{
    log_class *class = &classes[0]; /* that of the name, or a free one, or the oldest */
    uint64_t now = hp_now();
    for (size_t i = 0; i < CLASSES && class->name && class->name != name; i++)
        if (!classes[i].name || classes[i].name == name || classes[i].since < class->since)
            class = &classes[i];
    if (class->name != name)
        *class = (log_class){.name = name};
    if (now - class->since >= HP_SEC) {
        class->since = now;
        class->lines = 0;
    }
    if (class->lines >= LINES_PER_SECOND) {
        class->dropped++;
        return 0;
    }
    class->lines++;
    *dropped = class->dropped;
    class->dropped = 0;
    return 1;
}

__attribute__((format(printf, 3, 0))) static void
log_va(const char *class_name, int level, const char *format, va_list ap)
{
    char text[LINE_MAX_BYTES];
    unsigned dropped = 0;
    int saved = errno;
    vsnprintf(text, sizeof(text), format, ap);
    pthread_mutex_lock(&mutex);
    if (!class_name || class_admit(class_name, &dropped))
        emit(level, text, dropped);
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

void
hp_log(int level, const char *format, ...)
{
    va_list ap;
    if (!hp_log_enabled(level))
        return;
    va_start(ap, format);
    log_va(NULL, level, format, ap);
    va_end(ap);
}

void
hp_log_class(const char *class_name, int level, const char *format, ...)
{
    va_list ap;
    if (!hp_log_enabled(level))
        return;
    va_start(ap, format);
    log_va(class_name, level, format, ap);
    va_end(ap);
}

/* --- lines that are collected under a lock --- */

void
hp_log_queue_add(hp_log_queue *queue, const char *class_name, int level, const char *format, ...)
{
    hp_log_line *entry = &queue->of[queue->count];
    va_list arguments;
    if (!hp_log_enabled(level))
        return;
    if (queue->count == HP_LOG_LINES) {
        queue->level = queue->more && queue->level < level ? queue->level : level;
        queue->more++;
        return;
    }
    entry->class_name = class_name;
    entry->level = level;
    va_start(arguments, format);
    vsnprintf(entry->text, sizeof(entry->text), format, arguments);
    va_end(arguments);
    queue->count++;
}

void
hp_log_queue_write(hp_log_queue *queue)
{
    for (int i = 0; i < queue->count; i++)
        hp_log_class(queue->of[i].class_name, queue->of[i].level, "%s", queue->of[i].text);
    if (queue->more)
        hp_log_class("log queue", queue->level, "%d more lines like these, not shown", queue->more);
    queue->count = queue->more = 0;
}
