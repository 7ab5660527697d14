/*
 * The C interface as a C program sees it. Run by the Rust tests, which are the agent:
 *
 *     test DIRECTORY PASS_JOB HELD_JOB FAR_JOB SLOW_JOB TURNS_JOB
 *
 * PASS_JOB runs as it comes, HELD_JOB is due every 200 ms with a tolerance of zero, FAR_JOB would be held for half a minute,
 * SLOW_JOB is due every 2 s, TURNS_JOB takes turns and is granted every start.
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

#include "check.h"

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
    antiphase_gate_done(NULL);
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
    antiphase_gate_done(gate);
    antiphase_gate_done(gate);
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
    /* Who gives a name is not hurt by that one, and the rest of the environment counts. */
    gate = open_gate(job, NULL);
    antiphase_gate_step(gate, &step);
    CHECK(step.reason == ANTIPHASE_REASON_NOT_HELD);
    antiphase_gate_close(gate);
    setenv("ANTIPHASE_GATE", "off", 1);
    gate = open_gate(job, NULL);
    antiphase_gate_step(gate, &step);
    CHECK(step.reason == ANTIPHASE_REASON_OFF);
    antiphase_gate_close(gate);
    unsetenv("ANTIPHASE_GATE");
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
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME && step.late_ns >= 0 && step.plan_version == 5);
        CHECK(step.start_ns >= before && step.start_ns <= after && step.held_ns <= after - before);
        usleep(5000);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(alarms > 10);
    antiphase_gate_close(gate);
}

/* The child of a fork has a gate of its own, also when another thread of the parent was in it. */
static void *hold(void *gate) {
    /* More than once, so that one that came exactly at its slot is held too. */
    for (int n = 0; n < 1000; n++) antiphase_gate_step(gate, NULL);
    return NULL;
}

static void forks(const char *directory, const char *held, const char *far, const char *slow) {
    antiphase_gate *gate = open_gate(held, directory), *unused = open_gate(far, directory), *busy = open_gate(slow, directory);
    antiphase_gate_step(gate, NULL);
    antiphase_gate_flush(gate);
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, hold, unused) == 0 && pthread_create(&threads[1], NULL, hold, busy) == 0);
    usleep(100000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        antiphase_step step;
        usleep(5000);
        antiphase_gate_step(gate, &step);
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME && step.held_ns > 0);
        /* The thread that was held is not here, so nobody is in the gate. */
        antiphase_gate_step(busy, &step);
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME && step.held_ns > 0);
        antiphase_gate_step(busy, &step);
        CHECK(step.reason == ANTIPHASE_REASON_ON_TIME);
        antiphase_gate_close(busy);
        antiphase_gate_flush(unused);
        antiphase_gate_close(unused);
        antiphase_gate_close(gate);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* In the parent it is, and one that found it so takes nothing from the thread that is held. */
    for (int n = 0; n < 3; n++) {
        antiphase_step step;
        CHECK(antiphase_gate_step(unused, &step) == ANTIPHASE_WENT && step.reason == ANTIPHASE_REASON_BUSY);
    }
    antiphase_gate_step(gate, NULL);
    antiphase_gate_close(gate);
    /* Two gates are still held; the process ends all the same. */
}

/* A child that never steps leaves the report to its parent: what it knows is older. */
static void forks_and_does_nothing(const char *directory, const char *job) {
    antiphase_gate *gate = open_gate(job, directory);
    antiphase_gate_step(gate, NULL);
    int end[2];
    CHECK(pipe(end) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char go;
        CHECK(read(end[0], &go, 1) == 1);
        antiphase_gate_flush(gate);
        antiphase_gate_close(gate);
        _exit(0);
    }
    antiphase_gate_step(gate, NULL);
    antiphase_gate_step(gate, NULL);
    antiphase_gate_flush(gate);
    int status = -1;
    CHECK(write(end[1], "g", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* Not closed: the caller of this program looks at the report as the child left it. */
}

/* On a busy machine an answer can come too late; another start has to do then. */
static void granted(antiphase_gate *gate) {
    antiphase_step step;
    while (antiphase_gate_step(gate, &step) != ANTIPHASE_HELD) {
        CHECK(step.reason == ANTIPHASE_REASON_UNHEARD);
        usleep(10000);
    }
    CHECK(step.reason == ANTIPHASE_REASON_GRANTED && step.held_ns > 0 && step.late_ns == ANTIPHASE_NO_LATENESS);
}

/* Parent and child are two runs to the agent, each with a socket and numbers of its own. */
static void takes_turns(const char *directory, const char *job) {
    antiphase_gate *gate = open_gate(job, directory);
    granted(gate);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        antiphase_gate_done(gate); /* What the parent started is not the child's to end. */
        granted(gate);
        antiphase_gate_done(gate);
        antiphase_gate_close(gate);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    antiphase_gate_done(gate);
    granted(gate);
    antiphase_gate_done(gate);
    antiphase_gate_close(gate);
}

int main(int argc, char **argv) {
    CHECK(argc == 7);
    _Static_assert(sizeof(antiphase_step) == 40, "the layout of antiphase_step");
    alarm(50); /* A test that hangs ends. */
    words_and_nulls();
    passes(argv[1], argv[2]);
    from_environment(argv[1], argv[2]);
    held_under_signals(argv[1], argv[3]);
    signal(SIGALRM, SIG_DFL);
    alarm(50);
    forks(argv[1], argv[3], argv[4], argv[5]);
    forks_and_does_nothing(argv[1], argv[2]);
    takes_turns(argv[1], argv[6]);
    printf("ok\n");
    return 0;
}
