/* What a step costs that need not wait, through the C interface: ./bench DIRECTORY JOB [CALLS] */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "antiphase_gate.h"

/* One round is long against the clock's own cost, and short enough for many. */
enum { ROUND = 1000, ROUNDS_MAX = 100000 };

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench DIRECTORY JOB [CALLS]\n");
        return 2;
    }
    long rounds = (argc > 3 ? atol(argv[3]) : 2000000) / ROUND;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "CALLS must be %d to %ld\n", ROUND, (long)ROUND * ROUNDS_MAX);
        return 2;
    }
    antiphase_gate *gate = antiphase_gate_open(argv[2], argv[1]);
    double *steps = calloc((size_t)rounds, sizeof *steps), *clocks = calloc((size_t)rounds, sizeof *clocks);
    if (!gate || !steps || !clocks) {
        fprintf(stderr, "bench: %s\n", gate ? "no memory" : antiphase_gate_last_error());
        return 1;
    }
    volatile uint64_t sink = 0;
    antiphase_step step = {0};
    for (long round = 0; round < rounds; round++) {
        uint64_t begin = clock_ns();
        for (int n = 0; n < ROUND; n++) antiphase_gate_step(gate, &step);
        uint64_t middle = clock_ns();
        for (int n = 0; n < ROUND; n++) sink += clock_ns();
        steps[round] = (double)(middle - begin) / ROUND;
        clocks[round] = (double)(clock_ns() - middle) / ROUND;
    }
    qsort(steps, (size_t)rounds, sizeof *steps, by_size);
    qsort(clocks, (size_t)rounds, sizeof *clocks, by_size);
    printf("step (%s) median %.1f ns, clock read median %.1f ns, %ld rounds of %d\n", antiphase_gate_reason(step.reason),
           steps[rounds / 2], clocks[rounds / 2], rounds, ROUND);
    free(steps);
    free(clocks);
    antiphase_gate_close(gate);
    return 0;
}
