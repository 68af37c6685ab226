/* SPDX-License-Identifier: MIT */
/*
 * config: see config.h. To add a setting, add a row to config.def; everything here is about rows, none about a setting.
 */
#include "lib/config.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/option.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_ROOM = 1024, /* of a settings file, with newline and zero */
    SIZE_LEAST = 4096
};

extern char **environ;

const hp_setting_row hp_setting_table[HP_SETTINGS] = {
#define HP_SETTING(key, type, value, least, most, agree, text) {#key, HP_TYPE_##type, value, least, most, agree, text},
#include "lib/config.def"
#undef HP_SETTING
};

enum { NAME_TEXT = 64 };

/*
 * HOOP_ names in the environment that are not settings of the library: its programs, bench/ and the tests use them, and
 * HOOP_TRACE, HOOP_LIBRARY and HOOP_TORCH_ are reserved for what is built on it. A name that ends in _ means all names
 * that begin with it.
 */
static const char *const other_names[] = {"LOCAL_RANK", "LOCAL_SIZE", "HOSTFILE", "CONF_FILE", "PREFIX",
                                          "BUILD",      "RSH",        "DIGITS",   "TEST_",     "FAKE_",
                                          "TRACE",      "LIBRARY",    "TORCH_",   NULL};

static int
find(const char *key)
{
    for (int i = 0; i < HP_SETTINGS; i++)
        if (strcasecmp(hp_setting_table[i].key, key) == 0)
            return i;
    return -1;
}

/* --- one value --- */

/* Index of `word` in "auth|none: ...", -1 if it is not there. */
static int64_t
parse_choice(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (int64_t index = 0;; index++) {
        size_t length = strcspn(words, "|:");
        if (length == n && strncasecmp(words, word, n) == 0)
            return index;
        if (words[length] != '|')
            return -1;
        words += length + 1;
    }
}

/* The rules of hoop_comm_set_name. */
static hoop_result
check_name(const hp_setting_row *row, const char *text, hoop_error *error)
{
    if (strlen(text) > (size_t)row->most)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s: it has more than %d bytes: shorten it", row->key,
                          (int)row->most);
    if (!hp_text_is_name(text, strlen(text)))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s: it has a control character, a newline for instance, or is not UTF-8", row->key);
    return HOOP_SUCCESS;
}

static hoop_result
parse(const hp_setting_row *row, const char *text, hp_value *value, hoop_error *error)
{
    if (strlen(text) >= sizeof(value->text))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s: the value is longer than %zu characters", row->key,
                          sizeof(value->text) - 1);
    if (row->type == HP_TYPE_NUMBER || row->type == HP_TYPE_BYTES) {
        int known = row->type == HP_TYPE_BYTES ? hp_number_parse_bytes(text, row->least, row->most, &value->number)
                                               : hp_number_parse(text, row->least, row->most, &value->number);
        if (!known)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s=%.64s: give a whole number from %lld to %lld%s",
                              row->key, text, (long long)row->least, (long long)row->most,
                              row->type == HP_TYPE_BYTES ? " (k, m, g allowed)" : "");
    } else if (row->type == HP_TYPE_CHOICE) {
        value->number = parse_choice(row->text, text);
        if (value->number < 0)
            return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s=%.64s: give one of %.*s", row->key, text,
                              (int)strcspn(row->text, ":"), row->text);
    } else if (row->type == HP_TYPE_NAME && check_name(row, text, error) != HOOP_SUCCESS) {
        return error->code;
    }
    snprintf(value->text, sizeof(value->text), "%s", text);
    for (char *c = value->text; row->type == HP_TYPE_CHOICE && *c; c++)
        *c = (char)tolower((unsigned char)*c); /* as the table spells it: ranks compare the words */
    return HOOP_SUCCESS;
}

/* A secret is read into memory of its own. Other users may read the environment and files of settings. */
static hoop_result
take_secret(hoop_config *config, const char *key, const char *text, hp_source source, hoop_error *error)
{
    hoop_error why;
    if (source != HP_FROM_CALL)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s: a secret is not read from here, where others can see it: put it into a file of mode "
                          "0600, and name that in HOOP_SECRET_FILE",
                          key);
    hp_secret *secret = hp_secmem_new(sizeof(*secret));
    if (!secret)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "%s: out of memory", key);
    if (hp_secret_parse(secret, text, strlen(text), &why) != HOOP_SUCCESS) {
        hp_secmem_free(secret);
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%s: give 64 hexadecimal digits, as hoop_secret_new makes them", key);
    }
    hp_secmem_free(config->secret);
    config->secret = secret;
    return HOOP_SUCCESS;
}

/* The name that may have been meant; NULL where too much of it would be guessed. */
static const char *
nearest(const char *name)
{
    const char *best = NULL;
    hp_nearest search = hp_nearest_of(name);
    for (int i = 0; i < HP_SETTINGS; i++)
        if (hp_nearest_try(&search, hp_setting_table[i].key))
            best = hp_setting_table[i].key;
    for (int i = 0; other_names[i]; i++) /* one that ends in _ is only the beginning of a name */
        if (other_names[i][strlen(other_names[i]) - 1] != '_' && hp_nearest_try(&search, other_names[i]))
            best = other_names[i];
    return best;
}

hoop_result
hp_config_put(hoop_config *config, const char *key, const char *text, hp_source source, hoop_error *error)
{
    int i = find(key);
    hp_value value = {.source = source};
    hoop_result result;
    /* no later setting may have these names either: launchers set variables that are called so */
    if (i < 0 && (strcasecmp(key, "local_rank") == 0 || strcasecmp(key, "local_size") == 0))
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "%.64s: a reserved name, not a setting; hoop counts the ranks of a host by itself", key);
    if (i < 0) {
        const char *meant = nearest(key);
        if (meant && find(meant) < 0) /* a variable of the environment only */
            meant = NULL;
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%.64s: no such setting%s%s; hoop_env(7) lists them", key,
                          meant ? "; the nearest is " : "", meant ? meant : "");
    }
    if (hp_setting_table[i].type == HP_TYPE_SECRET) {
        result = take_secret(config, hp_setting_table[i].key, text, source, error);
        text = "(a secret)";
    } else {
        result = HOOP_SUCCESS;
    }
    if (result == HOOP_SUCCESS)
        result = parse(&hp_setting_table[i], text, &value, error);
    if (result == HOOP_SUCCESS && source >= config->value[i].source)
        config->value[i] = value;
    return result;
}

/* --- sources --- */

static char *
trim(char *text)
{
    char *end;
    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

/* '#' begins a comment at the beginning of a line and behind a blank; within a word it is part of that. */
static void
cut_comment(char *line)
{
    for (char *at = strchr(line, '#'); at; at = strchr(at + 1, '#'))
        if (at == line || isspace((unsigned char)at[-1])) {
            *at = 0;
            return;
        }
}

static hoop_result
read_line(hoop_config *config, char *line, hoop_error *error)
{
    char *key, *value;
    cut_comment(line);
    key = trim(line);
    if (!*key)
        return HOOP_SUCCESS;
    value = strchr(key, '=');
    if (!value)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "\"%.64s\" is not KEY=value", key);
    *value++ = 0;
    key = trim(key);
    if (strncasecmp(key, "HOOP_", 5) == 0)
        key += 5;
    return hp_config_put(config, key, trim(value), HP_FROM_FILE, error);
}

/* NULL with errno: ESPIPE: it is a pipe, say, and nobody may ever write to that. */
static FILE *
open_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return NULL;
    if (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)) /* /dev/null is empty */
        return fopen(path, "re");
    errno = S_ISDIR(info.st_mode) ? EISDIR : ESPIPE;
    return NULL;
}

/* The last 0 in it is its end, also if it has others. */
static char *
next_line(char line[LINE_ROOM], FILE *file)
{
    memset(line, 1, LINE_ROOM);
    return fgets(line, LINE_ROOM, file);
}

static hoop_result
read_file(hoop_config *config, const char *path, int must_exist, hoop_error *error)
{
    FILE *file = open_file(path);
    char line[LINE_ROOM];
    hoop_result result = HOOP_SUCCESS;
    int reason = errno;
    /* one in a folder that this user may not enter is not there either */
    if (!file && !must_exist && access(path, F_OK) != 0)
        return HOOP_SUCCESS;
    if (!file && reason == ESPIPE)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "the settings file %.150s is no ordinary file", path);
    if (!file)
        return hp_err_sys(error, HOOP_ERR_INVALID_ARGUMENT, reason, "cannot read the settings file %.150s", path);
    for (int number = 1; result == HOOP_SUCCESS && next_line(line, file); number++) {
        hoop_error why;
        int marked = number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0; /* some editors mark UTF-8 so */
        if (memrchr(line, 0, sizeof(line)) != line + strlen(line))
            result = hp_err_set(&why, HOOP_ERR_INVALID_ARGUMENT, "the line has a null character: is this a text file?");
        else if (strlen(line) == LINE_ROOM - 1 && line[LINE_ROOM - 2] != '\n')
            result =
                hp_err_set(&why, HOOP_ERR_INVALID_ARGUMENT, "the line is longer than %d characters", LINE_ROOM - 2);
        else
            result = read_line(config, marked ? line + 3 : line, &why);
        if (result != HOOP_SUCCESS)
            hp_err_set(error, result, "%.100s:%d: %.140s", path, number, why.text);
    }
    if (result == HOOP_SUCCESS && ferror(file))
        result = hp_err_sys(error, HOOP_ERR_INVALID_ARGUMENT, errno, "cannot read the settings file %.150s", path);
    fclose(file);
    return result;
}

static hoop_result
read_files(hoop_config *config, hoop_error *error)
{
    /* a program with more rights than its caller must not show the caller lines of any file */
    const char *named = secure_getenv("HOOP_CONF_FILE"), *home = secure_getenv("HOME");
    char path[512];
    hoop_result result;
    if (named)
        return *named ? read_file(config, named, 1, error) : HOOP_SUCCESS;
    result = read_file(config, "/etc/hoop.conf", 0, error);
    if (result != HOOP_SUCCESS || !home)
        return result;
    snprintf(path, sizeof(path), "%s/.hoop.conf", home);
    return read_file(config, path, 0, error);
}

static int
is_other_name(const char *name)
{
    for (int i = 0; other_names[i]; i++) {
        size_t length = strlen(other_names[i]);
        int begins = other_names[i][length - 1] == '_';
        if (begins ? strncmp(name, other_names[i], length) == 0 : strcmp(name, other_names[i]) == 0)
            return 1;
    }
    return 0;
}

/* "HOOP_SLICES" for "slices". */
static const char *
in_environment(const char *key, char out[NAME_TEXT])
{
    size_t used = (size_t)snprintf(out, NAME_TEXT, "HOOP_");
    for (; *key && used + 1 < NAME_TEXT; key++)
        out[used++] = (char)toupper((unsigned char)*key);
    out[used] = 0;
    return out;
}

/* "HOOP_SLICES=8". name: what follows HOOP_ in a variable that is no setting; else "". */
static hoop_result
take_variable(hoop_config *config, const char *variable, char name[NAME_TEXT], hoop_error *error)
{
    const char *equals = strchr(variable, '=');
    hoop_error why;
    name[0] = '\0';
    if (strncmp(variable, "HOOP_", 5) != 0 || !equals || equals - variable - 5 >= NAME_TEXT)
        return HOOP_SUCCESS;
    snprintf(name, NAME_TEXT, "%.*s", (int)(equals - variable - 5), variable + 5);
    if (find(name) < 0)
        return HOOP_SUCCESS;
    hoop_result result = hp_config_put(config, name, equals + 1, HP_FROM_ENVIRONMENT, &why);
    if (result != HOOP_SUCCESS) /* it begins with the key */
        hp_err_set(error, result, "HOOP_%s%.180s", name, why.text + strlen(name));
    name[0] = '\0';
    return result;
}

static hoop_result
read_environment(hoop_config *config, hoop_error *error)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT; /* once for each process is enough */
    char unknown[400] = "", name[NAME_TEXT], upper[NAME_TEXT];
    for (char **entry = environ; entry && *entry; entry++) {
        hoop_result result = take_variable(config, *entry, name, error);
        if (result != HOOP_SUCCESS)
            return result;
        if (name[0] == '\0' || is_other_name(name))
            continue;
        /* " HOOP_SLICE (the nearest is HOOP_SLICES)"; where there is no room for it, its beginning */
        const char *meant = nearest(name);
        size_t used = strlen(unknown);
        snprintf(unknown + used, sizeof(unknown) - used, "%s HOOP_%s%s%s%s", used ? "," : "", name,
                 meant ? " (the nearest is " : "", meant ? in_environment(meant, upper) : "", meant ? ")" : "");
    }
    /* the ranks of a job have one environment, as a rule: the first rank warns for all */
    if (*unknown && hp_config_number(config, HP_SET_rank) <= 0 && !atomic_flag_test_and_set(&warned))
        hp_log(HP_LOG_WARN, "unknown HOOP_ variables in the environment:%s; hoop_env(7) lists the settings", unknown);
    return HOOP_SUCCESS;
}

static void
set_defaults(hoop_config *config)
{
    for (int i = 0; i < HP_SETTINGS; i++) {
        config->value[i].source = HP_FROM_DEFAULT;
        parse(&hp_setting_table[i], hp_setting_table[i].value, &config->value[i], NULL);
    }
}

/* A user who says how long an operation may hang has said how long a host may be away, unless that is set, too. */
static void
follow_op_timeout(hoop_config *config)
{
    const hp_value *op = &config->value[HP_SET_op_timeout_ms];
    hp_value *peer = &config->value[HP_SET_peer_timeout_ms];
    int by_user = op->source == HP_FROM_FILE || op->source == HP_FROM_ENVIRONMENT;
    if (peer->source != HP_FROM_DEFAULT || !by_user || op->number == 0)
        return;
    int64_t least = hp_setting_table[HP_SET_peer_timeout_ms].least;
    *peer = (hp_value){.source = op->source, .number = op->number < least ? least : op->number};
    snprintf(peer->text, sizeof(peer->text), "%lld", (long long)peer->number);
}

hoop_result
hp_config_resolve(hoop_config *config, const hoop_config *calls, hoop_error *error)
{
    hoop_result result;
    set_defaults(config);
    config->secret = calls ? calls->secret : NULL;
    for (int i = 0; calls && i < HP_SETTINGS; i++)
        if (calls->value[i].source == HP_FROM_CALL)
            config->value[i] = calls->value[i];
    result = read_files(config, error);
    if (result == HOOP_SUCCESS)
        result = read_environment(config, error);
    follow_op_timeout(config);
    return result;
}

static hoop_result
check_size(const hoop_config *config, hp_setting setting, hoop_error *error)
{
    int64_t bytes = hp_config_number(config, setting);
    if (bytes == 0 || bytes >= SIZE_LEAST)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT, "%s=%s is too small: use at least %d, or 0 for automatic",
                      hp_setting_table[setting].key, hp_config_text(config, setting), SIZE_LEAST);
}

hoop_result
hp_config_fits(const hoop_config *config, hoop_error *error)
{
    if (check_size(config, HP_SET_slice_bytes, error) != HOOP_SUCCESS ||
        check_size(config, HP_SET_stage_bytes, error) != HOOP_SUCCESS)
        return error->code;
    int64_t window = hp_config_number(config, HP_SET_window), slices = hp_config_number(config, HP_SET_slices);
    if (window == 1)
        return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                          "window=1 is too small: use at least 2, or 0 for automatic");
    if (window == 0 || window > slices)
        return HOOP_SUCCESS;
    return hp_err_set(error, HOOP_ERR_INVALID_ARGUMENT,
                      "window=%s is too small for slices=%s: a window below slices + 1 would deadlock the ring",
                      hp_config_text(config, HP_SET_window), hp_config_text(config, HP_SET_slices));
}

hoop_result
hp_config_check(char *const *variables, size_t n, hoop_error *error)
{
    hoop_config config = {.secret = NULL};
    char name[NAME_TEXT];
    hoop_result result = HOOP_SUCCESS;
    set_defaults(&config);
    for (size_t i = 0; i < n && result == HOOP_SUCCESS; i++) {
        size_t length = strcspn(variables[i], "=") + 1, later = i + 1;
        while (later < n && strncmp(variables[later], variables[i], length) != 0)
            later++;
        if (later == n)
            result = take_variable(&config, variables[i], name, error);
    }
    result = result ? result : hp_config_fits(&config, error);
    hp_secmem_free(config.secret);
    return result;
}

int64_t
hp_config_glance_number(hp_setting setting)
{
    hoop_config config = {.secret = NULL};
    char name[NAME_TEXT];
    hoop_error error;
    set_defaults(&config);
    read_files(&config, &error);
    for (int i = 0; i < HP_SETTINGS; i++) {
        const char *given = getenv(in_environment(hp_setting_table[i].key, name));
        if (given)
            hp_config_put(&config, hp_setting_table[i].key, given, HP_FROM_ENVIRONMENT, &error);
    }
    follow_op_timeout(&config);
    return hp_config_number(&config, setting);
}

void
hp_config_glance(hp_setting setting, char out[HP_VALUE_TEXT])
{
    char name[NAME_TEXT];
    const char *given = getenv(in_environment(hp_setting_table[setting].key, name));
    hoop_config config = {.secret = NULL};
    hoop_error error;
    set_defaults(&config);
    read_files(&config, &error);
    snprintf(out, HP_VALUE_TEXT, "%s", given ? given : config.value[setting].text);
}

/* --- answers --- */

int64_t
hp_config_number(const hoop_config *config, hp_setting setting)
{
    return config->value[setting].number;
}

const char *
hp_config_text(const hoop_config *config, hp_setting setting)
{
    return config->value[setting].text;
}

void
hp_config_agreement(const hoop_config *config, char out[HP_AGREE_TEXT])
{
    size_t used = (size_t)snprintf(out, HP_AGREE_TEXT, "hoop=%s\n", PACKAGE_VERSION);
    for (int i = 0; i < HP_SETTINGS; i++) {
        const hp_value *value = &config->value[i];
        if (hp_setting_table[i].agree && hp_setting_table[i].type == HP_TYPE_CHOICE)
            used += (size_t)snprintf(out + used, HP_AGREE_TEXT - used, "%s=%s\n", hp_setting_table[i].key, value->text);
        else if (hp_setting_table[i].agree)
            used += (size_t)snprintf(out + used, HP_AGREE_TEXT - used, "%s=%lld\n", hp_setting_table[i].key,
                                     (long long)value->number);
    }
}

void
hp_config_describe(const hoop_config *config, char *out, size_t size)
{
    static const char *const sources[] = {"default", "file", "environment", "call", "launcher"};
    size_t used = 0;
    snprintf(out, size, "all at their defaults");
    for (int i = 0; i < HP_SETTINGS && used < size; i++)
        if (config->value[i].source != HP_FROM_DEFAULT)
            used += (size_t)snprintf(out + used, size - used, "%s%s=%s (%s)", used ? ", " : "", hp_setting_table[i].key,
                                     config->value[i].text, sources[config->value[i].source]);
}

/* --- the public face --- */

hoop_config *
hoop_config_new(void)
{
    hoop_config *config = hp_alloc(1, sizeof(*config));
    if (config)
        set_defaults(config);
    return config;
}

void
hoop_config_free(hoop_config *config)
{
    if (config)
        hp_secmem_free(config->secret);
    free(config);
}
