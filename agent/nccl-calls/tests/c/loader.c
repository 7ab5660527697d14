/* A program that links no NCCL: `loader FILE...` loads libraries as Python does, so that nobody sees the names of what they link, and
   prints what `use` of each answers, in both orders; without files it asks for NCCL's function by name, and calls it if there is one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int (*use[8])(void);
    if (argc == 1) {
        int (*reduce)(const void *, void *, size_t, int, int, void *, void *) = 0;
        *(void **)&reduce = dlsym(RTLD_DEFAULT, "ncclAllReduce");
        printf("%d\n", reduce ? reduce(0, 0, 1, 7, 0, 0, 0) : -1);
        return 0;
    }
    for (int at = 1; at < argc && at < 8; at++) {
        void *library = dlopen(argv[at], RTLD_NOW | RTLD_LOCAL);
        if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
        *(void **)&use[at] = dlsym(library, "use");
        printf("%d\n", use[at]());
    }
    for (int at = argc - 1; at > 0; at--) printf("%d\n", use[at]());
    return 0;
}
