/* SPDX-License-Identifier: MIT */
/*
 * standalone: main() of a fuzz target without libFuzzer. It runs the target over the files named, or over its corpus
 * (fuzz/corpus/<fuzz_name>/ below $abs_top_srcdir or the working folder), one TAP line for each file. Each input lies
 * in memory of exactly its size, so that a sanitizer sees the first byte read behind it.
 */
#include "fuzz/fuzz.h"
#include "t/tap/tap.h"

#include <dirent.h>
#include <string.h>

enum { INPUT_MAX = 1 << 20 };

static void
run_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (!file)
        bail("cannot open %s", path);
    size_t n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    uint8_t *exact = malloc(n > 0 ? n : 1);
    if (!exact)
        bail("out of memory");
    memcpy(exact, bytes, n);
    diag("%s", path);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    ok(1, "%s, %zu bytes", strrchr(path, '/') ? strrchr(path, '/') + 1 : path, n);
}

static int
visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void
run_corpus(void)
{
    char folder[2048], path[4096];
    struct dirent **files;
    const char *top = getenv("abs_top_srcdir");
    snprintf(folder, sizeof(folder), "%s/fuzz/corpus/%s", top ? top : ".", fuzz_name);
    int n = scandir(folder, &files, visible, alphasort);
    if (n <= 0)
        bail("no corpus in %s", folder);
    for (int k = 0; k < n; k++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[k]->d_name);
        run_file(path);
        free(files[k]);
    }
    free(files);
}

int
main(int argc, char **argv)
{
    tap_limit(120);
    plan_lazy();
    for (int k = 1; k < argc; k++)
        run_file(argv[k]);
    if (argc == 1)
        run_corpus();
    return 0;
}
