/* SPDX-License-Identifier: MIT */
/*
 * hoop-top: who waits for whom, in the jobs of this user whose server is on this machine; or, by their flight recorders, in
 * jobs that have ended, too.
 */
#include "base/number.h"
#include "base/option.h"
#include "hoop.h"
#include "top/flight.h"
#include "top/screen.h"
#include "top/servers.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_NONE = 1, EXIT_USAGE = 2, ALL_ROWS = 100000, FRAME = 11 /* lines of a job that are no rank's row */ };

static const char help[] =
    "Usage: hoop-top [options]\n"
    "       hoop-top [options] ADDRESS [--secret-file FILE] [--job NAME]\n"
    "       hoop-top --flight [--job NAME] [--json] [FILE|FOLDER ...]\n"
    "Shows which rank waits for which, in all jobs of this user whose server is on this machine:\n"
    "those of hooprun, of hoop-rendezvous, and of programs that have a server inside. At a terminal\n"
    "it shows them anew each second, until q; else once.\n"
    "  --once        show them once, and exit\n"
    "  --rows N      at most N ranks of a ring, those that tell most (all; at a terminal what fits,\n"
    "                and all when you move down)\n"
    "  --json        once, as JSON\n"
    "  --flight      by the flight recorders that ranks write, and leave behind when they crash: those of FILE,\n"
    "                of FOLDER, of the hoop-JOB.flight.json that hooprun has written; else this machine's\n"
    "  ADDRESS       HOST:PORT of a server elsewhere, which is asked about one job\n"
    "  --secret-file FILE  the secret of that server, or the key of that job (default: that of\n"
    "                HOOP_SECRET_FD or HOOP_SECRET_FILE, else ~/.config/hoop/secret)\n"
    "  --job NAME    with ADDRESS: the job (HOOP_JOB); with --flight: only the recorders of this job\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0; 1 if there is no job or no recorder, a file cannot be read, or the server at ADDRESS\n"
    "does not answer or has no ring of the job; 2 after a wrong option.\n";

typedef struct top_choice {
    int once, json, flight;
    const char *job, *secret_file, *address;
} top_choice;

static hp_top_remote remote; /* with an ADDRESS */
static int rows_wanted;      /* --rows; 0: it was not given */

/* Of a ring, where there is room for so many lines; 0: for any number. */
static int
rows_for(int lines)
{
    if (rows_wanted)
        return rows_wanted;
    return lines == 0 ? ALL_ROWS : lines > FRAME ? lines - FRAME : 1;
}

static int
print(hp_buffer *text, int servers)
{
    size_t n = hp_buffer_size(text);
    int written = n == 0 || fwrite(hp_buffer_first(text), 1, n, stdout) == n;
    hp_buffer_free(text);
    if (fflush(stdout) != 0 || !written || servers < 0) {
        perror("hoop-top: cannot write");
        return EXIT_NONE;
    }
    if (servers > 0)
        return EXIT_SUCCESS;
    fprintf(stderr,
            "hoop-top: no job of this user has its server on this machine; run it where hooprun runs, or rank 0\n");
    return EXIT_NONE;
}

static void
fill(hp_buffer *out, int lines, int columns)
{
    static const char none[] = "no job of this user has its server on this machine; q ends hoop-top\n";
    if (hp_top_jobs(out, rows_for(lines), columns) == 0)
        (void)!hp_buffer_add(out, none, sizeof(none) - 1);
}

static int
complain(const hoop_error *error)
{
    fprintf(stderr, "hoop-top: %s\n", error->text);
    return EXIT_NONE;
}

static void
fill_remote(hp_buffer *out, int lines, int columns)
{
    hoop_error error;
    if (hp_top_remote_ask(&remote, rows_for(lines), columns, out, &error) != HOOP_SUCCESS)
        (void)!hp_buffer_add(out, error.text, strlen(error.text));
}

static int
complain_of_no_ring(void)
{
    fprintf(stderr,
            "hoop-top: no rank of this job is in a ring of the server at %s now; another job is chosen with --job, "
            "HOOP_JOB, or the file of its key\n",
            remote.address);
    return EXIT_NONE;
}

static int
show_remote(const top_choice *c)
{
    hp_buffer text = {0};
    hoop_error error;
    if (hp_top_remote_ask(&remote, c->json ? 0 : rows_for(0), hp_top_screen_width(), &text, &error) != HOOP_SUCCESS)
        return complain(&error);
    if (!c->json && !c->once && isatty(STDOUT_FILENO) && hp_top_screen_show(fill_remote) == 0) {
        hp_buffer_free(&text);
        return EXIT_SUCCESS;
    }
    if (!remote.found && !c->json) {
        hp_buffer_free(&text);
        return complain_of_no_ring();
    }
    int status = print(&text, 1);
    return status == EXIT_SUCCESS && !remote.found ? complain_of_no_ring() : status;
}

static int
show(const top_choice *c)
{
    hp_buffer text = {0};
    if (!c->json && !c->once && isatty(STDOUT_FILENO) && hp_top_screen_show(fill) == 0)
        return EXIT_SUCCESS;
    int servers = hp_top_jobs(&text, c->json ? 0 : rows_for(0), hp_top_screen_width());
    return print(&text, servers);
}

static int
rows_of(const char *text)
{
    int rows;
    if (hp_number_parse_int(text, 1, ALL_ROWS, &rows))
        return rows;
    fprintf(stderr, "hoop-top: --rows takes a number of 1 to %d, not \"%s\"\n", ALL_ROWS, text);
    exit(EXIT_USAGE);
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {{"once", no_argument, NULL, 'o'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"flight", no_argument, NULL, 'f'},
                                            {"job", required_argument, NULL, 'J'},
                                            {"secret-file", required_argument, NULL, 's'},
                                            {"complete-options", no_argument, NULL, 'c'},
                                            {0}};
    static const hp_option_kind kinds[] = {{'s', "file", "FILE"}, {'c', "hidden", ""}, {0}};
    static const char letters[] = ":hV";
    top_choice c = {0};
    hoop_error error;
    char wrong[256];
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, letters, options, NULL)) != -1;)
        switch (option) {
        case 'o': c.once = 1; break;
        case 'j': c.json = 1; break;
        case 'f': c.flight = 1; break;
        case 'J': c.job = optarg; break;
        case 's': c.secret_file = optarg; break;
        case 'r': rows_wanted = rows_of(optarg); break;
        case 'h': return fputs(help, stdout) < 0;
        case 'c': hp_option_list(stdout, options, letters, kinds); return 0;
        case 'V': return printf("hoop-top (hoop) %s\n", hoop_version()) < 0;
        default:
            fprintf(stderr, "hoop-top: %s; see hoop-top --help\n",
                    hp_option_error(option, argv[optind - 1], optopt, options, wrong, sizeof(wrong)));
            return EXIT_USAGE;
        }
    if (c.flight)
        return hp_top_flight(argv + optind, c.job, c.json);
    if (optind < argc - 1) {
        fprintf(stderr, "hoop-top: one address at a time, so \"%s\" is too much; see hoop-top --help\n",
                argv[optind + 1]);
        return EXIT_USAGE;
    }
    c.address = argv[optind];
    if (c.address) {
        int opened = hp_top_remote_open(&remote, c.address, c.secret_file, c.job, &error) == HOOP_SUCCESS;
        int status = opened ? show_remote(&c) : complain(&error);
        hp_top_remote_close(&remote);
        return status;
    }
    if (c.job || c.secret_file) {
        fprintf(stderr,
                "hoop-top: --job and --secret-file go with an ADDRESS, or --job with --flight; see hoop-top --help\n");
        return EXIT_USAGE;
    }
    return show(&c);
}
