/* SPDX-License-Identifier: MIT */
/* answer: see answer.h. */
#include "rendezvous/answer.h"

#include "rendezvous/table.h"

#include <string.h>

static void
add_line(void *arg, const char *line)
{
    if (hp_buffer_add(arg, line, strlen(line)) == 0)
        (void)!hp_buffer_add(arg, "\n", 1);
}

static int
add_json(void *arg, const char *bytes, size_t n)
{
    return hp_buffer_add(arg, bytes, n);
}

static int
is_meant(const hp_job *job, const uint8_t *job_id)
{
    return !job_id || memcmp(job->job_id, job_id, HP_JOB_ID_BYTES) == 0;
}

static void
add_list(hp_buffer *out, const hp_job *first, const uint8_t *job_id, uint64_t now)
{
    hp_json json;
    hp_json_begin(&json, add_json, out);
    hp_json_list(&json, NULL);
    for (const hp_job *job = first; job; job = job->next)
        if (is_meant(job, job_id))
            hp_table_json(job, &json, now);
    hp_json_close(&json);
    if (hp_json_end(&json) != 0)
        hp_buffer_free(out);
}

void
hp_answer_add(hp_buffer *out, const hp_job *first, const hp_answer_request *request, uint64_t now)
{
    const hp_table_options options = {.most = request->rows, .width = request->width, .line = add_line, .arg = out};
    if (request->rows == 0) {
        add_list(out, first, request->job_id, now);
        return;
    }
    for (const hp_job *job = first; job; job = job->next)
        if (is_meant(job, request->job_id))
            hp_table_print(job, &options, now);
}
