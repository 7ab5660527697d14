/*
 * The C interface as a C program sees it. Run by the Rust tests, which are the agent:
 *
 *     test DIRECTORY PASS_JOB HELD_JOB FAR_JOB
 *
 * PASS_JOB runs as it comes, HELD_JOB is due every 200 ms with a tolerance of zero, FAR_JOB would be held for half a minute.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "antiphase_gate.h"

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static antiphase_gate *open_gate(const char *job, const char *directory) {
    antiphase_gate *gate = antiphase_gate_open(job, directory);
    CHECK(gate != NULL);
    return gate;
}

static void words_and_nulls(void) {
    CHECK(antiphase_gate_abi() == ANTIPHASE_GATE_ABI);
    CHECK(strchr(antiphase_gate_version(), '.') != NULL);
    CHECK(strcmp(antiphase_gate_reason(ANTIPHASE_REASON_STALE), "stale") == 0);
    CHECK(strcmp(antiphase_gate_reason(1000), "") == 0);
    CHECK(strcmp(antiphase_gate_last_error(), "") == 0);
    antiphase_step step;
    memset(&step, 0xff, sizeof step);
    CHECK(antiphase_gate_step(NULL, &step) == ANTIPHASE_FAIL_OPEN);
    CHECK(step.held_ns == 0 && step.reason == ANTIPHASE_REASON_INTERNAL && step.late_ns == ANTIPHASE_NO_LATENESS);
    antiphase_gate_flush(NULL);
    antiphase_gate_close(NULL);
    CHECK(antiphase_gate_open("../etc/passwd", NULL) == NULL);
    CHECK(strstr(antiphase_gate_last_error(), "../etc/passwd") != NULL);
}

static void passes(const char *directory, const char *job) {
    antiphase_gate *gate = open_gate(job, directory);
    antiphase_step step;
    CHECK(antiphase_gate_step(gate, &step) == ANTIPHASE_WENT);
    CHECK(step.outcome == ANTIPHASE_WENT && step.reason == ANTIPHASE_REASON_NOT_HELD && step.held_ns == 0);
    CHECK(antiphase_gate_step(gate, NULL) == ANTIPHASE_WENT);
    antiphase_gate_close(gate);
}

static void from_environment(const char *directory, const char *job) {
    unsetenv("ANTIPHASE_JOB");
    antiphase_gate *gate = open_gate(NULL, NULL);
    antiphase_step step;
    antiphase_gate_step(gate, &step);
    CHECK(step.reason == ANTIPHASE_REASON_OFF && step.outcome == ANTIPHASE_WENT);
    antiphase_gate_close(gate);
    setenv("ANTIPHASE_JOB", job, 1);
    setenv("ANTIPHASE_DIR", directory, 1);
    gate = open_gate(NULL, NULL);
    antiphase_gate_step(gate, &step);
    CHECK(step.reason == ANTIPHASE_REASON_NOT_HELD);
    antiphase_gate_close(gate);
    setenv("ANTIPHASE_JOB", "a/b", 1);
    CHECK(antiphase_gate_open(NULL, NULL) == NULL);
    CHECK(strstr(antiphase_gate_last_error(), "ANTIPHASE_JOB") != NULL);
    unsetenv("ANTIPHASE_JOB");
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

/* A signal each 2 ms interrupts every sleep; the start is in its slot all the same. */
static void held_under_signals(const char *directory, const char *job) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    antiphase_gate *gate = open_gate(job, directory);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int n = 0; n < 5; n++) {
        antiphase_step step;
        uint64_t before = clock_ns();
        int32_t outcome = antiphase_gate_step(gate, &step);
        uint64_t after = clock_ns();
        CHECK(outcome == ANTIPHASE_HELD || outcome == ANTIPHASE_SLIPPED);
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME && step.late_ns >= 0 && step.epoch == 5);
        CHECK(step.start_ns >= before && step.start_ns <= after && step.held_ns <= after - before);
        usleep(5000);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(alarms > 10);
    antiphase_gate_close(gate);
}

/* The child of a fork has a gate of its own, also when another thread of the parent was in it. */
static void *hold(void *gate) {
    antiphase_gate_step(gate, NULL);
    return NULL;
}

static void forks(const char *directory, const char *held, const char *far) {
    antiphase_gate *gate = open_gate(held, directory), *busy = open_gate(far, directory);
    antiphase_gate_step(gate, NULL);
    antiphase_gate_flush(gate);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold, busy) == 0);
    usleep(100000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        antiphase_step step;
        usleep(5000);
        antiphase_gate_step(gate, &step);
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME && step.held_ns > 0);
        CHECK(antiphase_gate_step(busy, &step) == ANTIPHASE_WENT);
        CHECK(step.reason == ANTIPHASE_REASON_BUSY);
        antiphase_gate_close(gate);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    antiphase_gate_step(gate, NULL);
    antiphase_gate_close(gate);
    /* `busy` is still held; the process ends all the same. */
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    _Static_assert(sizeof(antiphase_step) == 40, "the layout of antiphase_step");
    alarm(50); /* A test that hangs ends. */
    words_and_nulls();
    passes(argv[1], argv[2]);
    from_environment(argv[1], argv[2]);
    held_under_signals(argv[1], argv[3]);
    signal(SIGALRM, SIG_DFL);
    alarm(50);
    forks(argv[1], argv[3], argv[4]);
    printf("ok\n");
    return 0;
}
