/* SPDX-License-Identifier: MIT */
/* job_table: see job_table.h. */
#include "launch/job_table.h"

#include "base/clock.h"
#include "launch/diag.h"
#include "launch/terminal.h"

#include <unistd.h>

enum { PREFIX = 9 }; /* "hooprun: " */

typedef struct printer {
    hp_output *output;
    int left;
} printer;

static void
say(void *arg, const char *line)
{
    printer *p = arg;
    if (p->left-- > 0)
        hp_diag(p->output, "%s", line);
}

void
hp_job_table_print(const hp_job_server *server, hp_output *output, int most)
{
    printer p = {output, most};
    int width = hp_terminal_size(STDERR_FILENO).columns - PREFIX;
    const hp_table_options options = {
        .most = most, .lines = most, .width = width > 0 ? width : 0, .line = say, .arg = &p};
    if (server->server)
        hp_server_print(server->server, &options);
    if (p.left == most)
        hp_diag(output, "no rank is in a ring of hoop now");
}

int
hp_job_table_stalled(const hp_job_server *server)
{
    return server->server && hp_server_stalled(server->server) >= HP_SEC;
}
