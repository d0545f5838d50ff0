/* dlopen and dlclose, again and again, while an engine of the library lives and outputs of it are not given back: the code
 * stays, so nothing of it is pulled from under the engine's threads, its fork handler, or a release.
 *
 * The program is not linked with the library: its path is the argument. */
#define _POSIX_C_SOURCE 200809L
#include "../check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 25 };

/* What is called, by pointer. */
typedef struct functions {
    rte_status (*model)(rte_model *);
    rte_status (*make)(const rte_model *, const rte_engine_options *, rte_engine **, rte_error *);
    rte_status (*start)(rte_engine *, rte_error *);
    rte_status (*push)(rte_engine *, const rte_message *);
    rte_status (*wait)(rte_engine *, uint64_t);
    rte_status (*pop)(rte_engine *, rte_output *);
    void (*release)(rte_output *, rte_stream);
    void (*release_engine)(rte_engine *);
    uint32_t (*version)(void);
} functions;

static int find(void *library, const char *name, void *place)
{
    void *const address = dlsym(library, name);
    memcpy(place, &address, sizeof address); /* an object pointer is no function pointer, in C */
    return address != NULL;
}

static void *load(const char *path, functions *f)
{
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    if (!find(library, "rte_reference_model", &f->model) || !find(library, "rte_engine_new", &f->make)
        || !find(library, "rte_engine_start", &f->start) || !find(library, "rte_inbox_push", &f->push)
        || !find(library, "rte_outbox_wait", &f->wait) || !find(library, "rte_outbox_pop", &f->pop)
        || !find(library, "rte_output_release", &f->release) || !find(library, "rte_engine_free", &f->release_engine)
        || !find(library, "rte_abi_version", &f->version))
        exit(1);
    return library;
}

/* Waits for a chunk of the engine's; it is the caller's. */
static int next_chunk(const functions *f, rte_engine *engine, rte_output *out)
{
    while (f->wait(engine, UINT64_MAX) == RTE_OK)
        while (f->pop(engine, out) == RTE_OK) {
            if (out->kind == RTE_CHUNK) return 1;
            f->release(out, NULL);
        }
    return 0;
}

static int is_whole(const rte_output *out)
{
    const unsigned char *bytes = out->data;
    for (size_t i = 1; i < out->size; ++i)
        if (bytes[i] != bytes[0]) return 0;
    return out->size == 64;
}

/* A round: what it saw that was wrong. */
static int use_and_close(const char *path, uint32_t lanes)
{
    functions          f, again;
    rte_model          model   = {.struct_size = sizeof model};
    rte_engine_options options = {.struct_size = sizeof options, .lanes = lanes};
    rte_message        attach  = {.kind = RTE_ATTACH, .session = 1};
    rte_engine        *engine;
    rte_output         first, second, third;
    int                wrong = 0, status = -1;
    pid_t              child;
    void              *library = load(path, &f);

    if (f.model(&model) != RTE_OK) return 1;
    model.rate_num = model.rate_den = 0;
    if (f.make(&model, &options, &engine, NULL) != RTE_OK || f.start(engine, NULL) != RTE_OK) return 1;
    wrong += f.push(engine, &attach) != RTE_OK;
    wrong += !next_chunk(&f, engine, &first);

    wrong += dlclose(library) != 0; /* the engine lives, and a chunk is ours */
    wrong += !is_whole(&first);
    wrong += !next_chunk(&f, engine, &second);
    for (int i = 0; i < 3; ++i) {
        library = load(path, &again);
        wrong += again.push != f.push || again.version() != RTE_ABI_VERSION;
        wrong += dlclose(library) != 0;
    }
    wrong += !next_chunk(&f, engine, &third) || third.index <= second.index;
    f.release(&second, NULL);

    child = fork(); /* its handler is there */
    if (child == 0) _exit(f.push(engine, &attach) == RTE_ERR_FORKED ? 0 : 1);
    wrong += child < 0 || waitpid(child, &status, 0) != child || status != 0;

    f.release_engine(engine);
    wrong += !is_whole(&first) || !is_whole(&third);
    f.release(&first, NULL);
    f.release(&third, NULL);
    return wrong;
}

int main(int argc, char **argv)
{
    int wrong[2] = {0, 0};

    if (argc != 2) return 1;
    CHECK("the library is not there by itself", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    for (int round = 0; round < ROUNDS; ++round) {
        wrong[0] += use_and_close(argv[1], RTE_LANES_INLINE);
        wrong[1] += use_and_close(argv[1], RTE_LANES_THREADS);
    }
    EQUAL("closed under an engine", wrong[0], 0);
    EQUAL("closed under an engine with threads", wrong[1], 0);
    CHECK("a closed library stays", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL);
    return finish();
}
