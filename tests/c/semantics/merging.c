/* How messages between two steps become what a step sees. */
#include "world.h"

static void sums(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);

    CHECK("before any ACTION nothing is there", !w.hot[0].has[STEER] && !w.hot[0].has[BUTTONS] && !w.hot[0].has[MODE]);
    CHECK("what is absent is zero in its column", w.hot[0].steer == 0 && w.hot[0].buttons == 0 && w.hot[0].mode == 0);
    steer(&w, 1, 0, 3);
    steer(&w, 1, 0, 4);
    tick(&w);
    EQUAL("mouse moves between two steps add up", w.hot[0].steer, 7);
    tick(&w);
    EQUAL("a step that saw them leaves nothing of them", w.hot[0].steer, 0);
    CHECK("a sum of nothing is there, as 0", w.hot[0].has[STEER]);
    steer(&w, 1, 0, 5);
    choose(&w, 1, 0, 1);
    push(&w, RTE_ACTION, 0, 1, 0);
    tick(&w);
    EQUAL("an ACTION that names nothing takes no mouse move away", w.hot[0].steer, 5);
    steer(&w, 1, 0, INT64_MAX);
    steer(&w, 1, 0, 1);
    tick(&w);
    EQUAL("a sum does not wrap", w.hot[0].steer == INT64_MAX, 1);
    steer(&w, 1, 0, 9);
    push_value(&w, RTE_ACTION, RTE_PARTIAL, 1, 0, STEER, NULL, 0);
    tick(&w);
    CHECK("a value of no size takes the sum away", !w.hot[0].has[STEER] && w.hot[0].steer == 0);
    world_end(&w);
}

static void bits(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);

    press(&w, 1, 0, 1);
    press(&w, 1, 0, 0);
    tick(&w);
    EQUAL("a tap between two steps is not lost", w.hot[0].buttons, 1);
    tick(&w);
    EQUAL("and does not stay", w.hot[0].buttons, 0);
    press(&w, 1, 0, 4);
    tick(&w);
    tick(&w);
    EQUAL("a button that is held stays down", w.hot[0].buttons, 4);
    press(&w, 1, 0, 2);
    tick(&w);
    EQUAL("the newest bits replace those a step has seen", w.hot[0].buttons, 2);
    world_end(&w);
}

static void newest(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);

    choose(&w, 1, 0, 6);
    choose(&w, 1, 0, 7);
    tick(&w);
    EQUAL("of two modes the newest counts", w.hot[0].mode, 7);
    tick(&w);
    EQUAL("and stays", w.hot[0].mode, 7);
    steer(&w, 1, 0, 1);
    tick(&w);
    EQUAL("a partial ACTION leaves it alone", w.hot[0].mode, 7);
    push(&w, RTE_ACTION, 0, 1, 0);
    tick(&w);
    CHECK("a whole ACTION that does not name it takes it away", !w.hot[0].has[MODE] && w.hot[0].mode == 0);
    choose(&w, 1, 0, 8);
    push_value(&w, RTE_ACTION, RTE_PARTIAL, 1, 0, MODE, NULL, 0);
    tick(&w);
    CHECK("so does a value of no size", !w.hot[0].has[MODE]);
    world_end(&w);
}

static void pausing(void)
{
    static world w;
    int          calls;
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);

    steer(&w, 1, 0, 3);
    push(&w, RTE_PAUSE, 0, 1, 0);
    steer(&w, 1, 0, 5);
    press(&w, 1, 0, 1);
    press(&w, 1, 0, 2);
    choose(&w, 1, 0, 9);
    prompt(&w, 1, 0, "night");
    calls = w.hot[0].calls;
    tick(&w);
    tick(&w);
    EQUAL("a paused session makes no step", w.hot[0].calls, calls);
    EQUAL("nor an encode", w.encode[0].calls, 0);
    push(&w, RTE_RESUME, 0, 1, 0);
    tick(&w);
    EQUAL("what changed meanwhile is read first", w.encode[0].calls, 1);
    EQUAL("during which it sits out", w.hot[0].calls, calls);
    tick(&w);
    EQUAL("then it steps again", w.hot[0].calls, calls + 1);
    EQUAL("mouse moves from before the pause count, those within do not", w.hot[0].steer, 3);
    EQUAL("of the buttons the newest are kept", w.hot[0].buttons, 2);
    EQUAL("of the modes too", w.hot[0].mode, 9);
    CHECK("and the prompt", strcmp(w.hot[0].prompt, "night") == 0);
    world_end(&w);
}

static void changed(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    push_value(&w, RTE_ATTACH, 0, 1, 0, PROMPT, "dawn", 4);
    choose(&w, 1, 0, 1);
    tick(&w);
    CHECK("a first step is told all that is there as changed", w.hot[0].changed == (RTE_KEY_BIT(MODE) | RTE_KEY_BIT(PROMPT)));
    tick(&w);
    EQUAL("without news nothing has changed", w.hot[0].changed, 0);
    choose(&w, 1, 0, 1);
    tick(&w);
    EQUAL("the same value again is no change", w.hot[0].changed, 0);
    choose(&w, 1, 0, 2);
    tick(&w);
    CHECK("another one is", w.hot[0].changed == RTE_KEY_BIT(MODE));
    steer(&w, 1, 0, 1);
    tick(&w);
    CHECK("a mouse move is", w.hot[0].changed == RTE_KEY_BIT(STEER));
    tick(&w);
    CHECK("and its end is", w.hot[0].changed == RTE_KEY_BIT(STEER));
    push(&w, RTE_ACTION, 0, 1, 0);
    tick(&w);
    CHECK("what is taken away has changed", w.hot[0].changed == RTE_KEY_BIT(MODE));
    push(&w, RTE_RESET, 0, 1, 0);
    tick(&w);
    CHECK("a new life is told all that is there again", w.hot[0].changed == RTE_KEY_BIT(PROMPT));
    world_end(&w);
}

static void heavy(void)
{
    static world w;
    int          calls, others;
    world_init(&w);
    world_begin(&w);
    push_value(&w, RTE_ATTACH, 0, 1, 11, PROMPT, "dawn", 4);
    push(&w, RTE_ATTACH, 0, 2, 12);
    choose(&w, 1, 0, 5);
    tick(&w);
    CHECK("the seed sees the context", strcmp(w.seed[0].prompt, "dawn") == 0 && !w.seed[1].has[PROMPT]);
    EQUAL("but no ACTION", w.seed[0].has[MODE], 0);
    CHECK("a step sees the prompt of the context", strcmp(w.hot[0].prompt, "dawn") == 0);
    EQUAL("no encode was needed for it", w.encode[0].calls, 0);

    calls  = w.hot[0].calls;
    others = w.hot[1].calls;
    prompt(&w, 1, 21, "dusk");
    tick(&w);
    CHECK("a new prompt is read", w.encode[0].calls == 1 && strcmp(w.encode[0].prompt, "dusk") == 0);
    CHECK("the reader is told what has changed", w.encode[0].changed == RTE_KEY_BIT(PROMPT));
    EQUAL("its session sits out for that", w.hot[0].calls, calls);
    EQUAL("nobody else does", w.hot[1].calls, others + 1);
    tick(&w);
    CHECK("then its step sees it", w.hot[0].calls == calls + 1 && strcmp(w.hot[0].prompt, "dusk") == 0);
    push(&w, RTE_ACTION, 0, 1, 22);
    tick(&w);
    CHECK("an ACTION that does not name the prompt leaves it", strcmp(w.hot[0].prompt, "dusk") == 0 && w.encode[0].calls == 1);
    prompt(&w, 1, 23, "dusk");
    tick(&w);
    EQUAL("the same prompt again is not read again", w.encode[0].calls, 1);
    push_value(&w, RTE_ACTION, RTE_PARTIAL, 1, 24, PROMPT, NULL, 0);
    tick(&w);
    tick(&w);
    CHECK("a prompt can be taken away", w.encode[0].calls == 2 && !w.hot[0].has[PROMPT]);
    world_end(&w);
}

static void tags(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    push_value(&w, RTE_ATTACH, 0, 1, 11, PROMPT, "dawn", 4);
    tick(&w);
    CHECK("ATTACHED has the tag of its message", next(&w) == RTE_ATTACHED && w.out.tag == 11);
    CHECK("a chunk before the first ACTION has tag 0", next(&w) == RTE_CHUNK && w.out.tag == 0);
    EQUAL("and the heavy tag of the context", w.out.heavy_tag, 11);
    steer(&w, 1, 21, 1);
    steer(&w, 1, 22, 1);
    tick(&w);
    CHECK("a chunk has the tag of the newest ACTION", next(&w) == RTE_CHUNK && w.out.tag == 22);
    EQUAL("and still that heavy tag", w.out.heavy_tag, 11);
    tick(&w);
    CHECK("the tag stays while nothing new comes", next(&w) == RTE_CHUNK && w.out.tag == 22);
    prompt(&w, 1, 31, "dusk");
    tick(&w);
    EQUAL("no chunk while the prompt is read", next(&w), 0);
    steer(&w, 1, 32, 1);
    tick(&w);
    CHECK("tag and heavy tag are each of their own message", next(&w) == RTE_CHUNK && w.out.tag == 32 && w.out.heavy_tag == 31);
    push(&w, RTE_RESET, 0, 1, 41);
    tick(&w);
    CHECK("RESET says whose life it ended", next(&w) == RTE_DETACHED && w.out.tag == 41);
    CHECK("and whose began", next(&w) == RTE_ATTACHED && w.out.tag == 41);
    CHECK("the new life has no ACTION yet", next(&w) == RTE_CHUNK && w.out.tag == 0 && w.out.heavy_tag == 41);
    world_end(&w);
}

int main(void)
{
    sums();
    bits();
    newest();
    pausing();
    changed();
    heavy();
    tags();
    return finish();
}
