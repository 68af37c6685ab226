/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend when the driver fails: for every k the k-th driver call of a scenario fails, once alone and once
 * with all calls after it. Each time: HOOP_ERR_CUDA, a sentence with the driver's name for the error and the name of
 * the call, no wait that never ends, no object left. Then kernels that fail, and drivers that are missing or too old.
 */
#include "base/mem.h"
#include "gpu/cuda_driver.h"
#include "t/gpu/cuda_test.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 100 };

static const hoop_fake_cuda *fake;

/* The scenario's first error. */
static hoop_error first;

static int
failed(hoop_result result, const hoop_error *error)
{
    if (result != HOOP_SUCCESS && first.code == HOOP_SUCCESS)
        first = *error;
    return result != HOOP_SUCCESS;
}

static hp_command
sum_command(void *slot, void *array, float *plain)
{
    return (hp_command){.elem = HOOP_FLOAT32,
                        .wire = HOOP_FLOAT32,
                        .op = HOOP_SUM,
                        .sources = 2,
                        .destinations = 2,
                        .src = {{slot, 0}, {array, 0}},
                        .dst = {{slot, 0}, {plain ? (void *)plain : array, 0}},
                        .count = COUNT};
}

/* Waits as the belt does: arms the wake, sleeps on the descriptor, looks now and then. */
static void
await(hp_queue *queue, uint64_t ticket)
{
    tap_wait w = {0};
    struct pollfd p = {.fd = queue->ops->wake_fd(queue), .events = POLLIN};
    queue->ops->wake_arm(queue);
    while (queue->ops->done(queue) < ticket && queue->ops->status(queue, NULL) == HOOP_SUCCESS) {
        if (!tap_waits(&w))
            bail("a command neither ended nor failed");
        poll(&p, 1, 10);
    }
}

/* The commands of an operation on a stream: after a mark, behind a gate. */
static void
use_queue(hp_device *device, hp_queue *queue, void *slot, void *array, void *stream)
{
    hoop_error error = {.size = sizeof(error)};
    float plain[COUNT] = {0};
    hp_command commands[] = {sum_command(slot, array, NULL), sum_command(slot, array, plain)};
    hp_mark *mark = NULL;
    hp_gate *gate = NULL;
    uint64_t ticket = 0;
    if (!failed(device->ops->mark(device, stream, &mark, &error), &error)) {
        failed(device->ops->gate_close(device, stream, &gate, &error), &error);
        while (!queue->ops->passed(queue, mark) && queue->ops->status(queue, NULL) == HOOP_SUCCESS)
            usleep(50);
        device->ops->unmark(mark);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t next = queue->ops->submit(queue, &commands[i]);
        ticket = next != 0 ? next : ticket;
    }
    await(queue, ticket);
    queue->ops->drain(queue);
    failed(queue->ops->status(queue, &error), &error);
    if (gate)
        device->ops->gate_open(gate);
    hp_cuda_stream_wait(device, stream, NULL);
}

static void
use_device(hp_device *device, void *pages)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = NULL;
    void *array = NULL, *stream = NULL;
    if (!failed(device->ops->pin(device, pages, 4096, &error), &error)) {
        if (!failed(hp_cuda_alloc(device, &array, 4096, &error), &error) &&
            !failed(hp_cuda_stream_open(device, &stream, &error), &error) &&
            !failed(device->ops->queue_open(device, &queue, &error), &error)) {
            use_queue(device, queue, pages, array, stream);
            queue->ops->queue_close(queue);
        }
        hp_cuda_stream_close(device, stream);
        hp_cuda_free(device, array);
        device->ops->unpin(device, pages);
    }
}

static void
scenario(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *device = NULL;
    void *pages = hp_pages(4096);
    memset(&first, 0, sizeof(first));
    if (!failed(hp_cuda_ops.open(&device, NULL, &error), &error)) {
        use_device(device, pages);
        device->ops->close(device);
    }
    hp_pages_free(pages, 4096);
}

static int
worded(void)
{
    return first.code == HOOP_ERR_CUDA && strstr(first.text, "CUDA_ERROR_ILLEGAL_ADDRESS") &&
           strstr(first.text, fake->failed());
}

/* Calls whose failure hoop may ignore: those that free, and those that only query. */
static int
may_be_silent(const char *call)
{
    static const char *const calls[] = {"cuMemFree",           "cuMemHostUnregister",
                                        "cuModuleUnload",      "cuStreamDestroy",
                                        "cuEventDestroy",      "cuDevicePrimaryCtxRelease",
                                        "cuCtxSetCurrent",     "cuCtxGetCurrent",
                                        "cuStreamSynchronize", "cuThreadExchangeStreamCaptureMode"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        if (strcmp(call, calls[i]) == 0)
            return 1;
    }
    return 0;
}

static void
test_every_call(int sticky)
{
    long told = 0, k, wrong = 0, left = 0;
    for (k = 1; k < 2000; k++) {
        long before = fake->live();
        fake->fail(k, sticky);
        scenario();
        const char *call = fake->failed();
        fake->fail(0, 0);
        fake->heal();
        if (!call)
            break;
        told += first.code != HOOP_SUCCESS;
        if (first.code != HOOP_SUCCESS ? !worded() : !may_be_silent(call)) {
            diag("call %ld, %s: %s", k, call, first.code != HOOP_SUCCESS ? first.text : "no error");
            wrong++;
        }
        if (fake->live() != before && left++ == 0)
            diag("call %ld, %s: %ld things are left", k, call, fake->live() - before);
    }
    ok(k > 100 && k < 2000, "the scenario makes %ld driver calls%s", k - 1,
       sticky ? ", and all fail after the k-th" : "");
    is_int(0, wrong, "every failure is HOOP_ERR_CUDA with the call's name and the error's");
    ok(told > k / 2, "%ld of them reach the caller; the others are failures to let go", told);
    is_int(0, left, "nothing is left behind");
    is_int(HOOP_SUCCESS, first.code, "with no failure there is no error");
}

static void
test_dead_kernel(void)
{
    fake->break_kernel();
    scenario();
    fake->heal();
    is_int(HOOP_ERR_CUDA, first.code, "a kernel that dies is found out while the caller sleeps");
    ok(strstr(first.text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", first.text);
    is_int(0, fake->live(), "nothing is left behind");
}

/* Runs this test in a child process with `library` as its driver: its status; its output in out. */
static int
with_driver(const char *self, const char *how, const char *library, char *out, size_t size)
{
    char path[4200], command[9000];
    snprintf(path, sizeof(path), "%s/libcuda.so.1", tap_tmpdir());
    unlink(path);
    if (library && symlink(library, path) != 0)
        bail("cannot make a link in %s", tap_tmpdir());
    snprintf(command, sizeof(command), "LD_LIBRARY_PATH='%s' '%s' %s 2>&1", tap_tmpdir(), self, how);
    FILE *child = popen(command, "r");
    size_t got = child ? fread(out, 1, size - 1, child) : 0;
    out[got] = '\0';
    return child ? pclose(child) : -1;
}

static int
describe(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *device = NULL;
    char text[512];
    int number = 0;
    printf("owns %d, open %d: %s; %s\n", hp_cuda_ops.owns(&number), (int)hp_cuda_ops.open(&device, NULL, &error),
           error.text, hp_cuda_describe(text, sizeof(text)));
    return 0;
}

static const char *
path_of(const char *library)
{
    struct link_map *map = NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        bail("cannot find %s", library);
    return map->l_name;
}

static void
test_other_drivers(const char *self)
{
    char out[2048];
    is_int(0, with_driver(self, "describe", "/nowhere", out, sizeof(out)), "no driver: no crash");
    ok(strstr(out, "owns 0, open 40: there is no CUDA driver on this machine"), "%s", out);
    is_int(0, with_driver(self, "describe", path_of("libm.so.6"), out, sizeof(out)), "another library of that name");
    ok(strstr(out, "has no function cuInit"), "%s", out);
}

/* An older driver: a copy of the stand-in in which one function is renamed. */
static const char *
old_driver(const char *function)
{
    static char path[4200];
    char *bytes = NULL;
    size_t size = 0, length = strlen(function), hidden = 0;
    FILE *from = fopen(path_of("libcuda.so.1"), "rb");
    FILE *whole = open_memstream(&bytes, &size);
    if (!from || !whole)
        bail("cannot read the stand-in driver");
    for (int c = fgetc(from); c != EOF; c = fgetc(from))
        fputc(c, whole);
    fclose(from);
    fclose(whole);
    for (char *at = bytes; (at = memmem(at, (size_t)(bytes + size - at), function, length + 1)); hidden++)
        at[length - 1] = '#';
    snprintf(path, sizeof(path), "%s/old-libcuda.so", tap_tmpdir());
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(bytes, 1, size, to) != size || fclose(to) != 0 || hidden == 0)
        bail("cannot write an older driver");
    free(bytes);
    return path;
}

static void *
driver_function(void *handle, const char *name)
{
    void *function = dlsym(handle, name);
    if (!function)
        bail("the older driver has no %s", name);
    return function;
}

/* A program that allocates on the GPU through the older driver, and gives the array to hoop. */
static int
use_old_driver(void)
{
    hp_cuda_driver d = {0};
    hoop_error error = {.size = sizeof(error)};
    hp_device *device = NULL;
    hp_cu_context context = NULL;
    hp_cu_pointer memory = 0;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *functions[] = {driver_function(handle, "cuInit"), driver_function(handle, "cuDevicePrimaryCtxRetain"),
                         driver_function(handle, "cuCtxSetCurrent"), driver_function(handle, "cuMemAlloc_v2")};
    memcpy(&d.init, &functions[0], sizeof(d.init));
    memcpy(&d.primary_retain, &functions[1], sizeof(d.primary_retain));
    memcpy(&d.context_set, &functions[2], sizeof(d.context_set));
    memcpy(&d.memory_alloc, &functions[3], sizeof(d.memory_alloc));
    if (d.init(0) != 0 || d.primary_retain(&context, 0) != 0 || d.context_set(context) != 0 ||
        d.memory_alloc(&memory, 64) != 0)
        bail("the older driver does not work");
    void *array = (void *)(uintptr_t)memory;
    printf("owns %d and %d, ", hp_device_of(array) == &hp_cuda_ops, hp_device_of(&d) == &hp_cuda_ops);
    printf("open %d: %s\n", (int)hp_cuda_ops.open(&device, array, &error), error.text);
    return 0;
}

static void
test_old_driver(const char *self)
{
    static const char *const functions[] = {"cuStreamWriteValue64_v2", "cuThreadExchangeStreamCaptureMode"};
    char out[2048], wanted[256];
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        is_int(0, with_driver(self, "old", old_driver(functions[i]), out, sizeof(out)), "no %s: no crash",
               functions[i]);
        snprintf(wanted, sizeof(wanted),
                 "owns 1 and 0, open %d: libcuda.so.1 has no function %s: the NVIDIA driver is too old",
                 HOOP_ERR_UNSUPPORTED, functions[i]);
        ok(strstr(out, wanted), "device memory is known and refused: %s", out);
    }
}

/* Without kernels for this GPU that the driver can read, it does not serve, but nothing on it has failed. */
static void
test_unfit_driver(const char *self)
{
    static const char *const codes[] = {"200", "209", "218", "221", "222", "223", "2"};
    char out[2048], wanted[64];
    const char *library = strdup(path_of("libcuda.so.1"));
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        setenv("HOOP_FAKE_CUDA_UNFIT", codes[i], 1);
        is_int(0, with_driver(self, "describe", library, out, sizeof(out)), "modules are refused with %s", codes[i]);
        snprintf(wanted, sizeof(wanted), "open %d: cuModuleLoadData failed",
                 strlen(codes[i]) > 1 ? HOOP_ERR_UNSUPPORTED : HOOP_ERR_CUDA);
        ok(strstr(out, wanted), "%s", out);
    }
    unsetenv("HOOP_FAKE_CUDA_UNFIT");
    free((void *)library);
}

static void
test_symbols(void)
{
    const hp_cuda_driver *driver = NULL;
    ok(hp_cuda_load(&driver, NULL) == HOOP_SUCCESS && driver, "the stand-in has all functions of the table");
    ok(hp_cuda_present(), "a driver that is in the process is found");
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        return strcmp(argv[1], "old") == 0 ? use_old_driver() : describe();
    tap_limit(240);
    fake = cuda_test_driver();
    if (!fake)
        skip_all("a real driver does not fail on demand");
    plan_lazy();
    is_int(0, hp_cuda_ops.owns(&argc), "before anybody started CUDA nothing is device memory");
    scenario();
    is_int(HOOP_SUCCESS, first.code, "the scenario alone is fine: %s", first.text);
    test_symbols();
    test_every_call(0);
    test_every_call(1);
    fake->memory_ops(0);
    test_every_call(0);
    fake->memory_ops(1);
    test_dead_kernel();
    test_other_drivers(argv[0]);
    test_old_driver(argv[0]);
    test_unfit_driver(argv[0]);
    return 0;
}
