/*
 * The gate of Antiphase for C and C++: link with -lantiphase_gate.
 *
 * Call antiphase_gate_step once per iteration, in the leader rank only, when the next iteration could start and none of
 * its communication is in flight. It returns when the iteration may start: at once, at the job's slot, at most one
 * period later, or when it is the job's turn, after a bounded time. It never fails: whatever is wrong, the job goes.
 * Call antiphase_gate_done when what the iteration sends has been sent: those who wait for this job can go then.
 *
 *     antiphase_gate *gate = antiphase_gate_open(NULL, NULL);
 *     for (;;) {
 *         compute();
 *         antiphase_gate_step(gate, NULL);
 *         communicate();
 *         antiphase_gate_done(gate);
 *     }
 *     antiphase_gate_close(gate);
 *
 * Every pointer may be null. Calls with one gate may come from several threads: while one waits, the others go.
 */
#ifndef ANTIPHASE_GATE_H
#define ANTIPHASE_GATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a caller must be compiled anew; compare it with antiphase_gate_abi(). */
#define ANTIPHASE_GATE_ABI 1

/* Outcomes of a step. */
#define ANTIPHASE_WENT 0      /* it went at once */
#define ANTIPHASE_HELD 1      /* it was held for its slot or its turn */
#define ANTIPHASE_SLIPPED 2   /* it had missed its slot and was held for the next */
#define ANTIPHASE_FAIL_OPEN 3 /* it went because the plan could not be trusted or followed */

/* Reasons: why it went when it did. */
#define ANTIPHASE_REASON_ON_TIME 0
#define ANTIPHASE_REASON_NOT_HELD 1
#define ANTIPHASE_REASON_OFF 2
#define ANTIPHASE_REASON_BUSY 3
#define ANTIPHASE_REASON_NO_PAGE 4
#define ANTIPHASE_REASON_UNREADABLE 5
#define ANTIPHASE_REASON_LAYOUT 6
#define ANTIPHASE_REASON_TORN 7
#define ANTIPHASE_REASON_STALE 8
#define ANTIPHASE_REASON_EXPIRED 9
#define ANTIPHASE_REASON_CLOCK_BOUND 10
#define ANTIPHASE_REASON_CLOCK_STEP 11
#define ANTIPHASE_REASON_MALFORMED 12
#define ANTIPHASE_REASON_HOLD_TOO_LONG 13
#define ANTIPHASE_REASON_INTERNAL 14
#define ANTIPHASE_REASON_GRANTED 15
#define ANTIPHASE_REASON_NOT_BEFORE 16
#define ANTIPHASE_REASON_UNHEARD 17

/* late_ns of a step without a plan. */
#define ANTIPHASE_NO_LATENESS INT64_MIN

typedef struct antiphase_gate antiphase_gate;

/* What one step did. Times are those of CLOCK_MONOTONIC in nanoseconds. */
typedef struct antiphase_step {
    int32_t outcome;
    int32_t reason;
    uint64_t held_ns;
    int64_t late_ns; /* start minus the nearest due start: negative is early */
    uint64_t start_ns;
    uint64_t plan_version; /* of the plan; 0: none */
} antiphase_step;

/* Opens the gate of a job. job null: ANTIPHASE_JOB, and without that a gate that lets everything pass. directory null:
 * ANTIPHASE_DIR, and without that /run/antiphase. ANTIPHASE_GATE=off switches it off. Null for a name that no job can have,
 * for a directory that is no text in UTF-8, or after a defect of the library: antiphase_gate_last_error says which. */
antiphase_gate *antiphase_gate_open(const char *job, const char *directory);

/* Waits for the slot if the job is early, or for its turn; returns the outcome, and all of it in *step. */
int32_t antiphase_gate_step(const antiphase_gate *gate, antiphase_step *step);

/* The same for one Up phase of an iteration, counted from 1: called before each of them, with antiphase_gate_done after each, each phase
 * has a turn of its own. Where the job takes no turns, only the first phase can be held. */
int32_t antiphase_gate_step_phase(const antiphase_gate *gate, uint32_t phase, antiphase_step *step);

/* What the last step let start has been sent. Of a job that never says this the agent finds the ends, later or less exactly. Never waits. */
void antiphase_gate_done(const antiphase_gate *gate);

/* For what a CUDA stream sends. The host runs ahead of the GPU, so a host that waits delays nothing, or asks long before the job is ready; here
 * the stream waits. Both return at once: 0, or why nothing was enqueued; then the caller goes on as without a gate. `stream` is a CUstream
 * (cudaStream_t) of this thread's context, or null for the default one. Streams go on within 0.1 s if this library's threads do not answer, and
 * within the bound of a turn, 60 s at most, if nobody else does. One start of a gate can wait at a time: a second one that is ready in another
 * stream waits for the first, and then for its own turn. */

/* What is enqueued into the stream after this starts when the stream has come so far and the job may start; phase 0 is a whole iteration. */
int32_t antiphase_gate_step_in_stream(const antiphase_gate *gate, void *stream, uint32_t phase);

/* antiphase_gate_done, when the stream has come so far. */
int32_t antiphase_gate_done_in_stream(const antiphase_gate *gate, void *stream);

/* Why nothing was enqueued. */
#define ANTIPHASE_STREAM_OFF 1       /* the gate is switched off, or of no job */
#define ANTIPHASE_STREAM_NO_DRIVER 2 /* no CUDA driver in this process, or one from before CUDA 11.7 */
#define ANTIPHASE_STREAM_ONE_QUEUE 3 /* CUDA_DEVICE_MAX_CONNECTIONS=1: no stream would go on while one waits */
#define ANTIPHASE_STREAM_CAPTURING 4 /* the stream's work is recorded for a graph */
#define ANTIPHASE_STREAM_UNWATCHED 5 /* the library's threads did not start, or did not look for three seconds */
#define ANTIPHASE_STREAM_FORKED 6    /* this process is a fork of the one that opened the gate */
#define ANTIPHASE_STREAM_BUSY 7      /* 1,024 starts and ends are under way, or another thread enqueues one */
#define ANTIPHASE_STREAM_REFUSED 8   /* the driver did not take it */

/* Tells the agent what the gate did now, and not with the next step. */
void antiphase_gate_flush(const antiphase_gate *gate);

/* No other call with this gate may be going on. */
void antiphase_gate_close(antiphase_gate *gate);

/* Why the last call of this thread that failed did. Valid until the thread's next call that fails. */
const char *antiphase_gate_last_error(void);

/* The word for a reason. */
const char *antiphase_gate_reason(int32_t reason);

/* The version of the library, major.minor.patch. */
const char *antiphase_gate_version(void);

/* The version of this interface in the library. */
uint32_t antiphase_gate_abi(void);

#ifdef __cplusplus
}
#endif

#endif
