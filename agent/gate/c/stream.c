/*
 * Streams that pass the gate, with the driver of a GPU or with cuda.c in its place. Run by the Rust tests, which are the agent:
 *
 *     stream DIRECTORY TURNS_JOB FAR_JOB
 *
 * TURNS_JOB takes turns and is granted every start after a moment, FAR_JOB would be held for half a minute.
 */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

typedef void *stream_t;
static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int), (*set_current)(void *);
static int (*create)(stream_t *, unsigned), (*query)(stream_t), (*synchronize)(stream_t);
static int (*launch)(stream_t, void (*)(void *), void *), (*begin_capture)(stream_t, int), (*end_capture)(stream_t, void **);

static void find(void *driver, const char *name, void *function) {
    void *found = dlsym(driver, name);
    if (!found) fprintf(stderr, "no %s\n", name), exit(1);
    memcpy(function, &found, sizeof found);
}

static void load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) fprintf(stderr, "%s\n", dlerror()), exit(1);
    find(driver, "cuInit", &init), find(driver, "cuDeviceGet", &device_get), find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuCtxSetCurrent", &set_current), find(driver, "cuStreamCreate", &create), find(driver, "cuStreamQuery", &query);
    find(driver, "cuStreamSynchronize", &synchronize), find(driver, "cuLaunchHostFunc", &launch);
    find(driver, "cuStreamBeginCapture_v2", &begin_capture), find(driver, "cuStreamEndCapture", &end_capture);
    int device;
    void *context;
    CHECK(init(0) == 0 && device_get(&device, 0) == 0 && retain(&context, device) == 0 && set_current(context) == 0);
}

static stream_t new_stream(void) {
    stream_t stream;
    CHECK(create(&stream, 1) == 0);
    return stream;
}

/* What a stream computes before it is ready, and when it came to a place. */
static void compute(void *ms) { usleep(1000 * (useconds_t)(uintptr_t)ms); }
static void mark(void *at) { *(uint64_t *)at = clock_ns(); }

/* The host is far ahead: it enqueues a start and its end before the stream has computed. */
static void waits_in_the_stream(const char *directory, const char *job) {
    antiphase_gate *gate = open_gate(job, directory);
    stream_t stream = new_stream(), other = new_stream();
    for (int i = 0; i < 5; i++) {
        uint64_t computed = 0, started = 0, beside = 0;
        uint64_t before = clock_ns();
        CHECK(launch(stream, compute, (void *)(uintptr_t)300) == 0);
        CHECK(launch(stream, mark, &computed) == 0);
        CHECK(antiphase_gate_step_in_stream(gate, stream, 0) == 0);
        CHECK(launch(stream, mark, &started) == 0);
        CHECK(antiphase_gate_done_in_stream(gate, stream) == 0);
        CHECK(launch(other, mark, &beside) == 0);
        CHECK(clock_ns() - before < 250000000);
        CHECK(synchronize(other) == 0 && synchronize(stream) == 0);
        CHECK(computed - before >= 300000000 && started > computed && beside < computed);
        printf("%" PRIu64 " %" PRIu64 "\n", computed, started);
    }
    antiphase_gate_close(gate);
}

static void refusals(const char *directory, const char *job) {
    stream_t stream = new_stream();
    setenv("ANTIPHASE_GATE", "off", 1);
    antiphase_gate *off = open_gate(job, directory);
    CHECK(antiphase_gate_step_in_stream(off, stream, 0) == ANTIPHASE_STREAM_OFF);
    CHECK(antiphase_gate_done_in_stream(off, stream) == ANTIPHASE_STREAM_OFF);
    antiphase_gate_close(off);
    unsetenv("ANTIPHASE_GATE");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    antiphase_gate *one = open_gate(job, directory);
    CHECK(antiphase_gate_step_in_stream(one, stream, 0) == ANTIPHASE_STREAM_ONE_QUEUE);
    antiphase_gate_close(one);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    antiphase_gate *gate = open_gate(job, directory);
    void *graph;
    /* Relaxed, so that other calls of the driver stay possible. */
    CHECK(begin_capture(stream, 2) == 0);
    CHECK(antiphase_gate_step_in_stream(gate, stream, 0) == ANTIPHASE_STREAM_CAPTURING);
    CHECK(antiphase_gate_done_in_stream(gate, stream) == ANTIPHASE_STREAM_CAPTURING);
    CHECK(end_capture(stream, &graph) == 0);
    CHECK(antiphase_gate_step_in_stream(gate, stream, 0) == 0);
    CHECK(synchronize(stream) == 0);
    pid_t child = fork();
    if (child == 0) _exit(antiphase_gate_step_in_stream(gate, stream, 0));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == ANTIPHASE_STREAM_FORKED);
    /* More than can be under way: those that are too many go without a gate. A GPU whose queue is full lets the host wait before that. */
    CHECK(launch(stream, compute, (void *)(uintptr_t)300) == 0);
    int taken = 0, refused = 0;
    while (refused == 0 && taken < 1100) refused = antiphase_gate_step_in_stream(gate, stream, 1), taken += refused == 0;
    CHECK(taken >= 1000);
    CHECK(refused == ANTIPHASE_STREAM_BUSY || (refused == 0 && getenv("ANTIPHASE_CUDA")));
    antiphase_gate_close(gate);
    CHECK(synchronize(stream) == 0);
}

/* Whoever closes the gate waits for nobody, and leaves no stream behind that waits. */
static void closed_while_a_stream_waits(const char *directory, const char *job) {
    antiphase_gate *gate = open_gate(job, directory);
    stream_t stream = new_stream();
    uint64_t started = 0;
    CHECK(antiphase_gate_step_in_stream(gate, stream, 0) == 0);
    CHECK(launch(stream, mark, &started) == 0);
    usleep(100000);
    /* A child that closes its copy lets nothing of its parent go. */
    pid_t child = fork();
    if (child == 0) {
        antiphase_gate_close(gate);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    usleep(20000);
    CHECK(query(stream) == 600 && started == 0);
    uint64_t before = clock_ns();
    antiphase_gate_close(gate);
    CHECK(clock_ns() - before < 1000000000);
    CHECK(synchronize(stream) == 0);
    CHECK(started >= before && started - before < 1000000000);
}

int main(int count, char **words) {
    CHECK(count == 4);
    /* Before the driver is there. */
    antiphase_gate *gate = open_gate(words[2], words[1]);
    CHECK(antiphase_gate_step_in_stream(gate, NULL, 0) == ANTIPHASE_STREAM_NO_DRIVER);
    antiphase_gate_close(gate);
    load();
    waits_in_the_stream(words[1], words[2]);
    closed_while_a_stream_waits(words[1], words[3]);
    refusals(words[1], words[2]);
    puts("ok");
    return 0;
}
