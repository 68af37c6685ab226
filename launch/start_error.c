/* SPDX-License-Identifier: MIT */
/* start_error: see start_error.h. Looks at the program file again to find the common mistakes. */
#include "launch/start_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_RUN = 126, NOT_THERE = 127, PATH_SHOWN = 400 };

void
hp_start_error_say(hp_start_error *e, int status, const char *format, ...)
{
    va_list ap;
    e->status = status;
    va_start(ap, format);
    vsnprintf(e->text, sizeof(e->text), format, ap);
    va_end(ap);
}

/* A file of Python that is there, and that exec has refused with this number. */
static int
is_python(const char *program, int number)
{
    size_t n = strlen(program);
    if (n <= 3 || strcmp(program + n - 3, ".py") != 0)
        return 0;
    if (number == ENOENT) /* it was looked for in PATH */
        return !strchr(program, '/') && access(program, F_OK) == 0;
    return number == ENOEXEC || number == EACCES;
}

/* PATH, or its first folders if it is long. */
static void
shown_path(char out[PATH_SHOWN])
{
    const char *path = getenv("PATH");
    if (snprintf(out, PATH_SHOWN, "%s", path ? path : "not set") < PATH_SHOWN)
        return;
    out[PATH_SHOWN - 4] = '\0';
    char *end = strrchr(out, ':');
    snprintf(end ? end + 1 : out, 4, "...");
}

/* The interpreter that a script's first line names, with a carriage return if it ends with one; 0: it is no script. */
static int
read_interpreter(const char *program, char *out, size_t size)
{
    char line[256];
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return 0;
    const char *begin = line + 2 + strspn(line + 2, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(begin, " \t\n"), begin);
    return 1;
}

/* The program is there, but the kernel did not find what it runs it with. */
static void
say_no_interpreter(hp_start_error *e, const char *program)
{
    char interpreter[160];
    if (!read_interpreter(program, interpreter, sizeof(interpreter))) {
        hp_start_error_say(e, NOT_THERE, "cannot run %.160s: its loader does not exist", program);
        return;
    }
    char *end = strchr(interpreter, '\r');
    if (end)
        *end = '\0';
    if (end)
        hp_start_error_say(
            e, NOT_THERE,
            "cannot run %.160s: its first line names %s with a carriage return behind it; end its lines as Unix does: "
            "sed -i 's/\\r$//' %.160s",
            program, interpreter, program);
    else
        hp_start_error_say(e, NOT_THERE,
                           "cannot run %.160s: the interpreter that its first line names, %s, does not exist", program,
                           interpreter);
}

static void
say_not_there(hp_start_error *e, const char *program)
{
    char here[256], path[PATH_SHOWN];
    if (!getcwd(here, sizeof(here)))
        here[0] = '\0';
    shown_path(path);
    if (!strchr(program, '/'))
        hp_start_error_say(e, NOT_THERE,
                           "there is no program %.100s in PATH (%s); write ./%.60s if it is in the current folder",
                           program, path, program);
    else if (access(program, F_OK) == 0)
        say_no_interpreter(e, program);
    else
        hp_start_error_say(
            e, NOT_THERE,
            "there is no program %.160s (in the folder %.120s); copy it there, or name the folder with --wdir", program,
            here);
}

/* What hoop-bench calls what this program of nccl-tests measures; NULL: it is none of them. */
static const char *
measured_by(const char *program)
{
    static const char *const known[][2] = {{"all_reduce_perf", "allreduce"}, {"reduce_scatter_perf", "reduce_scatter"},
                                           {"all_gather_perf", "allgather"}, {"broadcast_perf", "broadcast"},
                                           {"reduce_perf", "reduce"},        {"gather_perf", "gather"},
                                           {"scatter_perf", "scatter"},      {"alltoall_perf", "alltoall"},
                                           {"sendrecv_perf", "sendrecv"}};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i][0]) == 0)
            return known[i][1];
    return NULL;
}

/* The cause of EACCES, in the common cases. */
static const char *
why_denied(const char *program)
{
    struct stat status;
    if (stat(program, &status) < 0)
        return "";
    if (S_ISDIR(status.st_mode))
        return " (it is a folder)";
    return status.st_mode & 0111 ? "" : " (chmod +x makes a file a program)";
}

/* The kernel knows neither its format nor an interpreter for it. */
static void
say_no_format(hp_start_error *e, const hp_spec *spec)
{
    const char *program = spec->argv.item[0];
    int fd = open(program, O_RDONLY | O_CLOEXEC);
    char magic[4] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, magic, sizeof(magic));
    if (fd >= 0)
        close(fd);
    if (n == 0)
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: it is empty", program);
    else if (n == (ssize_t)sizeof(magic) && memcmp(magic, "\177ELF", sizeof(magic)) == 0)
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: it was made for another kind of machine", program);
    else
        hp_start_error_say(
            e, NOT_RUN,
            "cannot run %.160s: if it is a script, its first line must name its interpreter, as #!/bin/sh does; or "
            "write hooprun -n %d sh %.160s",
            program, spec->world, program);
}

void
hp_start_error_program(hp_start_error *e, const hp_spec *spec, hp_spawn_step step)
{
    const char *program = spec->argv.item[0];
    int number = errno;
    if (step != HP_SPAWN_EXEC)
        hp_start_error_say(e, 1, "cannot start a process: %s", strerror(number));
    else if (is_python(program, number))
        hp_start_error_say(e, number == ENOENT ? NOT_THERE : NOT_RUN,
                           "%.160s is not a program by itself; write hooprun -n %d python3 %.160s", program,
                           spec->world, program);
    else if (number == ENOENT && measured_by(program))
        hp_start_error_say(e, NOT_THERE,
                           "there is no program %.160s; to measure with hoop, write hooprun -n %d hoop-bench --coll %s",
                           program, spec->world, measured_by(program));
    else if (number == ENOENT)
        say_not_there(e, program);
    else if (number == ENOEXEC)
        say_no_format(e, spec);
    else
        hp_start_error_say(e, NOT_RUN, "cannot run %.160s: %s%s", program, strerror(number),
                           number == EACCES ? why_denied(program) : "");
}
