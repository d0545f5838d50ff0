// What rte.hpp promises beside rte.h: nothing that a callback throws gets far, everything goes once, keys have types.
// wrapper_model.cpp: the ways to describe a model, and to drive one.
#include "rte.hpp"
#include "check.hpp"
#include <cstdio>
#include <string>

namespace {

struct Camera {
    float        at[3];
    std::int32_t zoom;
};

constexpr rte::key<float[2]>      steer{0, "steer"};
constexpr rte::key<rte::bytes>    prompt{1, "prompt", rte::heavy};
constexpr rte::key<std::int64_t>  wheel{2, "wheel", rte::sum};
constexpr rte::key<std::uint32_t> buttons{3, "buttons", rte::any};
constexpr rte::key<Camera>        camera{4, "camera"};

rte::model simple(const char *name = "simple")
{
    rte::model model(name);
    model.sessions(4).chunk_bytes(64).keys(steer, prompt, wheel, buttons, camera);
    return model;
}

// Counts how many there are.
struct Witness {
    static int alive;
    Witness() { ++alive; }
    Witness(const Witness &) { ++alive; }
    Witness &operator=(const Witness &) = default;
    ~Witness() { --alive; }
    void run(rte::batch batch) const
    {
        for (rte::row row : batch) row.finish(1);
    }
};
int Witness::alive = 0;

int notices(rte::engine &engine, std::uint32_t kind, std::uint32_t stage, rte_status status)
{
    int count = 0;
    for (rte::output &out : engine.outputs()) count += out.kind() == kind && out.stage() == stage && out.status() == status;
    return count;
}

void exceptions()
{
    enum Where { HOT, DEFERRED, ENCODE, SEED, DETACH, READY, FINALIZE, ALL };
    const char *const   names[ALL]  = {"a throwing HOT", "a throwing DEFERRED", "a throwing ENCODE", "a throwing seed", "a throwing detach", "a throwing ready", "a throwing finalize"};
    const std::uint32_t stages[ALL] = {0, 1, 2, RTE_STAGE_SEED, RTE_STAGE_DETACH, RTE_STAGE_READY, RTE_STAGE_FINALIZE};

    for (int where = 0; where < ALL; ++where) {
        const auto may_throw = [where](int here) {
            if (where == here) throw std::string("from a callback");
        };
        rte::model model = simple();
        model.hot("hot", [=](rte::batch) { may_throw(HOT); })
            .deferred("deferred", [=](rte::batch batch) { may_throw(DEFERRED); for (rte::row row : batch) row.finish(1); })
            .encode("encode", [=](rte::batch) { may_throw(ENCODE); })
            .seed([=](rte::batch) { may_throw(SEED); })
            .detach([=](rte::batch) { may_throw(DETACH); })
            .ready([=](rte::batch) { may_throw(READY); })
            .finalize([=](rte::batch) { may_throw(FINALIZE); });
        rte::engine engine = rte::engine::make(std::move(model)).or_throw();
        (void)engine.push(rte::attach(1), prompt("one"));
        (void)engine.tick();
        (void)engine.push(rte::action(1), prompt("two"));
        (void)engine.tick();
        (void)engine.push(rte::detach(1));
        EQUAL(std::string(names[where]) + " leaves the tick well", engine.tick(), RTE_OK);
        EQUAL(names[where], notices(engine, RTE_TICK_FAILED, stages[where], RTE_ERR_CALLBACK), 1);
    }
    rte::model model = simple();
    model.hot("hot", [](rte::batch) {}).encode("encode", [](rte::batch) {}).init([](const rte_stream *) { throw 1; });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    EQUAL("a throwing init is the first tick's status", engine.tick(), RTE_ERR_CALLBACK);
}

void values()
{
    int        sum = 0, bits = 0, absent = 0, zoom = 0, changed = 0;
    float      column = 0, wheels = 0;
    rte::model model = simple();
    model.hot("hot", [&](rte::batch batch) {
             column = batch.column(steer).size() == 2 * batch.count() ? batch.column(steer)[1] : -1;
             for (rte::row row : batch) {
                 const float *const both = row.get(steer);
                 wheels                  = both == nullptr ? -1 : both[0] + both[1];
                 sum += static_cast<int>(row.get(wheel) == nullptr ? 0 : *row.get(wheel));
                 bits = row.get(buttons) == nullptr ? -1 : static_cast<int>(*row.get(buttons));
                 absent += row.get(camera) == nullptr;
                 zoom = row.get(camera) == nullptr ? 0 : row.get(camera)->zoom;
                 changed += row.changed(steer);
                 row.output_as<std::uint64_t>()[0] = row.age();
                 row.finish(sizeof(std::uint64_t));
             }
         }).encode("encode", [](rte::batch) {});
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    (void)engine.push(rte::attach(1));
    (void)engine.push(rte::action(1).tag(5), steer({1.5F, 2.5F}), wheel(3), buttons(1U));
    (void)engine.push(rte::partial(1).tag(6), wheel(4), buttons(2U));
    (void)engine.tick();
    CHECK("an array is whole, in the row and in the column", wheels == 4.0F && column == 2.5F);
    EQUAL("sums are sums", sum, 7);
    EQUAL("taps are collected", bits, 3);
    EQUAL("a key that was not named is absent", absent, 1);
    (void)engine.push(rte::partial(1), camera({{1, 2, 3}, 9}));
    (void)engine.tick();
    EQUAL("a struct is carried", zoom, 9);
    EQUAL("what has not changed is not new", changed, 1);
    EQUAL("a value of the wrong key's size cannot be written, a wrong index is refused", engine.push(rte::action(1), rte::key<float>(9, "no")(1.0F)), RTE_ERR_ARGUMENT);
    std::uint64_t next = 0;
    int           chunks = 0;
    auto          outputs = engine.outputs();
    for (rte::output &out : outputs)
        if (out.is_chunk()) {
            CHECK(chunks == 0 ? "the first chunk" : "the second chunk", out.data_as<std::uint64_t>().size() == 1 && out.data_as<std::uint64_t>()[0] == next++ && out.tag() == (chunks == 0 ? 6U : 0U));
            ++chunks;
        }
    EQUAL("the range says why it ended", outputs.status(), RTE_AGAIN);
}

void lending()
{
    int        released = 0;
    rte::model model    = simple();
    model.hot("hot", [](rte::batch) {}).encode("encode", [](rte::batch) {});
    {
        rte::engine       engine = rte::engine::make(std::move(model)).or_throw();
        const std::string words(100000, 'w');
        EQUAL("lent bytes may be as many as one likes", engine.push(rte::attach(1).release([](void *count) { ++*static_cast<int *>(count); }, &released), prompt.lend(words)), RTE_OK);
        (void)engine.tick();
    }
    EQUAL("lent bytes are released once", released, 1);
}

void lives()
{
    rte::output kept;
    {
        auto       shared = std::make_shared<Witness>();
        rte::model model  = simple();
        model.hot("hot", shared, &Witness::run).encode("encode", [witness = Witness()](rte::batch) { (void)witness; });
        shared.reset();
        EQUAL("the model keeps what its stages need", Witness::alive, 2);
        rte::engine engine = rte::engine::make(std::move(model)).or_throw();
        (void)engine.push(rte::attach(1));
        (void)engine.tick();
        for (rte::output &out : engine.outputs())
            if (out.is_chunk()) kept = std::move(out);
        rte::engine moved = std::move(engine);
        EQUAL("an engine can be moved", moved.tick(), RTE_OK);
        EQUAL("and works where it is", moved.info().ticks, 2U);
        CHECK("a session's info", moved.info(1)->age == 2 && moved.info(9).status() == RTE_ERR_UNKNOWN);
        CHECK("a stop tells nothing but success", static_cast<bool>(moved.stop()));
        EQUAL("after a stop a tick is told so", moved.tick(), RTE_CLOSED);
    }
    EQUAL("with the engine they go", Witness::alive, 0);
    CHECK("an output may outlive its engine", kept.is_chunk() && kept.data().size() == 1);
    kept.release();
    CHECK("an output that was given back is empty", !kept.is_chunk());
    {
        rte::model model;
        model.hot("hot", [witness = Witness()](rte::batch) { (void)witness; });
        const auto none = rte::engine::make(std::move(model));
        EQUAL("a model that is refused says why", none.status(), RTE_ERR_ARGUMENT);
        CHECK("in words", none.error().message == "model.max_sessions: 0 is not in 1..=65536");
    }
    EQUAL("and goes, too", Witness::alive, 0);
    rte_status thrown = RTE_OK;
    try {
        (void)rte::engine::make(rte::model()).or_throw();
    } catch (const rte::exception &why) {
        thrown = why.status();
    }
    EQUAL("or_throw throws it", thrown, RTE_ERR_ARGUMENT);
}

// Each type that owns something, after a move from it, to it, and to itself.
void moves()
{
    const auto live = [] {
        auto       witness = std::make_shared<Witness>();
        rte::model model   = simple();
        model.hot("hot", witness, &Witness::run).encode("encode", [](rte::batch) {});
        return model;
    };
    const auto same = [](auto &object) -> auto & { return object; };
    {
        rte::engine one = rte::engine::make(live()).or_throw(), two = rte::engine::make(live()).or_throw();
        one = std::move(same(one));
        CHECK("an engine that was moved to itself is well", one && one.tick() == RTE_OK);
        one = std::move(two);
        EQUAL("what stood in an engine's place is freed at once", Witness::alive, 1);
        CHECK("an engine that was moved from is none", !two && two.raw() == nullptr);
        rte::output out;
        EQUAL("it answers a push", two.push(rte::attach(1)), RTE_ERR_ARGUMENT);
        EQUAL("a pop", two.pop(out), RTE_ERR_ARGUMENT);
        EQUAL("a wait", two.wait(), RTE_ERR_ARGUMENT);
        EQUAL("a tick", two.tick(), RTE_ERR_ARGUMENT);
        EQUAL("a start", two.start().status(), RTE_ERR_ARGUMENT);
        EQUAL("a stop", two.stop().status(), RTE_ERR_ARGUMENT);
        CHECK("both infos, and what is there to pop", two.info().ticks == 0 && two.info(1).status() == RTE_ERR_ARGUMENT && two.outputs().begin() == two.outputs().end());
        two = rte::engine::make(live()).or_throw();
        EQUAL("and may be assigned to", two.tick(), RTE_OK);
        rte_engine *const raw = two.release();
        CHECK("a handle that was released is the caller's", !two && Witness::alive == 2);
        two = rte::engine(raw);
    }
    EQUAL("all of them are gone", Witness::alive, 0);
    {
        rte::engine engine = rte::engine::make(live()).or_throw();
        (void)engine.push(rte::attach(1));
        (void)engine.tick();
        (void)engine.tick();
        rte::output one, two;
        while (engine.pop(one) == RTE_OK && !one.is_chunk()) {}
        (void)engine.pop(two);
        EQUAL("two are held", engine.info(1)->held, 2U);
        one = std::move(same(one));
        CHECK("an output that was moved to itself is whole", one.is_chunk() && one.index() == 0 && one.data().size() == 1);
        one = std::move(two);
        CHECK("the last one was given back at once", one.index() == 1 && engine.info(1)->held == 1);
        two.release();
        CHECK("one that was moved from is empty, and is not given back", two.kind() == 0 && two.data().empty() && engine.info(1)->held == 1);
        rte_output raw = {};
        rte::output three(std::move(one));
        (void)engine.tick();
        while (rte_outbox_pop(engine.raw(), &raw) == RTE_OK && raw.kind != RTE_CHUNK) rte_output_release(&raw, nullptr);
        three = rte::output(raw);
        CHECK("a record of C is taken", raw.owner == nullptr && three.index() == 2);
        three.release();
        three.release();
        EQUAL("and goes back once", engine.info(1)->held, 0U);
    }
    {
        rte::model one = live(), two = live();
        one = std::move(same(one));
        rte::model three(std::move(two));
        one = std::move(three);
        EQUAL("a model that stood in another's place is gone", Witness::alive, 1);
        const auto none = rte::engine::make(std::move(two));
        CHECK("a model that was moved from is refused in words", none.status() == RTE_ERR_ARGUMENT && none.error().message == "model: it was moved from");
        rte_model raw = one.release();
        EQUAL("a model that was released is the caller's", Witness::alive, 1);
        raw.destroy(raw.user);
        two = live();
        CHECK("one that was moved from may be assigned to", static_cast<bool>(rte::engine::make(std::move(two))));
    }
    EQUAL("no model is left", Witness::alive, 0);
    {
        rte::result<rte::engine> one = rte::engine::make(live()), two = rte::engine::make(rte::model("no"));
        one = std::move(same(one));
        CHECK("a result that was moved to itself is whole", one && one->tick() == RTE_OK);
        two = std::move(one);
        CHECK("a result is moved with its engine", two && two->tick() == RTE_OK && two.status() == RTE_OK);
        const rte::result<rte_session_info> none = two->info(1);
        CHECK("an answer that is none says why", !none && none.status() == RTE_ERR_UNKNOWN && none.error().message == rte_status_message(RTE_ERR_UNKNOWN));
    }
    EQUAL("no engine is left", Witness::alive, 0);
}

void threads()
{
    rte::model model = simple();
    model.hot("hot", [](rte::batch batch) { for (rte::row row : batch) row.finish(1); }).encode("encode", [](rte::batch) {});
    rte::options options;
    options.lanes         = RTE_LANES_THREADS;
    options.outbox_policy = RTE_HOLD;
    rte::engine engine    = rte::engine::make(std::move(model), options).or_throw();
    engine.start().or_throw();
    (void)engine.push(rte::attach(1));
    std::uint64_t next = 0;
    while (next < 1000 && engine.wait() == RTE_OK)
        for (const rte::output &out : engine.outputs())
            if (next < 1000 && out.is_chunk() && out.index() == next) ++next; // there may be more
    EQUAL("waiting and popping on another thread", next, 1000U);
    EQUAL("a second start says why not", engine.start().status(), RTE_ERR_STATE);
}

} // namespace

int main()
{
    exceptions();
    values();
    lending();
    lives();
    moves();
    threads();
    return finish();
}
