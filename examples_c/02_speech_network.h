/* The network of 02_speech: Silero VAD through the OpenVINO C API, for any number of rows at once. Nothing of rte in here. */
#ifndef SPEECH_NETWORK_H
#define SPEECH_NETWORK_H

#include "02_speech_audio.h"
#include <openvino/c/openvino.h>

enum {
    MOST    = 32, /* rows */
    CONTEXT = 64, /* samples of the frame before that the network sees again */
    WINDOW  = CONTEXT + FRAME,
    MEMORY  = 128 /* the LSTM's hidden state; its cell state has as many */
};

/* Inputs and outputs, packed for the rows of one inference: n windows; n hidden states, then n cell states; n probabilities. */
typedef struct network {
    float                window[MOST * WINDOW];
    float                memory_in[2 * MOST * MEMORY];
    float                memory_out[2 * MOST * MEMORY];
    float                probability[MOST];
    int64_t              rate;
    uint32_t             bound; /* the number of rows that the tensors over these arrays have now */
    ov_core_t           *core;
    ov_compiled_model_t *compiled;
    ov_infer_request_t  *request;
} network;

static ov_status_e network_bind(network *n, const char *name, ov_element_type_e type, int64_t rank, int64_t *sizes, void *data)
{
    const ov_shape_t shape  = {rank, sizes};
    ov_tensor_t     *tensor = NULL;
    ov_status_e      status = ov_tensor_create_from_host_ptr(type, shape, data, &tensor);
    if (status == OK) status = ov_infer_request_set_tensor(n->request, name, tensor);
    ov_tensor_free(tensor);
    return status;
}

static void network_path(char path[1024], const char *folder)
{
    snprintf(path, 1024, "%s/silero_vad_op18_ifless.onnx", folder);
}

static int network_exists(const char *folder)
{
    char  path[1024];
    FILE *file;
    network_path(path, folder);
    file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static void network_open(network *n, const char *folder)
{
    /* One thread and plain floats: the same bits on every run and in every batch. (Left alone, a CPU with bfloat16
     * computes in that, and a row's results then change with the size of its batch.) */
    const ov_property_t properties[] = {{ov_property_key_inference_num_threads, "1"},
                                        {ov_property_key_num_streams, "1"},
                                        {ov_property_key_hint_enable_cpu_pinning, "NO"},
                                        {ov_property_key_hint_inference_precision, "f32"}};
    const size_t        count  = sizeof properties / sizeof properties[0];
    ov_status_e         status = ov_core_create(&n->core);
    char                path[1024];
    network_path(path, folder);
    n->rate = RATE;
    if (status == OK) status = ov_core_compile_model_from_file_props(n->core, path, "CPU", count, properties, &n->compiled);
    if (status == OK) status = ov_compiled_model_create_infer_request(n->compiled, &n->request);
    if (status == OK) status = network_bind(n, "sr", I64, 0, NULL, &n->rate);
    if (status != OK) fatal("OpenVINO: %s: %s", ov_get_error_info(status), ov_get_last_err_msg());
}

static void network_close(network *n)
{
    ov_infer_request_free(n->request);
    ov_compiled_model_free(n->compiled);
    ov_core_free(n->core);
    ov_shutdown();
}

static ov_status_e network_infer(network *n, uint32_t rows)
{
    int64_t     window[] = {rows, WINDOW}, memory[] = {2, rows, MEMORY}, probability[] = {rows, 1};
    ov_status_e status = OK;
    if (rows != n->bound) {
        n->bound = 0;
        status   = network_bind(n, "input", F32, 2, window, n->window);
        if (status == OK) status = network_bind(n, "state", F32, 3, memory, n->memory_in);
        if (status == OK) status = network_bind(n, "stateN", F32, 3, memory, n->memory_out);
        if (status == OK) status = network_bind(n, "output", F32, 2, probability, n->probability);
        if (status == OK) n->bound = rows;
    }
    return status == OK ? ov_infer_request_infer(n->request) : status;
}

/* A plain loop over one recording: what any engine has to reproduce. */
static void network_listen(network *n, const recording *r, float *probability)
{
    memset(n->window, 0, CONTEXT * sizeof(float));
    memset(n->memory_in, 0, 2 * MEMORY * sizeof(float));
    for (size_t i = 0; i < r->frames; ++i) {
        const size_t context = i ? CONTEXT : 0;
        memcpy(n->window + CONTEXT - context, r->samples + i * FRAME - context, (context + FRAME) * sizeof(float));
        if (network_infer(n, 1) != OK) fatal("OpenVINO: %s", ov_get_last_err_msg());
        memcpy(n->memory_in, n->memory_out, 2 * MEMORY * sizeof(float));
        probability[i] = n->probability[0];
    }
}

#endif
