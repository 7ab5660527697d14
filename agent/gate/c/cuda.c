/*
 * A CUDA driver without a GPU, as libcuda.so.1: streams that do in order what is enqueued into them, each in a thread of its own. It has what the gate
 * and its test call, with the driver's names, types and answers (CUDA Driver API), so that stream.c runs where there is no GPU.
 * With a GPU the same program runs with the driver itself (tests/gpu).
 */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900 };
enum { WRITE, WAIT, CALL };

struct operation {
    int kind;
    volatile uint32_t *word;
    uint32_t value;
    void (*function)(void *);
    void *with;
    struct operation *next;
};

struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct operation *first, **last;
    int under_way, capturing;
};

/* Registered pages: one for each gate that a stream ever used. None is given back. */
#define PAGES_MAX 64
static void *pages[PAGES_MAX];
static int page_count;
static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;

static void run(struct operation *operation) {
    switch (operation->kind) {
    case WRITE:
        __atomic_store_n(operation->word, operation->value, __ATOMIC_RELEASE);
        break;
    case WAIT:
        while ((int32_t)(__atomic_load_n(operation->word, __ATOMIC_ACQUIRE) - operation->value) < 0) usleep(20);
        break;
    default:
        operation->function(operation->with);
    }
}

static void *serve(void *opaque) {
    struct stream *stream = opaque;
    for (;;) {
        pthread_mutex_lock(&stream->lock);
        while (!stream->first) pthread_cond_wait(&stream->changed, &stream->lock);
        struct operation *operation = stream->first;
        stream->first = operation->next;
        if (!stream->first) stream->last = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        run(operation);
        free(operation);
        pthread_mutex_lock(&stream->lock);
        stream->under_way--;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->lock);
    }
    return NULL;
}

static int enqueue(struct stream *stream, struct operation what) {
    struct operation *operation = malloc(sizeof *operation);
    if (!operation) return OUT_OF_MEMORY;
    *operation = what;
    pthread_mutex_lock(&stream->lock);
    if (stream->capturing) {
        pthread_mutex_unlock(&stream->lock);
        free(operation);
        return CAPTURE_UNSUPPORTED;
    }
    *stream->last = operation;
    stream->last = &operation->next;
    stream->under_way++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int primary;
    (void)device;
    *context = &primary;
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) { return context ? SUCCESS : INVALID_VALUE; }

int cuStreamCreate(struct stream **made, unsigned flags) {
    (void)flags;
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_t thread;
    if (!stream) return OUT_OF_MEMORY;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->last = &stream->first;
    if (pthread_create(&thread, NULL, serve, stream)) return OUT_OF_MEMORY;
    pthread_detach(thread);
    *made = stream;
    return SUCCESS;
}

int cuStreamQuery(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    int under_way = stream->under_way;
    pthread_mutex_unlock(&stream->lock);
    return under_way ? NOT_READY : SUCCESS;
}

int cuStreamSynchronize(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (stream->under_way) pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

/* Memory is registered only by a thread that says that graphs of others do not matter to it. */
static _Thread_local int capture_mode;

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    if ((uintptr_t)memory % 4096 || bytes != 4096 || flags != 3) return INVALID_VALUE;
    if (capture_mode != 2) return CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&pages_lock);
    int full = page_count == PAGES_MAX;
    if (!full) pages[page_count++] = memory;
    pthread_mutex_unlock(&pages_lock);
    return full ? OUT_OF_MEMORY : SUCCESS;
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags) {
    int known = 0;
    pthread_mutex_lock(&pages_lock);
    for (int i = 0; i < page_count; i++) known |= pages[i] == memory;
    pthread_mutex_unlock(&pages_lock);
    if (!known || flags) return INVALID_VALUE;
    *address = (uintptr_t)memory;
    return SUCCESS;
}

int cuStreamWriteValue32_v2(struct stream *stream, uint64_t address, uint32_t value, unsigned flags) {
    if (flags) return INVALID_VALUE;
    return enqueue(stream, (struct operation){.kind = WRITE, .word = (uint32_t *)(uintptr_t)address, .value = value});
}

int cuStreamWaitValue32_v2(struct stream *stream, uint64_t address, uint32_t value, unsigned flags) {
    if (flags) return INVALID_VALUE;
    return enqueue(stream, (struct operation){.kind = WAIT, .word = (uint32_t *)(uintptr_t)address, .value = value});
}

int cuLaunchHostFunc(struct stream *stream, void (*function)(void *), void *with) {
    return enqueue(stream, (struct operation){.kind = CALL, .function = function, .with = with});
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return SUCCESS;
}

int cuStreamIsCapturing(struct stream *stream, int *status) {
    *status = stream->capturing;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(struct stream *stream, int mode) {
    (void)mode;
    stream->capturing = 1;
    return SUCCESS;
}

int cuStreamEndCapture(struct stream *stream, void **graph) {
    stream->capturing = 0;
    *graph = stream;
    return SUCCESS;
}
