/* SPDX-License-Identifier: MIT */
/*
 * pmi: see pmi.h. The descriptor is shared with an MPI library of the same process, which may use it later: it stays
 * as it is, and no byte is read beyond an answer.
 */
#include "lib/pmi.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GOODBYE_MS = 1000 };

#define CHANNEL "the launcher's key-value channel (PMI_FD=%d) "

int
hp_pmi_word(const char *line, const char *key, char *value, size_t size)
{
    size_t n = strlen(key);
    for (const char *at = line; *at; at += strspn(at, " \n")) {
        size_t length = strcspn(at, " \n");
        if (strncmp(at, key, n) == 0 && at[n] == '=' && length > n && length - n <= size) {
            memcpy(value, at + n + 1, length - n - 1);
            value[length - n - 1] = 0;
            return 1;
        }
        at += length;
    }
    return 0;
}

/* --- one line --- */

static hoop_result
refuse(const hp_pmi *pmi, const char *why, hoop_error *error)
{
    return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                      CHANNEL "%.160s: start the job with hooprun, or give it HOOP_RENDEZVOUS; see hoop_launch(7)",
                      pmi->fd, why);
}

static hoop_result
send_line(const hp_pmi *pmi, const char *line, hoop_error *error)
{
    size_t n = strlen(line);
    for (size_t done = 0; done < n;) {
        ssize_t wrote = send(pmi->fd, line + done, n - done, MSG_NOSIGNAL);
        if (wrote < 0 && errno != EINTR)
            return refuse(pmi,
                          errno == EBADF      ? "is not open; did a program in between close it?"
                          : errno == ENOTSOCK ? "is no socket"
                                              : "is closed; did another library say goodbye on it?",
                          error);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return HOOP_SUCCESS;
}

/* What the user hears while there is no answer. */
static const char *
waiting_for(const hp_pmi *pmi)
{
    if (pmi->in_barrier)
        return "other processes of this job, which must all call hoop_comm_create";
    return "an answer of the launcher's key-value channel (PMI_FD)";
}

static hoop_result
late(const hp_pmi *pmi, const char *line, hoop_error *error)
{
    char why[128];
    if (pmi->in_barrier)
        return hp_err_set(error, HOOP_ERR_RENDEZVOUS,
                          "a rank of this job has not called hoop_comm_create within HOOP_BOOTSTRAP_TIMEOUT_MS: all "
                          "ranks must call it; this one may call it again, but not MPI_Init, because the channel "
                          "(PMI_FD=%d) now waits for that rank; see hoop_launch(7)",
                          pmi->fd);
    snprintf(why, sizeof(why), "does not answer \"%.*s\" in time", (int)(strcspn(line, " \n")), line);
    return refuse(pmi, why, error);
}

static hoop_result
read_line(const hp_pmi *pmi, const char *asked, char answer[HP_PMI_LINE], hp_bounded_wait *wait, hoop_error *error)
{
    size_t have = 0;
    for (;;) {
        struct pollfd readable = {.fd = pmi->fd, .events = POLLIN};
        int ready = poll(&readable, 1, hp_bounded_wait_ms(wait));
        if (ready <= 0) {
            if (!hp_bounded_wait_ask(wait, waiting_for(pmi)))
                return late(pmi, asked, error);
            continue;
        }
        ssize_t n = recv(pmi->fd, answer + have, HP_PMI_LINE - 1 - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return refuse(pmi, "was closed; has the launcher ended the job?", error);
        have += (size_t)n;
        answer[have] = 0;
        if (answer[have - 1] == '\n' && strlen(answer) == have)
            return HOOP_SUCCESS;
        if (have == HP_PMI_LINE - 1 || memchr(answer, '\n', have))
            return refuse(pmi, "gives an answer that is not one line of PMI-1", error);
    }
}

/* HOOP_SUCCESS: the answer to `line` is `cmd` with rc=0, or without an rc. */
static hoop_result
check(const hp_pmi *pmi, const char *line, const char *cmd, char answer[HP_PMI_LINE], hoop_error *error)
{
    char word[64], why[160];
    int right = hp_pmi_word(answer, "cmd", word, sizeof(word)) && strcmp(word, cmd) == 0;
    if (right && (!hp_pmi_word(answer, "rc", word, sizeof(word)) || strcmp(word, "0") == 0))
        return HOOP_SUCCESS;
    answer[strcspn(answer, "\n")] = 0;
    char *value = strstr(answer, " value="); /* it may hold the secret */
    if (value)
        *value = 0;
    snprintf(why, sizeof(why), "answers \"%.*s\" with \"%.80s\"", (int)strcspn(line, " \n"), line, answer);
    return refuse(pmi, why, error);
}

/* Sends a line, and expects the answer `cmd`. */
__attribute__((format(printf, 6, 7))) static hoop_result
ask(const hp_pmi *pmi, const char *cmd, char answer[HP_PMI_LINE], hp_bounded_wait *wait, hoop_error *error,
    const char *format, ...)
{
    char line[HP_PMI_LINE];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (n >= HP_PMI_LINE)
        return refuse(pmi, "has no room for the server's address", error);
    hoop_result result = send_line(pmi, line, error);
    if (result == HOOP_SUCCESS)
        result = read_line(pmi, line, answer, wait, error);
    char *secret = strstr(line, " value=");
    if (secret)
        hp_wipe(secret, strlen(secret));
    return result == HOOP_SUCCESS ? check(pmi, line, cmd, answer, error) : result;
}

/* --- the commands --- */

hoop_result
hp_pmi_open(hp_pmi *pmi, int fd, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE], number[32] = "";
    int64_t most = 0;
    *pmi = (hp_pmi){.fd = fd};
    hoop_result result = ask(pmi, "response_to_init", answer, wait, error, "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (result == HOOP_SUCCESS)
        pmi->open = 1;
    if (result == HOOP_SUCCESS)
        result = ask(pmi, "maxes", answer, wait, error, "cmd=get_maxes\n");
    if (result == HOOP_SUCCESS) {
        hp_pmi_word(answer, "vallen_max", number, sizeof(number));
        if (!hp_number_parse(number, 1, INT32_MAX, &most))
            return refuse(pmi, "does not say how long a value may be (vallen_max)", error);
        pmi->most = (long)most;
        result = ask(pmi, "my_kvsname", answer, wait, error, "cmd=get_my_kvsname\n");
    }
    if (result == HOOP_SUCCESS && !hp_pmi_word(answer, "kvsname", pmi->space, sizeof(pmi->space)))
        return refuse(pmi, "has no name (kvsname)", error);
    return result;
}

hoop_result
hp_pmi_put(hp_pmi *pmi, const char *key, const char *value, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE];
    if (strlen(value) >= (size_t)pmi->most)
        return refuse(pmi, "has no room for the server's address", error);
    return ask(pmi, "put_result", answer, wait, error, "cmd=put kvsname=%s key=%s value=%s\n", pmi->space, key, value);
}

hoop_result
hp_pmi_barrier(hp_pmi *pmi, hp_bounded_wait *wait, hoop_error *error)
{
    static const char line[] = "cmd=barrier_in\n";
    char answer[HP_PMI_LINE];
    hoop_result result = pmi->in_barrier ? HOOP_SUCCESS : send_line(pmi, line, error);
    if (result != HOOP_SUCCESS)
        return result;
    pmi->in_barrier = 1;
    result = read_line(pmi, line, answer, wait, error);
    if (result != HOOP_SUCCESS)
        return result;
    pmi->in_barrier = 0;
    return check(pmi, line, "barrier_out", answer, error);
}

hoop_result
hp_pmi_get(hp_pmi *pmi, const char *key, char *value, size_t size, hp_bounded_wait *wait, hoop_error *error)
{
    char answer[HP_PMI_LINE];
    hoop_result result = ask(pmi, "get_result", answer, wait, error, "cmd=get kvsname=%s key=%s\n", pmi->space, key);
    if (result == HOOP_SUCCESS && !hp_pmi_word(answer, "value", value, size))
        result = refuse(pmi, "gives no value for a key that rank 0 has put there", error);
    hp_wipe(answer, sizeof(answer));
    return result;
}

void
hp_pmi_finalize(hp_pmi *pmi)
{
    hp_bounded_wait wait = hp_bounded_wait_of(GOODBYE_MS * HP_MS, 1);
    char answer[HP_PMI_LINE];
    hoop_error error;
    if (pmi->open)
        ask(pmi, "finalize_ack", answer, &wait, &error, "cmd=finalize\n");
    pmi->open = 0;
}
