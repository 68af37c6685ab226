/* SPDX-License-Identifier: MIT */
/* diag: see diag.h. A message about a host has the command that was tried and the one to try by hand. */
#include "launch/diag.h"

#include "base/text.h"
#include "launch/xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

void
hp_diag(hp_output *output, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = hp_xvasprintf(format, ap);
    va_end(ap);
    hp_text_tame(text, strlen(text), '\n'); /* it may quote hosts and ranks */
    char *line = hp_xasprintf("hooprun: %s", text);
    hp_output_say(output, line);
    free(line);
    free(text);
}

void
hp_diag_quote(hp_output *output, const char *host, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\r\n");
        char *line = hp_xasprintf("%s| %.*s", host, (int)n, text);
        hp_text_tame(line, strlen(line), '\t');
        if (n > 0)
            hp_output_say(output, line);
        free(line);
        text += n + strspn(text + n, "\r\n");
    }
}

/* The command with `true` in place of the agent's two words; free() it. */
static char *
by_hand(const hp_strings *call)
{
    char *words = hp_strings_join(call->item, call->count - 2), *line = hp_xasprintf("%s true", words);
    free(words);
    return line;
}

void
hp_diag_agent_ended(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call, int running)
{
    const char *command = conn->command, *broken = conn->protocol_error;
    int status = conn->wait_status, killed = WIFSIGNALED(status);
    char *hand = by_hand(call);
    char how[64];
    snprintf(how, sizeof(how), killed ? "was killed by signal %d" : "ended with status %d",
             killed ? WTERMSIG(status) : WEXITSTATUS(status));
    if (broken[0] != '\0')
        hp_diag(output, "%s: %s; is it the same version of hoop?", host, broken);
    else if (hp_agent_conn_lacks_agent(conn))
        hp_diag(output, "%s: hoop-launch not found (`%s` %s); install hoop there, or name its folder with --prefix DIR",
                host, command, how);
    else if (running >= 0)
        hp_diag(output, "%s is lost: `%s` %s; stopping %d ranks", host, command, how, running);
    else
        hp_diag(output, "cannot start on %s: `%s` %s; to find the cause, run `%s` yourself", host, command, how, hand);
    hp_diag_quote(output, host, conn->banner);
    hp_diag_quote(output, host, conn->stderr_text);
    free(hand);
}

void
hp_diag_agent_silent(hp_output *output, const char *host, const hp_agent_conn *conn, const hp_strings *call,
                     double seconds)
{
    char *hand = by_hand(call);
    hp_diag(output, "%s has not answered within %g s: `%s`; to find the cause, run `%s` yourself", host, seconds,
            conn->command, hand);
    hp_diag_quote(output, host, conn->banner);
    hp_diag_quote(output, host, conn->stderr_text);
    free(hand);
}
