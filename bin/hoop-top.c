/* SPDX-License-Identifier: MIT */
/*
 * hoop-top: who waits for whom, in the jobs of this user whose server is on this machine; or, by their flight recorders
 * (hoop_flight(5)), in jobs that have ended, too. At a terminal the text fills it, and is drawn anew each second (ncurses).
 */
#include "base/err.h"
#include "base/number.h"
#include "base/option.h"
#include "flight/folder.h"
#include "flight/report.h"
#include "hoop.h"
#include "top/servers.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_NONE = 1, EXIT_USAGE = 2, ALL_ROWS = 100000, FRAME = 13 /* lines of a job that are no rank's row */ };

/* What was printed so far, at the end: 0, or 1 and a sentence. */
static int
end_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "hoop-top: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_NONE;
}

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

static int
wants_screen(const top_choice *c)
{
    return !c->json && !c->once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

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

/* --- the terminal --- */

/* Of the terminal that is standard output; 0: it is none. */
static int
screen_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

#ifdef HAVE_NCURSES
#include <curses.h>
#include <locale.h>
#include <wchar.h>

enum { REFRESH_MS = 1000 };

/* How many bytes of a line fit, in whole characters; ncurses would go on in the next line. */
static int
fitting(const char *line, int n)
{
    mbstate_t state = {0};
    wchar_t letter;
    int at = 0, columns = 0;
    while (at < n) {
        size_t bytes = mbrtowc(&letter, line + at, (size_t)(n - at), &state);
        int known = bytes > 0 && bytes <= (size_t)(n - at), width = known ? wcwidth(letter) : 1;
        columns += width < 0 ? 1 : width;
        if (columns > COLS)
            break;
        at += known ? (int)bytes : 1;
        if (!known)
            state = (mbstate_t){0};
    }
    return at;
}

/* Draws from line `first` on, as much as there is room for. Returns the number of lines. */
static int
draw(const hp_buffer *text, int first)
{
    const char *at = (const char *)hp_buffer_first(text), *end = at ? at + hp_buffer_size(text) : NULL;
    int line = 0;
    erase();
    for (; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        int n = (int)((newline ? newline : end) - at);
        if (line >= first && line - first < LINES)
            mvaddnstr(line - first, 0, at, fitting(at, n));
        at = newline ? newline + 1 : end;
    }
    refresh();
    return line;
}

/* By how many lines a key moves the text up. */
static int
step_of(int key)
{
    return key == KEY_DOWN                  ? 1
           : key == KEY_UP                  ? -1
           : key == KEY_NPAGE || key == ' ' ? LINES
           : key == KEY_PPAGE               ? -LINES
                                            : 0;
}

/*
 * Shows what `fill` adds, whose arguments are the numbers of lines and columns, until q, Ctrl-C or TERM. The arrow keys
 * and space move through longer text. After a move down lines is 0, for all text, until a move up at the top. Returns 0,
 * or -1: the terminal is unknown (TERM), or this build lacks ncurses.
 */
static int
show_screen(void (*fill)(hp_buffer *out, int lines, int columns))
{
    int key = 0, first = 0, all = 0; /* first: the line at the top */
    setlocale(LC_CTYPE, "");         /* names may have any letters */
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return -1;
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(REFRESH_MS);
    while (key != 'q') {
        hp_buffer text = {0};
        all = step_of(key) > 0 || (all && (first > 0 || step_of(key) == 0));
        fill(&text, all ? 0 : LINES, COLS);
        int lines = draw(&text, first), last = lines > LINES ? lines - LINES : 0;
        first += step_of(key);
        first = first > last ? last : first < 0 ? 0 : first;
        draw(&text, first);
        hp_buffer_free(&text);
        key = getch();
        struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
        if (key != ERR || poll(&keys, 1, 0) <= 0)
            continue;
        timeout(0); /* a key may just have come; else its end has, or its terminal has gone */
        key = getch();
        timeout(REFRESH_MS);
        if (key == ERR)
            break;
    }
    endwin();
    delscreen(terminal);
    return 0;
}

#else

static int
show_screen(void (*fill)(hp_buffer *out, int lines, int columns))
{
    (void)fill;
    return -1;
}

#endif

/* --- flight recorders --- */

/* The recorders that are named. 0, or the exit status. */
static int
collect(hp_flight_collection *all, char **paths, const char *job)
{
    static const char json[] = ".json";
    hoop_result result = HOOP_SUCCESS;
    hoop_error error;
    struct stat st;
    for (; *paths && result == HOOP_SUCCESS; paths++) {
        const char *path = *paths;
        size_t n = strlen(path);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            result = hp_flight_add_folder(all, path, job, &error);
        else if (n >= sizeof(json) && strcmp(path + n - sizeof(json) + 1, json) == 0)
            result = hp_flight_add_archive(all, path, &error);
        else
            result = hp_flight_add_file(all, path, job, &error);
        if (result != HOOP_SUCCESS)
            fprintf(stderr, "hoop-top: %s: %s\n", path, error.text);
    }
    return result != HOOP_SUCCESS;
}

/* Without a name those in the folders of this user, of which one may be absent. */
static int
collect_once(hp_flight_collection *all, char **named, const char *job)
{
    char path[HP_FLIGHT_PATH];
    char *paths[] = {path, NULL};
    hoop_error error;
    int found = 0, status = 0;
    if (*named)
        return collect(all, named, job);
    for (int i = 0; status == 0 && i < HP_FLIGHT_FOLDERS; i++) {
        int fd = hp_flight_folder_open(i, path, &error);
        if (fd < 0)
            continue;
        close(fd);
        found++;
        status = collect(all, paths, job);
    }
    if (found > 0)
        return status;
    fprintf(stderr, "hoop-top: no flight recorders here: %s\n", error.text);
    return 1;
}

static int
tell(const hp_flight_collection *all, int json)
{
    hp_flight_rings rings;
    hp_flight_story story;
    int status = 0;
    if (!hp_flight_rings_make(&rings, all)) {
        fprintf(stderr, "hoop-top: out of memory\n");
        return 1;
    }
    hp_flight_tell(&rings, &story);
    if (!json)
        hp_flight_print(stdout, &story);
    else
        status = hp_flight_write_json(stdout, all, &story, HP_FLIGHT_DECODED) != 0;
    if (status || fflush(stdout) != 0) {
        fprintf(stderr, "hoop-top: cannot write: %s\n", strerror(errno));
        status = 1;
    }
    hp_flight_rings_free(&rings);
    return status;
}

/* Ranks that run are read twice, so that one is not called late because it was read a moment earlier. */
static int
collect_all(hp_flight_collection *all, char **paths, const char *job)
{
    static const struct timespec pause = {.tv_nsec = HP_FLIGHT_PAUSE};
    hp_flight_collection earlier = {0};
    int status = collect_once(&earlier, paths, job), may_run = 0;
    for (size_t i = 0; i < earlier.count; i++)
        may_run |= earlier.entry[i].state == HP_FLIGHT_RUNS || earlier.entry[i].state == HP_FLIGHT_UNKNOWN;
    if (status != 0 || !may_run) {
        *all = earlier;
        return status;
    }
    nanosleep(&pause, NULL);
    status = collect_once(all, paths, job);
    hp_flight_compare(all, &earlier);
    hp_flight_collection_free(&earlier);
    return status;
}

/* Where no recorder is, the newest file that hooprun has written, if there is one. */
static int
collect_newest(hp_flight_collection *all, char **paths, const char *job)
{
    static const char ending[] = ".flight.json";
    char newest[PATH_MAX] = "", wanted[NAME_MAX + 1], *found[] = {newest, NULL};
    struct timespec last = {0};
    struct stat st;
    const struct timespec *this = &st.st_mtim;
    snprintf(wanted, sizeof(wanted), "hoop-%s%s", job ? job : "", ending);
    for (; *paths; paths++) {
        const char *between = (*paths)[strlen(*paths) - 1] == '/' ? "" : "/";
        DIR *folder = opendir(*paths);
        for (struct dirent *file; folder && (file = readdir(folder));) {
            size_t n = strlen(file->d_name), end = sizeof(ending) - 1;
            int fits = job ? strcmp(file->d_name, wanted) == 0 : n > end && strcmp(file->d_name + n - end, ending) == 0;
            if (!fits || fstatat(dirfd(folder), file->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
                continue;
            int is_later = this->tv_sec != last.tv_sec ? this->tv_sec > last.tv_sec : this->tv_nsec > last.tv_nsec;
            if (newest[0] && !is_later)
                continue;
            last = *this;
            if (snprintf(newest, sizeof(newest), "%s%s%s", *paths, between, file->d_name) >= (int)sizeof(newest))
                newest[0] = '\0';
        }
        if (folder)
            closedir(folder);
    }
    if (!newest[0])
        return 0;
    fprintf(stderr, "hoop-top: there is no recorder, so it reads %s, which hooprun has written\n", newest);
    return collect(all, found, NULL);
}

/*
 * Prints what the recorders at these paths tell: files, folders, or files that hooprun has written; an empty list means
 * this user's recorders on this machine. If there is no recorder in the folders, the newest file that hooprun has written
 * there is told, and named. job: only those of this job; NULL: all. Returns the exit status: 1 also without a recorder.
 */
static int
show_flight(char **paths, const char *job, int json)
{
    hp_flight_collection all = {0};
    int status = collect_all(&all, paths, job);
    if (status == 0 && all.count == 0)
        status = collect_newest(&all, paths, job);
    if (status == 0 && (all.count > 0 || json))
        status = tell(&all, json);
    if (status == 0 && all.count == 0) {
        fprintf(stderr,
                "hoop-top: there is no recorder%s%s: a process that ends well removes its own, hooprun those of an "
                "earlier job when it starts the next one, and a job on other hosts leaves them there\n",
                job ? " of job " : "", job ? job : "");
        status = 1;
    }
    hp_flight_collection_free(&all);
    return status;
}

/* --- servers --- */

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
    if (hp_top_remote_ask(&remote, c->json ? 0 : rows_for(0), screen_width(), &text, &error) != HOOP_SUCCESS)
        return complain(&error);
    if (wants_screen(c) && show_screen(fill_remote) == 0) {
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
    if (wants_screen(c) && show_screen(fill) == 0)
        return EXIT_SUCCESS;
    int servers = hp_top_jobs(&text, c->json ? 0 : rows_for(0), screen_width());
    return print(&text, servers);
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
    signal(SIGXFSZ, SIG_IGN); /* a limit of file size (ulimit -f) is an error of the write */
    for (int option; (option = getopt_long_only(argc, argv, letters, options, NULL)) != -1;)
        switch (option) {
        case 'o': c.once = 1; break;
        case 'j': c.json = 1; break;
        case 'f': c.flight = 1; break;
        case 'J': c.job = optarg; break;
        case 's': c.secret_file = optarg; break;
        case 'r':
            if (hp_number_parse_int(optarg, 1, ALL_ROWS, &rows_wanted))
                break;
            fprintf(stderr, "hoop-top: --rows takes a number of 1 to %d, not \"%s\"\n", ALL_ROWS, optarg);
            return EXIT_USAGE;
        case 'h': fputs(help, stdout); return end_output();
        case 'c': hp_option_list(stdout, options, letters, kinds); return end_output();
        case 'V': printf("hoop-top (hoop) %s\n", hoop_version()); return end_output();
        default:
            fprintf(stderr, "hoop-top: %s; see hoop-top --help\n",
                    hp_option_error(option, argv[optind - 1], optopt, options, wrong, sizeof(wrong)));
            return EXIT_USAGE;
        }
    if (c.flight)
        return show_flight(argv + optind, c.job, c.json);
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
