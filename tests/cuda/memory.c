/* Memory: of devices, page-locked, and registered. What work does with it is known by block.
 *
 * An address of a device's or of page-locked memory is never given out again, and behind each piece lies a page that
 * nobody can touch. All of a device's addresses are such; page-locked memory is when it is freed. */
#include "state.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, FRESH = 0xcd, CANARY = 0xc7 };

#define REGION ((size_t)1 << 35)

static uint64_t       region_next, region_end;
static struct block **blocks; /* by address */
static size_t         block_count;
static struct block **registered; /* alive */
static size_t         registered_count;
static size_t         used[MOST_DEVICES], pinned;

static unsigned char *pointer_to(uint64_t address) { return (unsigned char *)(uintptr_t)address; }

/* --- Blocks --- */

/* The one that may begin at or before it, with the page behind. */
static struct block *find_own(uint64_t address)
{
    size_t low = 0, high = block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle]->address <= address) low = middle + 1;
        else high = middle;
    }
    struct block *block = low > 0 ? blocks[low - 1] : NULL;
    return block != NULL && address < block->address + block->pages ? block : NULL;
}

static struct block *find(uint64_t address)
{
    for (size_t at = 0; at < registered_count; ++at)
        if (address >= registered[at]->address && address < registered[at]->address + registered[at]->size) return registered[at];
    return find_own(address);
}

/* Addresses of `pages` bytes that nobody can touch. 0: there are none. */
static uint64_t reserve(size_t pages)
{
    if (pages > REGION) return 0;
    if (region_end - region_next < pages) {
        void *region = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) return 0;
        region_next = (uint64_t)(uintptr_t)region;
        region_end  = region_next + REGION;
    }
    region_next += pages;
    return region_next - pages;
}

static struct block *new_block(enum memory_kind kind, CUcontext context, uint64_t address, size_t size, size_t pages)
{
    struct block *block = fake_room(NULL, sizeof *block);
    *block = (struct block){.address = address, .size = size, .pages = pages, .kind = kind, .is_alive = true, .context = context};
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_ALLOC, .memory = address, .size = size});
    return block;
}

static void keep(struct block ***list, size_t *count, struct block *block)
{
    size_t at = *count;
    *list     = fake_room(*list, (*count + 1) * sizeof **list);
    for (; at > 0 && (*list)[at - 1]->address > block->address; --at) (*list)[at] = (*list)[at - 1];
    (*list)[at] = block;
    ++*count;
}

static size_t *quota(const struct block *block)
{
    return block->kind == MEMORY_DEVICE ? &used[block->context->device] : &pinned;
}

static bool fill(struct block *block)
{
    size_t inside = block->pages - PAGE;
    if (block->kind == MEMORY_DEVICE) {
        block->content = malloc(block->size);
        if (block->content == NULL) return false;
    } else {
        block->content = pointer_to(block->address);
        if (mprotect(block->content, inside, PROT_READ | PROT_WRITE) != 0) return false;
        memset(block->content + block->size, CANARY, inside - block->size);
    }
    memset(block->content, FRESH, block->size);
    return true;
}

static CUresult allocate(enum memory_kind kind, size_t size, uint64_t *address)
{
    CUcontext context = NULL;
    CUresult  result  = fake_current(&context);
    if (result == CUDA_SUCCESS) result = fake_admit(context);
    if (result == CUDA_SUCCESS) result = fake_unsafe();
    if (result != CUDA_SUCCESS) return result;
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
    size_t taken = kind == MEMORY_DEVICE ? used[context->device] : pinned;
    if (size > world.settings.memory || taken > world.settings.memory - size) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t   pages = (size + PAGE - 1) / PAGE * PAGE + PAGE;
    uint64_t begin = reserve(pages);
    if (begin == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *block = new_block(kind, context, begin, size, pages);
    if (!fill(block)) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    keep(&blocks, &block_count, block);
    *quota(block) += size;
    *address = begin;
    return CUDA_SUCCESS;
}

/* Its content goes when no operation can reach it. */
static void drop_content(struct block *block)
{
    if (block->is_alive || block->pending > 0 || block->content == NULL) return;
    if (block->kind == MEMORY_DEVICE) free(block->content);
    if (block->kind == MEMORY_PINNED) {
        madvise(block->content, block->pages - PAGE, MADV_DONTNEED);
        mprotect(block->content, block->pages - PAGE, PROT_NONE);
    }
    block->content = NULL;
    free(block->accesses);
    block->accesses     = NULL;
    block->access_count = block->access_room = 0;
}

static bool was_seen(const struct access *access)
{
    return fake_clock_get(&world.seen, access->slot) >= access->sequence;
}

static void check_end(const struct block *block)
{
    for (unsigned at = 0; at < block->access_count; ++at) {
        const struct access *access = &block->accesses[at];
        if (was_seen(access) || block->context->error != CUDA_SUCCESS) continue;
        fake_break(RULE_freed_in_use, "%zu bytes at %#llx: operation %llu", block->size, (unsigned long long)block->address,
                   (unsigned long long)access->op);
        break;
    }
    if (block->kind != MEMORY_PINNED) return;
    for (size_t at = block->size; at < block->pages - PAGE; ++at) {
        if (block->content[at] == CANARY) continue;
        fake_break(RULE_overrun, "byte %zu of %zu at %#llx", at, block->size, (unsigned long long)block->address);
        break;
    }
}

static void end_block(struct block *block)
{
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_FREE, .memory = block->address, .size = block->size});
    check_end(block);
    *quota(block) -= block->kind == MEMORY_REGISTERED ? 0 : block->size;
    block->is_alive = false;
    for (size_t at = 0; at < registered_count; ++at) {
        if (registered[at] != block) continue;
        memmove(&registered[at], &registered[at + 1], (--registered_count - at) * sizeof *registered);
        break;
    }
    drop_content(block);
}

static CUresult release(enum memory_kind kind, uint64_t address)
{
    static const char *const names[] = {"a device's", "page-locked", "registered"};
    struct block *block = kind == MEMORY_REGISTERED ? find(address) : find_own(address);
    if (block == NULL || block->kind != kind || block->address != address || !block->is_alive) {
        fake_break(RULE_memory, "%#llx %s %s memory", (unsigned long long)address,
                   block != NULL && !block->is_alive ? "is no more" : "is no beginning of", names[kind]);
        return kind == MEMORY_REGISTERED ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = fake_admit(block->context);
    if (fake_self()->running != NULL) return result;
    if (result == CUDA_SUCCESS) result = fake_need(block->context, true);
    if (result == CUDA_SUCCESS) result = fake_unsafe();
    /* That of a lost context is gone, whatever is answered. */
    if (result == CUDA_SUCCESS || block->context->error != CUDA_SUCCESS) end_block(block);
    return result;
}

EXPORT(cuMemAlloc_v2) CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    fake_enter(CALL_cuMemAlloc_v2);
    return fake_leave(pointer == NULL ? CUDA_ERROR_INVALID_VALUE : allocate(MEMORY_DEVICE, size, pointer));
}

EXPORT(cuMemFree_v2) CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    fake_enter(CALL_cuMemFree_v2);
    return fake_leave(release(MEMORY_DEVICE, pointer));
}

EXPORT(cuMemHostAlloc) CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    uint64_t address = 0;
    fake_enter(CALL_cuMemHostAlloc);
    CUresult result = pointer == NULL || flags > 7 ? CUDA_ERROR_INVALID_VALUE : allocate(MEMORY_PINNED, size, &address);
    if (result == CUDA_SUCCESS) *pointer = pointer_to(address);
    return fake_leave(result);
}

EXPORT(cuMemFreeHost) CUresult cuMemFreeHost(void *pointer)
{
    fake_enter(CALL_cuMemFreeHost);
    return fake_leave(release(MEMORY_PINNED, (uint64_t)(uintptr_t)pointer));
}

static CUresult register_block(void *pointer, size_t size)
{
    CUcontext context = NULL;
    uint64_t  begin   = (uint64_t)(uintptr_t)pointer;
    CUresult  result  = fake_current(&context);
    if (result == CUDA_SUCCESS) result = fake_admit(context);
    if (result == CUDA_SUCCESS) result = fake_unsafe();
    if (result != CUDA_SUCCESS) return result;
    if (pointer == NULL || size == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < registered_count; ++at) {
        const struct block *other = registered[at];
        if (begin < other->address + other->size && other->address < begin + size)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (find_own(begin) != NULL || find_own(begin + size - 1) != NULL) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct block *block = new_block(MEMORY_REGISTERED, context, begin, size, size);
    block->content      = pointer;
    keep(&registered, &registered_count, block);
    return CUDA_SUCCESS;
}

EXPORT(cuMemHostRegister_v2) CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
    fake_enter(CALL_cuMemHostRegister_v2);
    return fake_leave(flags > 15 ? CUDA_ERROR_INVALID_VALUE : register_block(pointer, size));
}

EXPORT(cuMemHostUnregister) CUresult cuMemHostUnregister(void *pointer)
{
    fake_enter(CALL_cuMemHostUnregister);
    return fake_leave(release(MEMORY_REGISTERED, (uint64_t)(uintptr_t)pointer));
}

static uint64_t report_left(struct block *block, CUcontext context)
{
    if (!block->is_alive || (context != NULL && block->context != context)) return 0;
    fake_break(RULE_left_behind, "%zu bytes at %#llx", block->size, (unsigned long long)block->address);
    if (context != NULL) end_block(block);
    return 1;
}

uint64_t fake_memory_left(CUcontext context)
{
    uint64_t left = 0;
    for (size_t at = 0; at < block_count; ++at) left += report_left(blocks[at], context);
    /* From the last: those of the context leave the list. */
    for (size_t at = registered_count; at > 0; --at) left += report_left(registered[at - 1], context);
    return left;
}

void fake_census_memory(fake_cuda_census *census)
{
    for (size_t at = 0; at < block_count; ++at) {
        if (!blocks[at]->is_alive) continue;
        bool is_device = blocks[at]->kind == MEMORY_DEVICE;
        *(is_device ? &census->device_blocks : &census->pinned_blocks) += 1;
        *(is_device ? &census->device_bytes : &census->pinned_bytes) += blocks[at]->size;
    }
    census->registered_blocks = registered_count;
}

/* --- What work does with them --- */

CUresult fake_use(struct op *op, uint64_t address, size_t size, bool is_written, enum side side)
{
    struct block *block   = find(address);
    const char   *problem = NULL;
    if (block == NULL && (side == SIDE_HOST || side == SIDE_ANY)) return CUDA_SUCCESS;
    if (block == NULL) problem = "belongs to nothing";
    else if (!block->is_alive) problem = "was freed";
    else if (size > block->size || address - block->address > block->size - size) problem = "goes over the end";
    else if (side == SIDE_DEVICE && block->kind != MEMORY_DEVICE) problem = "is no device memory";
    else if (side == SIDE_HOST && block->kind == MEMORY_DEVICE) problem = "is device memory";
    if (problem != NULL) {
        fake_break(RULE_memory, "%zu bytes at %#llx: %s", size, (unsigned long long)address, problem);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (op->use_count == MOST_USES) return CUDA_ERROR_INVALID_VALUE;
    op->uses[op->use_count++] = (struct use){block, (size_t)(address - block->address), size, is_written};
    return CUDA_SUCCESS;
}

unsigned char *fake_use_bytes(const struct use *use) { return use->block->content + use->offset; }

uint64_t fake_sum(const void *bytes, size_t size)
{
    const unsigned char *at  = bytes;
    uint64_t             sum = 0xcbf29ce484222325u;
    for (size_t byte = 0; byte < size; ++byte) sum = (sum ^ at[byte]) * 0x100000001b3u;
    return sum;
}

static bool overlaps(const struct access *access, size_t begin, size_t end)
{
    return access->begin < end && begin < access->end;
}

static void check_race(CUstream stream, const struct op *op, const struct use *use, const struct access *other)
{
    bool is_harmless = !other->is_written && !use->is_written;
    if (is_harmless || other->op == op->number || !overlaps(other, use->offset, use->offset + use->size)) return;
    if (fake_clock_get(&stream->clock, other->slot) >= other->sequence || was_seen(other)) return;
    fake_break(RULE_race, "operation %llu %s what %llu %s, and may run before it: %zu bytes at %#llx",
               (unsigned long long)op->number, use->is_written ? "writes" : "reads", (unsigned long long)other->op,
               other->is_written ? "writes" : "reads", use->size, (unsigned long long)(use->block->address + use->offset));
}

/* Nothing that comes after `use` can be too early for it and not for `use` too. */
static bool is_covered(CUstream stream, const struct use *use, const struct access *older)
{
    if (was_seen(older)) return true;
    return fake_clock_get(&stream->clock, older->slot) >= older->sequence && use->offset <= older->begin &&
           older->end <= use->offset + use->size && (use->is_written || !older->is_written);
}

static void add_access(CUstream stream, const struct op *op, const struct use *use)
{
    struct block *block = use->block;
    unsigned      kept  = 0;
    for (unsigned at = 0; at < block->access_count; ++at) {
        check_race(stream, op, use, &block->accesses[at]);
        if (!is_covered(stream, use, &block->accesses[at])) block->accesses[kept++] = block->accesses[at];
    }
    block->access_count = kept;
    if (kept == block->access_room) {
        block->access_room = block->access_room * 2 + 8;
        block->accesses    = fake_room(block->accesses, block->access_room * sizeof *block->accesses);
    }
    block->accesses[block->access_count++] = (struct access){stream->slot, use->is_written, op->sequence, op->number,
                                                             use->offset, use->offset + use->size};
}

void fake_note_uses(CUstream stream, struct op *op)
{
    for (int at = 0; at < op->use_count; ++at) {
        ++op->uses[at].block->pending;
        add_access(stream, op, &op->uses[at]);
    }
}

void fake_end_uses(struct op *op)
{
    for (int at = 0; at < op->use_count; ++at) {
        --op->uses[at].block->pending;
        drop_content(op->uses[at].block);
    }
}

/* No work that is not over writes there. */
bool fake_is_still(const struct use *use)
{
    for (unsigned at = 0; at < use->block->access_count; ++at) {
        const struct access *access = &use->block->accesses[at];
        if (access->is_written && !was_seen(access) && overlaps(access, use->offset, use->offset + use->size)) return false;
    }
    return true;
}

CONTROL void fake_cuda_expect_seen(const void *memory, size_t size)
{
    uint64_t address = (uint64_t)(uintptr_t)memory;
    fake_control();
    const struct block *block = find(address);
    if (block == NULL || !block->is_alive) {
        fake_break(RULE_memory, "%p is not page-locked", memory);
    } else {
        size_t begin = (size_t)(address - block->address);
        for (unsigned at = 0; at < block->access_count; ++at) {
            const struct access *access = &block->accesses[at];
            if (was_seen(access) || !overlaps(access, begin, begin + size)) continue;
            fake_break(RULE_unseen, "%zu bytes at %p: operation %llu", size, memory, (unsigned long long)access->op);
            break;
        }
    }
    fake_control_end();
}

CONTROL int fake_cuda_peek(void *target, CUdeviceptr memory, size_t size)
{
    fake_control();
    const struct block *block  = find_own(memory);
    bool                is_one = block != NULL && block->is_alive && size <= block->size && memory - block->address <= block->size - size;
    if (is_one) memcpy(target, block->content + (memory - block->address), size);
    fake_control_end();
    return is_one;
}
