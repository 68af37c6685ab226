/* SPDX-License-Identifier: MIT */
/*
 * config: one table of settings (config.def). Precedence: hoop_config_set, then the environment, then hoop.conf(5),
 * then the default; what a
 * launcher says fills in what these leave open. The rest of the library asks here; lower folders get small option structs.
 */
#ifndef HP_CONFIG_H
#define HP_CONFIG_H

#include "hoop.h"
#include "net/secret.h"

typedef enum hp_setting {
#define HP_SETTING(key, type, value, least, most, agree, text) HP_SET_##key,
#include "lib/config.def"
#undef HP_SETTING
    HP_SETTINGS
} hp_setting;

typedef enum hp_setting_type {
    HP_TYPE_NUMBER,
    HP_TYPE_BYTES,
    HP_TYPE_TEXT,
    HP_TYPE_NAME,
    HP_TYPE_CHOICE,
    HP_TYPE_SECRET
} hp_setting_type;

typedef struct hp_setting_row {
    const char *key;
    hp_setting_type type;
    const char *value; /* default */
    int64_t least, most;
    int agree;
    const char *text;
} hp_setting_row;

extern const hp_setting_row hp_setting_table[HP_SETTINGS];

typedef enum hp_source { HP_FROM_DEFAULT, HP_FROM_FILE, HP_FROM_ENVIRONMENT, HP_FROM_CALL, HP_FROM_LAUNCHER } hp_source;

enum { HP_VALUE_TEXT = 256, HP_AGREE_TEXT = 2048 };

typedef struct hp_value {
    hp_source source;
    int64_t number;           /* NUMBER, BYTES; CHOICE: index of the word */
    char text[HP_VALUE_TEXT]; /* SECRET: a note that it is set, never the secret */
} hp_value;

struct hoop_config {
    hp_value value[HP_SETTINGS];
    hp_secret *secret; /* NULL: none. Of hoop_config_set, in locked memory; hp_config_resolve borrows it */
};

/* Sets one value if `source` outranks the one it has. Errors name the key, the value and what is allowed. */
hoop_result hp_config_put(hoop_config *config, const char *key, const char *value, hp_source source, hoop_error *error);

/*
 * All sources together: defaults, files ($HOOP_CONF_FILE, or /etc/hoop.conf and ~/.hoop.conf), environment, and what
 * `calls` (may be NULL) set by hand; a secret stays its own. Unknown HOOP_ names in the environment are one WARN of the
 * first rank. peer_timeout_ms has the value in force afterwards: op_timeout_ms if only that was set by the user.
 */
hoop_result hp_config_resolve(hoop_config *config, const hoop_config *calls, hoop_error *error);

/* Whether slices that were set fit into a window that was, and slices and stages are long enough. */
hoop_result hp_config_fits(const hoop_config *config, hoop_error *error);

/* Whether a rank would take these n variables, "HOOP_SLICES=8". Of several with one name the last counts. */
hoop_result hp_config_check(char *const *variables, size_t n, hoop_error *error);

/*
 * For programs that are no ranks: one setting, by the environment, then the files. Other errors in them are ignored
 * here: the ranks report them.
 */
void hp_config_glance(hp_setting setting, char out[HP_VALUE_TEXT]);
int64_t
hp_config_glance_number(hp_setting setting); /* likewise, a NUMBER; peer_timeout_ms as hp_config_resolve has it */

int64_t hp_config_number(const hoop_config *config, hp_setting setting);
const char *hp_config_text(const hoop_config *config, hp_setting setting);

/* "key=value\n" of what all ranks must share, into out: the release first, as each may divide a call in its own way. */
void hp_config_agreement(const hoop_config *config, char out[HP_AGREE_TEXT]);

/* "window=8 (call), slices=4 (environment)": what differs from the default, for the INFO line. */
void hp_config_describe(const hoop_config *config, char *out, size_t size);

#endif
