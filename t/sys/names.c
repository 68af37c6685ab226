/* SPDX-License-Identifier: MIT */
/*
 * hoop_comm_set_name: what is no name is refused; a name is in the errors of every rank, in the lines of the server and in
 * the flight recorder; each communicator has its own, and a thread may change it beside operations. Likewise
 * hoop_comm_set_call_name, for calls.
 */
#include "flight/collection.h"
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, CHANGES = 2000 };

static int bad;

static void
note(int right, const char *what, const char *said)
{
    if (!right && !bad++)
        party_note("%s: %s", what, said);
}

static void
refused(hoop_comm *comm, const char *name, const char *part)
{
    hoop_error error = {.size = sizeof(error), .text = "poison"};
    note(hoop_comm_set_name(comm, name) == HOOP_ERR_INVALID_ARGUMENT, "a wrong name", name);
    hoop_comm_error(comm, &error);
    note(strstr(error.text, part) != NULL, part, error.text);
}

static void
call_refused(hoop_comm *comm, const char *name, const char *part)
{
    hoop_error error = {.size = sizeof(error), .text = "poison"};
    note(hoop_comm_set_call_name(comm, name) == HOOP_ERR_INVALID_ARGUMENT, "a wrong name of calls", name);
    hoop_comm_error(comm, &error);
    note(strstr(error.text, part) != NULL, part, error.text);
}

static void
call_names(hoop_comm *comm)
{
    char name[33] = "";
    memset(name, 'n', 32);
    note(hoop_comm_set_call_name(NULL, "loss") == HOOP_ERR_INVALID_ARGUMENT, "no communicator", "");
    call_refused(comm, name, "hoop_comm_set_call_name: the name has more than 31 bytes");
    call_refused(comm, "two\nlines", "hoop_comm_set_call_name: the name has a control character");
    call_refused(comm, "\xff", "is not UTF-8");
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof(name), "%031d", i);
        note(hoop_comm_set_call_name(comm, name) == HOOP_SUCCESS, "64 names of 31 bytes", name);
    }
    call_refused(comm, "one more", "has 64 names already: name kinds of calls");
    note(hoop_comm_set_call_name(comm, name) == HOOP_SUCCESS, "a name that is there can be set again", name);
    note(hoop_comm_set_call_name(comm, NULL) == HOOP_SUCCESS, "none any more", "");
}

static int
mistakes(int rank, int size, void *arg)
{
    char name[65] = "";
    hoop_comm *comm = party_join(1);
    memset(name, 'n', 64);
    note(hoop_comm_set_name(NULL, "dp") == HOOP_ERR_INVALID_ARGUMENT, "no communicator", "");
    refused(comm, name, "hoop_comm_set_name: the name has more than 63 bytes");
    refused(comm, "two\nlines", "hoop_comm_set_name: the name has a control character");
    refused(comm, "\xff", "is not UTF-8");
    note(hoop_comm_set_name(comm, name + 1) == HOOP_SUCCESS, "63 bytes", "");
    note(hoop_comm_set_name(comm, NULL) == HOOP_SUCCESS, "none any more", "");
    call_names(comm);
    return hoop_barrier(comm) != HOOP_SUCCESS || hoop_comm_destroy(comm) != HOOP_SUCCESS || bad;
}

/* The ranks call different things: the sentence names both calls. After a name that was refused they have none. */
static int
differ(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error), .text = "poison"};
    const char *name = arg;
    hoop_comm *comm = party_join(1);
    float x = 1;
    hoop_comm_set_call_name(comm, "loss");
    hoop_comm_set_call_name(comm, name);
    hoop_result result = rank == 1 ? hoop_broadcast(&x, &x, 1, HOOP_FLOAT32, 0, comm)
                                   : hoop_allreduce(&x, &x, 1, HOOP_FLOAT32, HOOP_SUM, comm);
    hoop_comm_error(comm, &error);
    int both = strstr(error.text, "called allreduce (gradients) of 1 x") &&
               strstr(error.text, "called broadcast (gradients) of 1 x");
    int none = strstr(error.text, "called allreduce of 1 x") && strstr(error.text, "called broadcast of 1 x");
    note(result == HOOP_ERR_MISMATCH && (name[0] == 'g' ? both : none), name, error.text);
    hoop_comm_destroy(comm);
    return bad;
}

/* Rank 1 aborts a split that has a name; the parent has another. */
static int
fails(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error), .text = "poison"};
    hoop_comm *world = party_join(1), *part = NULL;
    note(hoop_comm_set_name(world, "world") == HOOP_SUCCESS, "a name", "");
    note(hoop_comm_split(world, 0, 0, &part) == HOOP_SUCCESS &&
             hoop_comm_set_name(part, "caf\xc3\xa9") == HOOP_SUCCESS && hoop_barrier(part) == HOOP_SUCCESS,
         "a split", "");
    note(hoop_barrier(world) == HOOP_SUCCESS, "the barrier is over on all ranks", "");
    hoop_result result = rank == 1 ? hoop_comm_abort(part, "enough") : hoop_barrier(part);
    note(result == (rank == 1 ? HOOP_SUCCESS : HOOP_ERR_ABORTED), "the result", hoop_strerror(result));
    hoop_comm_error(part, &error);
    note(strncmp(error.text, "\"caf\xc3\xa9\": rank 1 (", 16) == 0 && strstr(error.text, "aborted the job: enough") &&
             !strstr(error.text + 2, "caf"),
         "the name begins the sentence, once", error.text);
    hoop_comm_destroy(part);
    hoop_comm_error(NULL, &error);
    note(strncmp(error.text, "\"caf", 4) == 0, "also when it is destroyed", error.text);
    return hoop_barrier(world) != HOOP_SUCCESS || hoop_comm_destroy(world) != HOOP_SUCCESS || bad;
}

/* 1 if the recorder of this process has the name. */
static int
is_recorded(const char *name)
{
    hp_flight_collection all = {0};
    hoop_error error;
    char folder[300];
    int found = 0;
    snprintf(folder, sizeof(folder), "%s/hoop", getenv("XDG_RUNTIME_DIR"));
    hp_flight_add_folder(&all, folder, NULL, &error);
    for (size_t i = 0; i < all.count; i++)
        found |=
            all.entry[i].flight->head.pid == (uint32_t)getpid() && strcmp(all.entry[i].flight->head.name, name) == 0;
    hp_flight_collection_free(&all);
    return found;
}

/* HOOP_NAME: the communicator has that name from its creation on, and a part of it has none. */
static int
starts_named(int rank, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error), .text = "poison"};
    hoop_comm *world = party_join(0), *part = NULL;
    note(is_recorded("w\xc3\xb6rld"), "the recorder has the name", "");
    note(hoop_comm_split(world, 0, 0, &part) == HOOP_SUCCESS && is_recorded(""), "a split has none", "");
    note(hoop_comm_abort(part, "enough") == HOOP_SUCCESS, "an abort", "");
    hoop_comm_error(part, &error);
    note(error.text[0] != '"', "of a part without a name", error.text);
    hoop_comm_destroy(part);
    note(rank == 1 ? hoop_comm_abort(world, "now") == HOOP_SUCCESS : hoop_barrier(world) == HOOP_ERR_ABORTED, "the end",
         "");
    hoop_comm_error(world, &error);
    note(strncmp(error.text, "\"w\xc3\xb6rld\": rank 1 ", 17) == 0, "the name begins the error", error.text);
    hoop_comm_destroy(world);
    return bad;
}

static void *
rename_often(void *arg)
{
    char name[32];
    for (int i = 0; i < CHANGES; i++) {
        snprintf(name, sizeof(name), "name %d", i);
        if (hoop_comm_set_name(arg, name) != HOOP_SUCCESS)
            return arg;
        snprintf(name, sizeof(name), "call %d", i % 60);
        if (hoop_comm_set_call_name(arg, name) != HOOP_SUCCESS)
            return arg;
    }
    return NULL;
}

static int
changes(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    pthread_t thread;
    void *failed = comm;
    int32_t one = 1, sum = -1;
    if (pthread_create(&thread, NULL, rename_often, comm) != 0)
        return 1;
    for (int i = 0; i < 300; i++, sum = i < 300 ? -1 : sum)
        note(hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == size, "a sum", "");
    pthread_join(thread, &failed);
    note(!failed, "changing the name", "");
    note(is_recorded("name 1999"), "the recorder has the last name", "");
    return hoop_barrier(comm) != HOOP_SUCCESS || hoop_comm_destroy(comm) != HOOP_SUCCESS || bad;
}

static int
is_in(const char *path, const char *text)
{
    char line[1024];
    int found = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        found |= strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return found;
}

int
main(void)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    is_int(0, party_run(&p, 2, mistakes, NULL, 60), "what is no name is refused");
    is_int(0, party_run(&p, RANKS, fails, NULL, 60), "errors begin with the name");
    is_int(0, party_run(&p, 2, differ, "gradients", 60), "an error has the names of both calls");
    is_int(0, party_run(&p, 2, differ, "two\nlines", 60), "a name that is refused leaves none");
    ok(is_in(p.log, "colour 0 \"caf\xc3\xa9\": failed: rank 1 ("), "the server's line has it, too");
    is_int(0, party_run(&p, RANKS, changes, NULL, 60), "a name may change beside operations");
    setenv("HOOP_NAME", "w\xc3\xb6rld", 1);
    is_int(0, party_run(&p, RANKS, starts_named, NULL, 60), "the setting names a communicator at its creation");
    unsetenv("HOOP_NAME");
    ok(is_in(p.log, " \"w\xc3\xb6rld\": "), "the server knows that name");
    party_close(&p);
    return tap_failures() != 0;
}
