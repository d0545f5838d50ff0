#include "cuda_stub.h"
#include "rte.h"

enum : uint32_t { FRAME = 640 * 360 * 3 };

struct World {
    uint32_t      *rows[2]; // by slot
    float         *latent[2];
    unsigned char *frames[2];
};

/* the block */

extern const rte_stage_fn stage;
const rte_stage_fn        stage = decode;
