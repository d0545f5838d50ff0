/* Settings, from the environment and from tests, and what is made to go wrong. */
#include "state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 64, MOST_HOLDS = 32 };

static struct plan {
    enum call call;
    uint64_t  left; /* calls until it comes about; 0: it is none */
    CUresult  code;
    unsigned  flags;
} plans[MOST_PLANS];

static struct hold {
    uint64_t stream, microseconds;
} holds[MOST_HOLDS];
static int hold_count;

/* After these a context is of no use on a device. */
bool fake_is_sticky(CUresult code)
{
    switch ((int)code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
    }
}

void fake_plan(struct thread *self)
{
    for (int at = 0; at < MOST_PLANS; ++at) {
        struct plan *plan = &plans[at];
        if (plan->left == 0 || plan->call != self->call || (plan->left > 1 && --plan->left > 0)) continue;
        if ((plan->flags & FAKE_CUDA_ALWAYS) == 0) plan->left = 0;
        if (self->planned != CUDA_SUCCESS) continue;
        self->planned       = plan->code;
        self->planned_flags = plan->flags;
    }
}

static bool add_plan(const char *name, uint64_t nth, CUresult code, unsigned flags)
{
    int call = fake_call_named(name);
    if (call < 0 || nth == 0) return false;
    for (int at = 0; at < MOST_PLANS; ++at) {
        if (plans[at].left != 0) continue;
        plans[at] = (struct plan){(enum call)call, nth, code, flags};
        return true;
    }
    return false;
}

CONTROL int fake_cuda_fail(const char *call, uint64_t nth, CUresult code, unsigned flags)
{
    fake_control();
    bool is_planned = add_plan(call, nth, code, flags);
    fake_control_end();
    return is_planned;
}

CONTROL void fake_cuda_fail_no_more(void)
{
    fake_control();
    memset(plans, 0, sizeof plans);
    fake_control_end();
}

/* Until when (0: for ever) the nth stream is held. */
uint64_t fake_hold_of(uint64_t stream_number, bool *is_held)
{
    *is_held = world.settings.is_holding;
    for (int at = 0; at < hold_count; ++at) {
        if (holds[at].stream != stream_number) continue;
        *is_held = true;
        return holds[at].microseconds == 0 ? 0 : fake_now() + holds[at].microseconds * 1000;
    }
    return 0;
}

/* --- Settings --- */

#define SETTING(name, type, field, expression) \
    CONTROL void name(type value) \
    { \
        fake_control(); \
        world.settings.field = (expression); \
        fake_control_end(); \
    }

SETTING(fake_cuda_devices, int, devices, value < MOST_DEVICES ? value : MOST_DEVICES)
SETTING(fake_cuda_version, int, version, value)
SETTING(fake_cuda_priorities, int, greatest_priority, value)
SETTING(fake_cuda_memory, size_t, memory, value)
SETTING(fake_cuda_watch, int, is_watching, value != 0)
SETTING(fake_cuda_one_host, int, is_one_host, value != 0)
SETTING(fake_cuda_strict_context, int, is_strict, value != 0)

CONTROL void fake_cuda_delay(uint64_t microseconds, uint64_t seed)
{
    fake_control();
    world.settings.delay = microseconds;
    world.settings.seed  = seed;
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        stream->random  = seed + stream->number;
    }
    fake_control_end();
}

void fake_set_mode(const char *mode)
{
    static const char *const modes[] = {"report", "abort", "count"};
    for (int at = 0; at < 3; ++at) {
        if (strcmp(mode, modes[at]) != 0) continue;
        world.settings.mode = at;
        return;
    }
    fprintf(stderr, "fake_cuda: there is no mode %s\n", mode);
    abort();
}

CONTROL void fake_cuda_mode(const char *mode)
{
    fake_control();
    fake_set_mode(mode);
    fake_control_end();
}

/* --- The environment --- */

static void refuse(const char *variable, const char *text)
{
    fprintf(stderr, "fake_cuda: %s=%s is not understood\n", variable, text);
    abort();
}

/* A number at `*text`, which goes on behind it. */
static uint64_t number(const char *variable, const char **text)
{
    char              *end;
    unsigned long long value = strtoull(*text, &end, 10);
    if (end == *text) refuse(variable, *text);
    *text = end;
    return value;
}

static uint64_t number_or(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    if (text == NULL) return otherwise;
    const char *at    = text;
    uint64_t    value = number(variable, &at);
    if (*at != '\0') refuse(variable, text);
    return value;
}

static void each_part(const char *variable, void (*take)(const char *variable, char *part))
{
    const char *text = getenv(variable);
    char        copy[1024], *rest = NULL;
    if (text == NULL) return;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy) refuse(variable, text);
    for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) take(variable, part);
}

static void take_rule(const char *variable, char *part)
{
    (void)variable;
    fake_cuda_forgive(part, 1);
}

static void take_hold(const char *variable, char *part)
{
    const char *at = part;
    if (hold_count == MOST_HOLDS) refuse(variable, part);
    struct hold *hold = &holds[hold_count++];
    hold->stream      = number(variable, &at);
    if (*at++ != ':') refuse(variable, part);
    hold->microseconds = number(variable, &at);
    if (*at != '\0') refuse(variable, part);
}

static unsigned flags_of(const char *variable, const char *letters)
{
    unsigned flags = 0;
    for (; *letters != '\0'; ++letters) {
        if (*letters == 's') flags |= FAKE_CUDA_STICKY;
        else if (*letters == 'a') flags |= FAKE_CUDA_ALWAYS;
        else if (*letters == 'd') flags |= FAKE_CUDA_DONE;
        else refuse(variable, letters);
    }
    return flags;
}

static void take_plan(const char *variable, char *part)
{
    char       *name = part, *colon = strchr(part, ':');
    const char *at = colon;
    if (colon == NULL) refuse(variable, part);
    *colon       = '\0';
    ++at;
    uint64_t nth = number(variable, &at);
    if (*at++ != ':') refuse(variable, at - 1);
    CUresult code = (CUresult)number(variable, &at);
    if (*at != '\0' && *at != ':') refuse(variable, at);
    if (!add_plan(name, nth, code, *at == ':' ? flags_of(variable, at + 1) : 0)) refuse(variable, name);
}

static void read_delay(void)
{
    const char *variable = "FAKE_CUDA_DELAY", *text = getenv(variable);
    if (text == NULL) return;
    const char *at       = text;
    world.settings.delay = number(variable, &at);
    if (*at == ':') {
        world.settings.seed = world.settings.delay;
        ++at;
        world.settings.delay = number(variable, &at);
    }
    if (*at != '\0') refuse(variable, text);
}

void fake_read_environment(void)
{
    struct settings *settings = &world.settings;
    const char      *devices = getenv("FAKE_CUDA_DEVICES"), *priorities = getenv("FAKE_CUDA_PRIORITIES");
    const char      *visible = getenv("CUDA_VISIBLE_DEVICES");
    const bool       is_hidden = visible != NULL && strcmp(visible, "-1") == 0;
    const bool       is_none = is_hidden || (devices != NULL && strcmp(devices, "none") == 0);

    settings->devices = is_none ? -1 : (int)number_or("FAKE_CUDA_DEVICES", 2);
    if (settings->devices > MOST_DEVICES) refuse("FAKE_CUDA_DEVICES", devices);
    settings->version           = (int)number_or("FAKE_CUDA_VERSION", 12040);
    settings->greatest_priority = priorities == NULL ? -5 : atoi(priorities);
    settings->memory            = number_or("FAKE_CUDA_MEMORY", (uint64_t)4 << 30);
    settings->is_strict         = number_or("FAKE_CUDA_STRICT_CONTEXT", 0) != 0;
    settings->is_one_host       = number_or("FAKE_CUDA_ONE_HOST", 0) != 0;
    settings->is_watching       = number_or("FAKE_CUDA_WATCH", 0) != 0;
    settings->history           = number_or("FAKE_CUDA_HISTORY", 65536);
    if (settings->history == 0) refuse("FAKE_CUDA_HISTORY", "0");
    if (getenv("FAKE_CUDA_MODE") != NULL) fake_set_mode(getenv("FAKE_CUDA_MODE"));
    if (getenv("FAKE_CUDA_LOG") != NULL) fake_log_open(getenv("FAKE_CUDA_LOG"));
    read_delay();
    each_part("FAKE_CUDA_FORGIVE", take_rule);
    each_part("FAKE_CUDA_HOLD", take_hold);
    each_part("FAKE_CUDA_FAIL", take_plan);
}
