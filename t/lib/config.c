/* SPDX-License-Identifier: MIT */
/*
 * Settings: every row of config.def, how values are read, which source outranks which, the message about a wrong one,
 * and what the ranks agree on. Each case makes its own environment and files.
 */
#include "lib/config.h"

#include "base/err.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static char conf_path[300];
static int warnings;
static char warning[512];

static void
keep_line(void *arg, int level, const char *line)
{
    warnings++;
    snprintf(warning, sizeof(warning), "%s", line);
}

/* An environment without a HOOP_ name, and no files but the test's own. */
static void
clean(void)
{
    static char home[300];
    char *names[200];
    int n = 0;
    for (char **e = environ; *e && n < 200; e++)
        if (strncmp(*e, "HOOP_", 5) == 0)
            names[n++] = strndup(*e, strcspn(*e, "="));
    while (n-- > 0) {
        unsetenv(names[n]);
        free(names[n]);
    }
    snprintf(home, sizeof(home), "%s/home", tap_tmpdir());
    mkdir(home, 0700);
    setenv("HOME", home, 1);
    snprintf(conf_path, sizeof(conf_path), "%s/test.conf", tap_tmpdir());
    unlink(conf_path);
}

static void
write_conf(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        bail("cannot write %s", path);
}

static hoop_config
resolved(const hoop_config *calls)
{
    hoop_config config;
    hoop_error error;
    if (!ok(hp_config_resolve(&config, calls, &error) == HOOP_SUCCESS, "it resolves"))
        diag("%s", error.text);
    return config;
}

static void
fails(const char *words, const char *what)
{
    hoop_config config;
    hoop_error error;
    hp_err_clear(&error);
    ok(hp_config_resolve(&config, NULL, &error) == HOOP_ERR_INVALID_ARGUMENT && strstr(error.text, words), "%s: %s",
       what, error.text);
}

/* --- rows --- */

/* The rules of hoop_comm_set_name hold wherever a name comes from. */
static void
test_name(void)
{
    hoop_config *config = hoop_config_new();
    char name[65] = "";
    memset(name, 'n', 64);
    is_string("", hp_config_text(config, HP_SET_name), "a communicator has no name");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "name", name), "64 bytes are too long for one");
    is_int(HOOP_SUCCESS, hoop_config_set(config, "name", name + 1), "63 are not");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "name", "two\nlines"), "a newline");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "name", "\xff"), "what is not UTF-8");
    is_string(name + 1, hp_config_text(config, HP_SET_name), "what is refused changes nothing");
    is_int(HOOP_SUCCESS, hoop_config_set(config, "name", "caf\xc3\xa9"), "UTF-8");
    hoop_config_free(config);
    setenv("HOOP_NAME", "a\tb", 1);
    fails("HOOP_NAME: it has a control character", "a tab in the environment");
    unsetenv("HOOP_NAME");
}

static void
test_rows(void)
{
    hoop_config *config = hoop_config_new();
    int defaults = 1, bounds = 1, texts = 1;
    for (int i = 0; i < HP_SETTINGS; i++) {
        const hp_setting_row *row = &hp_setting_table[i];
        int number = row->type == HP_TYPE_NUMBER || row->type == HP_TYPE_BYTES;
        hoop_error error;
        char beyond[40];
        defaults &= config->value[i].source == HP_FROM_DEFAULT;
        if (number) {
            int64_t value = hp_config_number(config, (hp_setting)i);
            defaults &= value >= row->least && value <= row->most && row->least <= row->most;
            snprintf(beyond, sizeof(beyond), "%lld", (long long)row->most + 1);
            bounds &= hp_config_put(config, row->key, beyond, HP_FROM_CALL, &error) == HOOP_ERR_INVALID_ARGUMENT;
            snprintf(beyond, sizeof(beyond), "%lld", (long long)row->least - 1);
            bounds &= hp_config_put(config, row->key, beyond, HP_FROM_CALL, &error) == HOOP_ERR_INVALID_ARGUMENT;
            snprintf(beyond, sizeof(beyond), "%lld", (long long)row->most);
            bounds &= hp_config_put(config, row->key, beyond, HP_FROM_CALL, &error) == HOOP_SUCCESS;
        } else {
            defaults &= strcmp(hp_config_text(config, (hp_setting)i), row->value) == 0;
        }
        texts &= row->text[0] && row->text[strlen(row->text) - 1] == '.';
        if (row->type == HP_TYPE_CHOICE)
            defaults &= hp_config_number(config, (hp_setting)i) >= 0;
    }
    ok(defaults, "every default is a value its row allows");
    ok(bounds, "every number is held to its row's limits");
    ok(texts, "every row has its sentence for the manual");
    hoop_config_free(config);
    hoop_config_free(NULL);
}

/* --- values --- */

static int64_t
number_of(const char *key, const char *text)
{
    hoop_config *config = hoop_config_new();
    hoop_error error;
    int64_t value = INT64_MIN;
    hp_setting setting = strcmp(key, "rank") == 0 ? HP_SET_rank : HP_SET_slice_bytes;
    if (hp_config_put(config, key, text, HP_FROM_CALL, &error) == HOOP_SUCCESS)
        value = hp_config_number(config, setting);
    hoop_config_free(config);
    return value;
}

static void
test_numbers(void)
{
    static const char *const bad[] = {"",     "x",        "12x",
                                      "0x10", "1e3",      "4 096",
                                      "8kk",  "4096.5",   "99999999999999999999",
                                      "-1",   "1048577k", "9223372036854775807g"};
    is_int(65536, number_of("slice_bytes", "65536"), "65536");
    is_int(65536, number_of("slice_bytes", "64k"), "64k");
    is_int(65536, number_of("slice_bytes", "64K"), "64K");
    is_int(65536, number_of("slice_bytes", "64kB"), "64kB");
    is_int(1 << 20, number_of("slice_bytes", "1m"), "1m");
    is_int(16 << 20, number_of("SLICE_BYTES", "16MB"), "a key in capitals");
    is_int(-1, number_of("rank", "-1"), "a negative number where it is allowed");
    is_int(INT64_MIN, number_of("rank", "1k"), "no suffix on what is no size");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        is_int(INT64_MIN, number_of("slice_bytes", bad[i]), "\"%s\" is refused", bad[i]);
}

static void
test_choices(void)
{
    hoop_config *config = hoop_config_new();
    hoop_error error;
    is_int(0, hp_config_number(config, HP_SET_security), "auth is the default");
    is_int(HOOP_SUCCESS, hp_config_put(config, "security", "NONE", HP_FROM_CALL, &error), "a word in any case");
    is_int(1, hp_config_number(config, HP_SET_security), "the second word");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_config_put(config, "security", "non", HP_FROM_CALL, &error), "part of a word");
    is_string("security=non: give one of auth|none", error.text, "is told what there is");
    is_int(1, hp_config_number(config, HP_SET_security), "and leaves the setting as it was");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_config_put(config, "security", "auth|none", HP_FROM_CALL, &error),
           "both words");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hp_config_put(config, "security", "", HP_FROM_CALL, &error), "no word");
    hoop_config_free(config);
}

static void
test_public_face(void)
{
    hoop_config *config = hoop_config_new();
    char longest[300];
    is_int(HOOP_SUCCESS, hoop_config_set(config, "job", "my job"), "hoop_config_set");
    is_string("my job", hp_config_text(config, HP_SET_job), "keeps the text");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "jobb", "x"), "an unknown key");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "local_rank", "0"), "a reserved key");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, NULL, "x"), "NULL for a key");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "job", NULL), "NULL for a value");
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(NULL, "job", "x"), "NULL for a config");
    memset(longest, 'x', sizeof(longest));
    longest[256] = 0;
    is_int(HOOP_ERR_INVALID_ARGUMENT, hoop_config_set(config, "job", longest), "256 characters are too long");
    longest[255] = 0;
    is_int(HOOP_SUCCESS, hoop_config_set(config, "job", longest), "255 are not");
    hoop_config_free(config);
}

/* --- sources --- */

static void
is_peer_timeout(int64_t wanted, const hoop_config *calls, const char *what)
{
    hoop_config config = resolved(calls);
    is_int(wanted, hp_config_number(&config, HP_SET_peer_timeout_ms), "%s", what);
    if (!calls)
        is_int(wanted, hp_config_glance_number(HP_SET_peer_timeout_ms), "... and who is no rank sees it, too");
}

/* How long a host may be away: as the user says, who may also have said only how long an operation may hang. */
static void
test_peer_timeout(void)
{
    hoop_config *calls = hoop_config_new();
    clean();
    is_peer_timeout(30000, NULL, "peer_timeout_ms is 30 s");
    hoop_config_set(calls, "op_timeout_ms", "90000");
    is_peer_timeout(30000, calls, "also where a program, such as PyTorch, has a limit of its own for operations");
    setenv("HOOP_OP_TIMEOUT_MS", "120000", 1);
    is_peer_timeout(30000, calls, "... and overrules the user's");
    is_peer_timeout(120000, NULL, "if the user has set op_timeout_ms alone, it is that");
    setenv("HOOP_OP_TIMEOUT_MS", "500", 1);
    is_peer_timeout(1000, NULL, "but a second at least");
    setenv("HOOP_OP_TIMEOUT_MS", "0", 1);
    is_peer_timeout(30000, NULL, "operations without a limit do not wait for ever for a host that is lost");
    unsetenv("HOOP_OP_TIMEOUT_MS");
    write_conf(conf_path, "op_timeout_ms = 7000\n");
    setenv("HOOP_CONF_FILE", conf_path, 1);
    is_peer_timeout(7000, NULL, "a settings file is the user's word, too");
    setenv("HOOP_PEER_TIMEOUT_MS", "45000", 1);
    is_peer_timeout(45000, NULL, "what is set itself counts");
    hoop_config_set(calls, "peer_timeout_ms", "60000");
    is_peer_timeout(60000, calls, "from wherever");
    setenv("HOOP_PEER_TIMEOUT_MS", "999", 1);
    fails("HOOP_PEER_TIMEOUT_MS=999: give a whole number from 1000", "less than a second");
    hoop_config_free(calls);
}

static void
test_precedence(void)
{
    hoop_config *calls = hoop_config_new();
    hoop_config config;
    clean();
    write_conf(conf_path, "window = 20\nslices=7\n# a comment\n\n  HOOP_channels =  3   # another\n");
    setenv("HOOP_CONF_FILE", conf_path, 1);
    setenv("HOOP_WINDOW", "30", 1);
    setenv("HOOP_STRIPES", "2", 1);
    hoop_config_set(calls, "stripes", "5");
    config = resolved(calls);
    is_int(3, hp_config_number(&config, HP_SET_channels), "a file beats the default");
    is_int(7, hp_config_number(&config, HP_SET_slices), "in any spelling");
    is_int(30, hp_config_number(&config, HP_SET_window), "the environment beats the file");
    is_int(5, hp_config_number(&config, HP_SET_stripes), "the program beats the environment");
    ok(config.value[HP_SET_channels].source == HP_FROM_FILE && config.value[HP_SET_job].source == HP_FROM_DEFAULT,
       "and the source of each value is known");
    char text[200];
    hp_config_describe(&config, text, sizeof(text));
    is_string("channels=3 (file), stripes=5 (call), slices=7 (file), window=30 (environment)", text,
              "which can be told");
    hp_config_describe(&config, text, 20);
    is_string("channels=3 (file), ", text, "also where there is little room");
    hoop_config_free(calls);
}

static void
test_files(void)
{
    char path[400];
    clean();
    resolved(NULL);
    snprintf(path, sizeof(path), "%s/.hoop.conf", getenv("HOME"));
    write_conf(path, "window=11\n");
    hoop_config config = resolved(NULL);
    is_int(11, hp_config_number(&config, HP_SET_window), "~/.hoop.conf is read");
    setenv("HOME", "/dev/null", 1);
    config = resolved(NULL);
    is_int(0, hp_config_number(&config, HP_SET_window), "a home that is no folder has none");
    setenv("HOOP_CONF_FILE", "", 1);
    config = resolved(NULL);
    is_int(0, hp_config_number(&config, HP_SET_window), "an empty HOOP_CONF_FILE reads none");
    unlink(path);
    setenv("HOOP_CONF_FILE", conf_path, 1);
    fails("cannot read the settings file", "a file that was named must be there");
    setenv("HOOP_CONF_FILE", "/", 1);
    fails("Is a directory", "and no folder");
    snprintf(path, sizeof(path), "%s.pipe", conf_path);
    setenv("HOOP_CONF_FILE", path, 1);
    ok(mkfifo(path, 0600) == 0, "a pipe");
    fails("test.conf.pipe is no ordinary file", "is not waited for");
    setenv("HOOP_CONF_FILE", "/dev/zero", 1);
    fails("/dev/zero:1: the line has a null character", "nor is a device read for ever");
    setenv("HOOP_CONF_FILE", "/dev/null", 1);
    config = resolved(NULL);
    is_int(0, hp_config_number(&config, HP_SET_window), "but one may be empty");
    setenv("HOOP_CONF_FILE", conf_path, 1);
    write_conf(conf_path, "window=11\n\nwindo=12\n");
    fails("test.conf:3: windo: no such setting; the nearest is window; hoop_env(7) lists them",
          "an unknown key has its line");
    write_conf(conf_path, "window=11\nlocal_rank=0\n");
    fails("test.conf:2: local_rank: a reserved name, not a setting", "a reserved name is told as that");
    write_conf(conf_path, "HOOP_LOCAL_SIZE=2\n");
    fails("test.conf:1: LOCAL_SIZE: a reserved name, not a setting", "as in the environment, too");
    write_conf(conf_path, "just words\n");
    fails("test.conf:1: \"just words\" is not KEY=value", "a line without =");
    write_conf(conf_path, "window=1000\n");
    fails("whole number from 0 to 64", "a value out of range says the range");
    write_conf(conf_path, "job = a=b\nwindow=12");
    config = resolved(NULL);
    is_string("a=b", hp_config_text(&config, HP_SET_job), "an = within the value; no newline at the end");
    is_int(12, hp_config_number(&config, HP_SET_window), "is fine");
}

static void
test_lines(void)
{
    char text[1200];
    clean();
    setenv("HOOP_CONF_FILE", conf_path, 1);
    write_conf(conf_path, "#job=a\njob=a#b # c #d\nwindow=12\t# blanks\n");
    hoop_config config = resolved(NULL);
    is_string("a#b", hp_config_text(&config, HP_SET_job), "a # within a word is part of it");
    is_int(12, hp_config_number(&config, HP_SET_window), "a # behind a blank begins a comment");
    snprintf(text, sizeof(text), "window=12\n#%1021s\nslices=7\n", "x");
    write_conf(conf_path, text);
    config = resolved(NULL);
    is_int(7, hp_config_number(&config, HP_SET_slices), "a line of 1022 characters is read");
    snprintf(text, sizeof(text), "window=12\n#%1022s\n", "window=13");
    write_conf(conf_path, text);
    fails("test.conf:2: the line is longer than 1022 characters", "a longer one is refused, comments too");
    write_conf(conf_path, "window=12\n");
    FILE *f = fopen(conf_path, "a");
    ok(f &&
           fwrite("slices=4\0"
                  "0",
                  1, 10, f) == 10 &&
           fclose(f) == 0,
       "a null within a value");
    fails("test.conf:2: the line has a null character", "does not end it");
}

/* Settings that are each in their range, and too small for a ring. */
static void
test_fits(void)
{
    static const struct {
        const char *slices, *window, *slice, *stage, *text;
    } cases[] = {
        {"0", "0", "0", "0", NULL},
        {"4", "5", "4096", "4k", NULL},
        {"0", "1", "0", "0", "window=1 is too small: use at least 2"},
        {"4", "4", "0", "0", "window=4 is too small for slices=4"},
        {"0", "0", "4095", "0", "slice_bytes=4095 is too small: use at least 4096, or 0"},
        {"0", "0", "0", "1", "stage_bytes=1 is too small: use at least 4096, or 0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hoop_error error;
        hoop_config *config = hoop_config_new();
        hp_err_clear(&error);
        hoop_config_set(config, "slices", cases[i].slices);
        hoop_config_set(config, "window", cases[i].window);
        hoop_config_set(config, "slice_bytes", cases[i].slice);
        hoop_config_set(config, "stage_bytes", cases[i].stage);
        hoop_result result = hp_config_fits(config, &error);
        ok(cases[i].text ? result == HOOP_ERR_INVALID_ARGUMENT && strstr(error.text, cases[i].text) : result == 0,
           "slices %s, window %s, slice_bytes %s, stage_bytes %s: %s", cases[i].slices, cases[i].window, cases[i].slice,
           cases[i].stage, error.text);
        hoop_config_free(config);
    }
}

static void
test_environment(void)
{
    clean();
    setenv("HOOP_SLICES", "many", 1);
    fails("HOOP_SLICES=many: give a whole number from 0 to 32", "a wrong value in the environment");
    clean();
    hoop_log_to(keep_line, NULL);
    setenv("HOOP_SLICE", "4", 1);
    setenv("HOOP_CUDA_DEVICES", "1", 1);
    setenv("HOOP_HOSTFILES", "x", 1);
    setenv("HOOP_HOSTFILE", "x", 1);
    setenv("HOOP_TEST_ANYTHING", "x", 1);
    setenv("HOOP_TRACE", "x", 1);
    setenv("HOOP_LIBRARY", "x", 1);
    setenv("HOOP_TORCH_REPLACE", "x", 1);
    setenv("HOOP_TORCHES", "x", 1);
    setenv("HOOP_ZZYZX", "x", 1);
    setenv("HOOP_RANK", "1", 1);
    resolved(NULL);
    is_int(0, warnings, "another rank than the first says nothing of unknown names");
    setenv("HOOP_RANK", "0", 1);
    setenv("HOOP_LOCAL_RANK", "0", 1);
    setenv("HOOP_LOCAL_SIZE", "-5", 1);
    resolved(NULL);
    is_int(1, warnings, "one warning about unknown names");
    ok(!strstr(warning, "LOCAL"), "and none about the names that hooprun sets for programs");
    ok(strstr(warning, " HOOP_SLICE") && !strstr(warning, " HOOP_HOSTFILE ") && !strstr(warning, "TEST_"),
       "that names the unknown one and not the programs' own: %s", warning);
    ok(!strstr(warning, " HOOP_TRACE") && !strstr(warning, " HOOP_LIBRARY") && !strstr(warning, "TORCH_") &&
           strstr(warning, " HOOP_TORCHES"),
       "nor those that are reserved");
    ok(strstr(warning, " HOOP_CUDA_DEVICES") && strstr(warning, " HOOP_HOSTFILES"),
       "and those that only begin like a known one");
    ok(strstr(warning, " HOOP_SLICE (the nearest is HOOP_SLICES)") &&
           strstr(warning, " HOOP_HOSTFILES (the nearest is HOOP_HOSTFILE)"),
       "with the nearest known name");
    ok(strstr(warning, " HOOP_ZZYZX") && !strstr(warning, " HOOP_ZZYZX ("), "where one is near");
    resolved(NULL);
    is_int(1, warnings, "once a process");
    hoop_log_to(NULL, NULL);
    clean();
}

/* --- what ranks agree on --- */

static void
test_agreement(void)
{
    hoop_config *a = hoop_config_new(), *b = hoop_config_new();
    char one[HP_AGREE_TEXT], other[HP_AGREE_TEXT];
    int lines = 0, rows = 0;
    hoop_config_set(a, "slice_bytes", "64k");
    hoop_config_set(b, "slice_bytes", "65536");
    hoop_config_set(a, "security", "NONE");
    hoop_config_set(b, "security", "none");
    hoop_config_set(b, "rank", "3");
    hp_config_agreement(a, one);
    hp_config_agreement(b, other);
    is_string(one, other, "64k agrees with 65536, NONE with none; ranks need not agree on their rank");
    for (const char *c = one; *c; c++)
        lines += *c == '\n';
    for (int i = 0; i < HP_SETTINGS; i++)
        rows += hp_setting_table[i].agree;
    is_int(1 + rows, lines, "one line for the release, and one for each setting to agree on");
    ok(strncmp(one, "hoop=" PACKAGE_VERSION "\n", sizeof("hoop=" PACKAGE_VERSION)) == 0, "the release is first: %s",
       one);
    hoop_config_set(b, "window", "9");
    hp_config_agreement(b, other);
    ok(strcmp(one, other) != 0 && strstr(other, "window=9\n"), "another window does not agree");
    hoop_config_free(a);
    hoop_config_free(b);
}

/* As a set-user-ID copy of this test: 0 where the file that its caller named was not read. */
static int
be_privileged(void)
{
    hoop_config config;
    hoop_error error;
    return hp_config_resolve(&config, NULL, &error) == HOOP_SUCCESS ? 0 : 1;
}

static void
copy_self(const char *path)
{
    static char bytes[1 << 16];
    FILE *from = fopen("/proc/self/exe", "re"), *to = fopen(path, "we");
    size_t n;
    while (from && to && (n = fread(bytes, 1, sizeof(bytes), from)) > 0)
        if (fwrite(bytes, 1, n, to) != n)
            bail("cannot copy this test");
    if (!from || !to || fclose(from) != 0 || fclose(to) != 0)
        bail("cannot copy this test");
}

static int sanitized; /* asked before clean(), which takes the variable away */

static void
test_privilege(void)
{
    char path[400], command[500];
    if (getuid() != 0 || sanitized) {
        skip(2, "run it as root and without a sanitizer: it makes a set-user-ID program of another user");
        return;
    }
    snprintf(path, sizeof(path), "%s/privileged", tap_tmpdir());
    copy_self(path);
    if (chmod(tap_tmpdir(), 0755) != 0 || chown(path, 65534, 65534) != 0 || chmod(path, 04755) != 0)
        bail("cannot make %s", path);
    write_conf(conf_path, "a line of a file that is none of the caller's business\n");
    setenv("HOOP_CONF_FILE", conf_path, 1);
    snprintf(command, sizeof(command), "'%s' privileged", path);
    hoop_config config;
    hoop_error error;
    ok(hp_config_resolve(&config, NULL, &error) != HOOP_SUCCESS && strstr(error.text, "a line of a file"), "%s",
       error.text);
    int status = system(command);
    if (status == 77 << 8)
        skip(1, "set-user-ID programs have no effect in this file system: set TMPDIR to one without nosuid");
    else
        is_int(0, status, "a program with more rights than its caller reads no file that the caller names");
    unsetenv("HOOP_CONF_FILE");
    unlink(path);
}

int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "privileged") == 0)
        return getuid() == geteuid() ? 77 : be_privileged();
    sanitized = tap_sanitized();
    plan_lazy();
    tap_limit(240);
    clean();
    test_rows();
    test_name();
    test_numbers();
    test_choices();
    test_public_face();
    test_peer_timeout();
    test_precedence();
    test_files();
    test_lines();
    test_fits();
    test_environment();
    test_agreement();
    test_privilege();
    return tap_failures() != 0;
}
