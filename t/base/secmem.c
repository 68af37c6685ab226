/* SPDX-License-Identifier: MIT */
/*
 * secmem: rooms do not overlap and come back zeroed, from several threads too; the kernel says of the pages that they are
 * in no core file and wiped on fork; and in a forked child they are zero, and new ones its own.
 */
#include "base/mem.h"

#include "t/tap/tap.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 200, THREADS = 4, ROUNDS = 2000 };

static int
is_filled(const uint8_t *bytes, uint8_t with)
{
    for (int i = 0; i < HP_SECMEM_MOST; i++)
        if (bytes[i] != with)
            return 0;
    return 1;
}

static void
many_rooms(void)
{
    static uint8_t *room[MANY];
    int zero = 0, own = 0;
    for (int i = 0; i < MANY; i++) {
        room[i] = hp_secmem_new(HP_SECMEM_MOST);
        zero += room[i] && is_filled(room[i], 0);
        memset(room[i], i + 1, HP_SECMEM_MOST);
    }
    for (int i = 0; i < MANY; i++)
        own += is_filled(room[i], (uint8_t)(i + 1));
    is_int(MANY, zero, "%d rooms, more than a page has, zeroed", MANY);
    is_int(MANY, own, "do not overlap");
    hp_secmem_free(room[7]);
    ok(is_filled(room[7], 0), "one that is given back is wiped");
    room[7] = hp_secmem_new(1);
    for (int i = 0; i < MANY; i++)
        hp_secmem_free(room[i]);
    hp_secmem_free(NULL);
    ok(!hp_secmem_new(HP_SECMEM_MOST + 1), "more than a room has is not to be had");
}

static void *
take_and_give(void *arg)
{
    uint8_t mark = *(uint8_t *)arg;
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t *room = hp_secmem_new(HP_SECMEM_MOST);
        wrong += !room || !is_filled(room, 0);
        memset(room, mark, HP_SECMEM_MOST);
        wrong += !is_filled(room, mark);
        hp_secmem_free(room);
    }
    *(uint8_t *)arg = wrong != 0;
    return NULL;
}

static void
threads(void)
{
    pthread_t thread[THREADS];
    uint8_t mark[THREADS];
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        mark[i] = (uint8_t)(i + 1);
        pthread_create(&thread[i], NULL, take_and_give, &mark[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        wrong += mark[i];
    }
    is_int(0, wrong, "threads do not get each other's");
}

/* What /proc/self/smaps says of the mapping in which this lies. */
static void
flags_of(const void *memory, char *flags, size_t n)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long from, to;
    int here = 0;
    *flags = 0;
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)memory >= from && (uintptr_t)memory < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(flags, n, "%.*s", (int)strcspn(line, "\n"), line);
    }
    if (file)
        fclose(file);
}

static void
page_flags(void)
{
    void *room = hp_secmem_new(32);
    char flags[512];
    flags_of(room, flags, sizeof(flags));
    if (!*flags)
        skip(2, "/proc/self/smaps has no VmFlags");
    else {
        ok(strstr(flags, " dd"), "no core file has it: %s", flags);
        ok(strstr(flags, " wf"), "a fork wipes it");
    }
    hp_secmem_free(room);
}

/* In a child: exit status 0 where all is as it shall be. */
static int
child_sees(uint8_t *parents)
{
    uint8_t *own;
    if (!is_filled(parents, 0))
        return 1;
    hp_secmem_free(parents); /* harms nobody */
    own = hp_secmem_new(HP_SECMEM_MOST);
    if (!own || own == parents)
        return 2;
    memset(own, 9, HP_SECMEM_MOST);
    uint8_t *second = hp_secmem_new(HP_SECMEM_MOST);
    return second && second != own && is_filled(second, 0) && is_filled(own, 9) ? 0 : 3;
}

static void
forks(void)
{
    uint8_t *room = hp_secmem_new(HP_SECMEM_MOST);
    int status = -1;
    memset(room, 5, HP_SECMEM_MOST);
    pid_t child = fork();
    if (child == 0)
        _exit(child_sees(room));
    waitpid(child, &status, 0);
    is_int(0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, "a forked child sees zeros, and has rooms of its own");
    ok(is_filled(room, 5), "the parent's are as they were");
    hp_secmem_free(room);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    many_rooms();
    threads();
    page_flags();
    forks();
    hp_secmem_hide_process();
    is_int(0, prctl(PR_GET_DUMPABLE), "a hidden process leaves no core file");
    return 0;
}
