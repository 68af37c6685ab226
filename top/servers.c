/* SPDX-License-Identifier: MIT */
/* servers: see servers.h. A server that does not answer is shown with the reason: it may be stopped. */
#include "top/servers.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"
#include "flight/folder.h"
#include "lib/config.h"
#include "lib/secret_file.h"
#include "net/race.h"
#include "net/socket.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROGRAM = 32, LINE = 256, PIECE = 256 << 10, ANSWER_MS = 2000, DIAL_S = 5 };
enum { ANSWER_MAX = 512 << 20 }; /* as JSON, a rank takes a kilobyte in each ring that it is in */

/* --- question and answer --- */

/* 1: at the end; 0: more may come; -1 with errno. */
static int
read_piece(int fd, hp_buffer *out, uint64_t deadline)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t now = hp_now();
    uint8_t *room = hp_buffer_room(out, PIECE);
    if (!room || hp_buffer_size(out) > ANSWER_MAX) {
        errno = room ? EMSGSIZE : ENOMEM;
        return -1;
    }
    if (now >= deadline || poll(&ready, 1, (int)((deadline - now) / HP_MS) + 1) == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    ssize_t n = recv(fd, room, PIECE, 0);
    if (n > 0)
        hp_buffer_grown(out, (size_t)n);
    return n == 0 ? 1 : n > 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Asks for a table, or, if rows is 0, for JSON, and adds the answer to `out`. 0, or -1 with errno. */
static int
converse(int fd, int rows, int width, hp_buffer *out)
{
    char request[LINE];
    int n = snprintf(request, sizeof(request), rows ? "table %d %d\n" : "json\n", rows, width), got = -1;
    uint64_t deadline = hp_now() + ANSWER_MS * HP_MS;
    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) == n)
        while ((got = read_piece(fd, out, deadline)) == 0)
            continue;
    return got == 1 ? 0 : -1;
}

typedef struct collector {
    hp_buffer *out;
    int rows, width; /* rows 0: JSON */
    int servers, failed;
} collector;

static void add(collector *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
add(collector *c, const char *format, ...)
{
    char line[LINE];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    c->failed |= hp_buffer_add(c->out, line, strlen(line)) != 0;
}

static void
add_answer(collector *c, const hp_buffer *answer, const char *none)
{
    if (hp_buffer_size(answer) > 0)
        c->failed |= hp_buffer_add(c->out, hp_buffer_first(answer), hp_buffer_size(answer)) != 0;
    else
        add(c, "%s", none);
}

static void
add_object(collector *c, const char *server, const char *pid, const hp_buffer *rings)
{
    add(c, "{\"version\":1,\"server\":\"%s\",\"pid\":%s,\"rings\":", server, pid);
    add_answer(c, rings, "null");
    add(c, "}");
}

/* --- those of this machine --- */

/* The launcher whose server this process is; 0: it is none of hooprun's. */
static int
launcher_of(int pid)
{
    char path[64], number[16];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%*s (hoop-launch) %*c %15s", number) != 1 ||
        !hp_number_parse_int(number, 0, INT_MAX, &parent))
        parent = 0;
    if (file)
        fclose(file);
    return parent;
}

/* The name of the program, which may be any text; what JSON or a terminal could take for more is left out. */
static void
find_program(int pid, char out[PROGRAM])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(out, 1, PROGRAM - 1, file) : 0;
    if (file)
        fclose(file);
    out[n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    if (strcmp(out, "hoop-launch") == 0)
        snprintf(out, PROGRAM, "hooprun");
}

/* Asks the server at this socket. */
static void
ask(collector *c, const char *path, int pid)
{
    hp_buffer answer = {0};
    char program[PROGRAM], number[16];
    int fd = hp_server_socket_connect(path), got = fd < 0 ? -1 : converse(fd, c->rows, c->width, &answer), why = errno;
    if (fd >= 0)
        close(fd);
    int launcher = launcher_of(pid);
    find_program(pid, program);
    snprintf(number, sizeof(number), "%d", launcher ? launcher : pid);
    if (c->servers++)
        add(c, c->rows ? "\n" : ",");
    if (c->rows == 0) {
        if (got < 0)
            hp_buffer_free(&answer);
        add_object(c, program, number, &answer);
    } else {
        add(c, "%s, pid %s\n", program, number);
        if (got == 0 || hp_buffer_size(&answer) > 0)
            add_answer(c, &answer, "no rank is in a ring now\n");
        if (got < 0)
            add(c, "its server does not answer (%s); is it stopped?\n", strerror(why));
    }
    hp_buffer_free(&answer);
}

/* Asks the living servers of a folder, whose descriptor it takes, and removes the sockets that nobody has any more. */
static void
ask_folder(collector *c, int fd)
{
    char path[HP_SERVER_SOCKET_PATH];
    DIR *dir = fdopendir(fd);
    if (!dir)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int pid = hp_server_socket_pid(entry->d_name);
        if (pid && hp_server_socket_is_dead(fd, entry->d_name))
            unlinkat(fd, entry->d_name, 0);
        else if (pid)
            ask(c, hp_server_socket_path(fd, entry->d_name, path), pid);
    }
    if (dir)
        closedir(dir);
}

int
hp_top_jobs(hp_buffer *out, int rows, int width)
{
    collector c = {.out = out, .rows = rows, .width = width};
    char path[HP_FLIGHT_PATH];
    if (rows == 0)
        add(&c, "[");
    for (int i = 0; i < HP_FLIGHT_FOLDERS; i++) {
        int fd = hp_flight_folder_open(i, path, NULL);
        if (fd >= 0)
            ask_folder(&c, fd);
    }
    if (rows == 0)
        add(&c, "]\n");
    return c.failed ? -1 : c.servers;
}

/* --- the key of a job --- */

static hoop_result
read_secret(hp_secret *secret, const char *file, hoop_error *error)
{
    char name[HP_VALUE_TEXT], own[HP_SECRET_PATH];
    int fd = (int)hp_config_glance_number(HP_SET_secret_fd);
    if (file)
        return hp_secret_from_file(secret, file, error);
    hp_config_glance(HP_SET_secret_file, name);
    if (fd >= 0)
        return hp_secret_from_fd(secret, fd, error);
    if (name[0])
        return hp_secret_from_file(secret, name, error);
    if (hp_secret_file_own(own, 0, error) != HOOP_SUCCESS)
        return error->code;
    if (access(own, F_OK) == 0)
        return hp_secret_from_file(secret, own, error);
    return hp_err_set(error, HOOP_ERR_AUTH,
                      "a server answers only those who have the secret of the job: name its file with --secret-file "
                      "FILE, or HOOP_SECRET_FILE");
}

/* The secret becomes the job's own key. */
static hoop_result
find_key(hp_secret *secret, uint8_t job_id[HP_JOB_ID_BYTES], const char *file, const char *job, hoop_error *error)
{
    hoop_result result = read_secret(secret, file, error);
    if (result == HOOP_SUCCESS && secret->of_job && !job)
        memcpy(job_id, secret->job_id, HP_JOB_ID_BYTES);
    return result == HOOP_SUCCESS ? hp_secret_of_job(secret, secret, job_id, error) : result;
}

static hp_keys *
keys_of(const char *secret_file, const char *job, hoop_error *error)
{
    char name[HP_VALUE_TEXT], security[HP_VALUE_TEXT];
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_keys *keys = NULL;
    hp_config_glance(HP_SET_job, name);
    hp_config_glance(HP_SET_security, security);
    int mode = strcmp(security, "none") == 0 && !secret_file ? HP_MODE_NONE : HP_MODE_AUTH;
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    if (!secret)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the job's secret");
    else if (hp_job_id(job_id, job ? job : name, error) == HOOP_SUCCESS &&
             (mode == HP_MODE_NONE || find_key(secret, job_id, secret_file, job, error) == HOOP_SUCCESS))
        keys = hp_keys_new(secret->key, job_id, mode, error);
    hp_secmem_free(secret);
    return keys;
}

/* --- one elsewhere --- */

hoop_result
hp_top_remote_open(hp_top_remote *remote, const char *address, const char *secret_file, const char *job,
                   hoop_error *error)
{
    *remote = (hp_top_remote){.loop = hp_loop_new(), .address = address};
    if (!remote->loop)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "cannot make an event loop: out of memory or of descriptors");
    if (hp_addr_find_all(&remote->servers, address, remote->loop, hp_loop_now(remote->loop) + DIAL_S * HP_SEC, error))
        return error->code;
    remote->keys = keys_of(secret_file, job, error);
    return remote->keys ? HOOP_SUCCESS : error->code;
}

typedef struct dialling {
    int dialled;
    hp_dial_result result;
} dialling;

static void
on_dialled(void *arg, const hp_dial_result *result)
{
    dialling *a = arg;
    a->dialled = 1;
    a->result = *result;
}

/* A proven connection, and to which address; -1 with the error filled. */
static int
dial(const hp_top_remote *remote, hp_addr *server, hoop_error *error)
{
    const hp_sock_options sock = {0};
    dialling a = {.result.fd = -1};
    hp_hello hello = {.my_rank = HP_RANK_UNKNOWN,
                      .your_rank = HP_RANK_SERVER,
                      .role = HP_ROLE_ASK,
                      .mode = (uint8_t)remote->keys->mode,
                      .ver_min = HP_WIRE_MIN,
                      .ver_max = HP_WIRE_MAX};
    memcpy(hello.job_id, remote->keys->job_id, HP_JOB_ID_BYTES);
    hp_race *race = hp_race_new(remote->loop, &remote->servers,
                                &(hp_dial_options){.what = "the rendezvous server",
                                                   .keys = remote->keys,
                                                   .hello = hello,
                                                   .sock = sock,
                                                   .deadline = hp_loop_now(remote->loop) + DIAL_S * HP_SEC,
                                                   .fn = on_dialled,
                                                   .arg = &a});
    if (race)
        hp_race_limit_closed(race, 1);
    else
        hp_err_set(&a.result.error, HOOP_ERR_NO_MEMORY, "out of memory for a connection");
    while (race && !a.dialled)
        hp_loop_run(remote->loop, HP_NEVER);
    hp_race_free(race);
    *server = a.result.to;
    *error = a.result.error;
    return a.result.fd;
}

hoop_result
hp_top_remote_ask(hp_top_remote *remote, int rows, int width, hp_buffer *out, hoop_error *error)
{
    static const char no_rings[] = "[]";
    collector c = {.out = out};
    hp_buffer answer = {0};
    char address[HP_ADDR_TEXT];
    hp_addr server;
    int fd = dial(remote, &server, error);
    hp_addr_print(&server, address);
    if (fd >= 0) {
        hp_err_clear(error);
        if (converse(fd, rows, width, &answer) < 0)
            hp_err_sys(error, HOOP_ERR_SYSTEM, errno, "the rendezvous server at %s does not answer; is it stopped?",
                       remote->address);
        hp_socket_close(fd);
    }
    if (error->code == HOOP_SUCCESS && rows) {
        add(&c, "%s\n", address);
        add_answer(&c, &answer, "no rank of this job is in a ring now\n");
    } else if (error->code == HOOP_SUCCESS) {
        add(&c, "[");
        add_object(&c, address, "null", &answer);
        add(&c, "]\n");
    }
    if (c.failed)
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory for the answer");
    size_t n = hp_buffer_size(&answer);
    remote->found = n > 0 && (n != sizeof(no_rings) - 1 || memcmp(hp_buffer_first(&answer), no_rings, n) != 0);
    hp_buffer_free(&answer);
    return error->code;
}

void
hp_top_remote_close(hp_top_remote *remote)
{
    hp_keys_drop(remote->keys);
    if (remote->loop)
        hp_loop_free(remote->loop);
    *remote = (hp_top_remote){0};
}
