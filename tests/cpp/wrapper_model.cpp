// The ways of rte.hpp to describe a model and to drive one: a class with methods, keys from a struct, a loop of its own,
// values and outputs on a device, a callback for outputs, children of a replica, a record and its replay.
#include "check.hpp"
#include "rte.hpp"
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

// What CUDA's headers say, and what they may not be needed for.
typedef struct CUstream_st *cudaStream_t; // NOLINT(modernize-use-using)
typedef struct CUevent_st  *cudaEvent_t;  // NOLINT(modernize-use-using)
static_assert(std::is_same_v<cudaStream_t, rte_stream> && std::is_same_v<cudaEvent_t, rte_event>);

namespace {

struct Input {
    float         steer[2];
    std::int64_t  wheel;
    std::uint32_t buttons;
};

constexpr rte::member             steer{0, "steer", &Input::steer};
constexpr rte::member             wheel{1, "wheel", &Input::wheel, rte::sum};
constexpr rte::member             buttons{2, "buttons", &Input::buttons, rte::any};
constexpr rte::key<rte::bytes>    prompt{3, "prompt", rte::heavy};

// All that a model may have, as methods.
struct World {
    std::vector<std::string> calls;
    float                    steered = 0;
    std::int64_t             wheeled = 0;
    std::uint32_t            pressed = 0;
    int                      chunks  = 0;
    rte::output              kept;

    void       init(const rte_stream *) { calls.emplace_back("init"); }
    rte_status ready(rte::batch, rte_stream) { return calls.emplace_back("ready"), RTE_OK; }
    void       seed(const rte::batch &) { calls.emplace_back("seed"); }
    rte_status hot(rte::batch batch, rte_stream)
    {
        calls.emplace_back("hot");
        for (rte::row row : batch) {
            steered = row.get(steer) == nullptr ? -1 : row.get(steer)[0] + row.get(steer)[1];
            wheeled = row.get(wheel) == nullptr ? -1 : *row.get(wheel);
            pressed = row.get(buttons) == nullptr ? 99 : *row.get(buttons);
        }
        return RTE_OK;
    }
    void deferred(rte::batch batch)
    {
        calls.emplace_back("deferred");
        for (rte::row row : batch) {
            row.output()[0] = std::byte{7};
            row.frames(3);
            row.finish(1);
        }
    }
    void encode(rte::batch batch)
    {
        for (rte::row row : batch) calls.push_back("encode " + std::string(row.text(prompt)));
    }
    void detach(rte::batch) { calls.emplace_back("detach"); }
    void finalize(rte::batch) { calls.emplace_back("finalize"); }
    void on_output(rte::output &out)
    {
        chunks += out.is_chunk() ? 1 : 0;
        if (out.is_chunk() && !kept.is_chunk()) kept = std::move(out);
    }
    static int serve(int notes) { return notes; } // of the same name, but not what the model asks for
};

void a_class()
{
    const auto world = std::make_shared<World>();
    {
        rte::model model("class");
        model.sessions(2).chunk_bytes(16).keys(steer, wheel, buttons, prompt).methods(world);
        rte::options options;
        options.pipeline   = RTE_PIPELINE_OFF;
        rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
        (void)engine.push(rte::attach(1));
        const Input input = {{1.5F, 2.5F}, 3, 2};
        (void)engine.push(rte::action(1), steer(input), wheel(input), buttons(input));
        (void)engine.push(rte::partial(1), wheel(4));
        EQUAL("a model of methods is driven", engine.tick(), RTE_OK);
        CHECK("members of a struct are values", world->steered == 4.0F && world->wheeled == 7 && world->pressed == 2);
        (void)engine.push(rte::partial(1), steer.none(), prompt("fog"));
        (void)engine.tick();
        (void)engine.tick();
        EQUAL("a key that is none is absent", world->steered, -1.0F);
        (void)engine.push(rte::detach(1));
        (void)engine.tick();
        rte::output out;
        EQUAL("nothing is popped beside on_output", engine.pop(out), RTE_ERR_STATE);
    }
    std::vector<std::string> expected = {"init", "ready", "seed", "hot", "deferred", "finalize"};
    const bool begins = world->calls.size() > expected.size() && std::equal(expected.begin(), expected.end(), world->calls.begin());
    CHECK("init, ready, seed, hot, deferred, finalize were found", begins);
    CHECK("and encode, and detach", std::count(world->calls.begin(), world->calls.end(), "encode fog") == 1 && world->calls.back() == "detach");
    CHECK("on_output got each chunk, and kept one", world->chunks >= 2 && world->kept.data()[0] == std::byte{7} && world->kept.frames() == 3);
    CHECK("with the engine its share of the object goes", world.use_count() == 1);
}

void a_throwing_on_output()
{
    int        given = 0;
    rte::model model("throws");
    model.sessions(1).chunk_bytes(1)
        .hot("hot", [](rte::batch batch) { for (rte::row row : batch) row.finish(1); })
        .on_output([&](rte::output &) { if (++given > 0) throw 1; });
    rte::options options;
    options.held_max   = 1;
    rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
    (void)engine.push(rte::attach(1));
    int well = 0;
    for (int i = 0; i < 10; ++i) well += engine.tick() == RTE_OK ? 1 : 0;
    CHECK("what on_output throws is dropped, and the output given back", well == 10 && given == 11 && engine.info(1)->held == 0);
}

constexpr rte::key<rte::bytes>   text{0, "text"};
constexpr rte::key<std::int64_t> length{1, "length"};

// Says each message's text back, as many times as was asked for.
struct Echo {
    rte_status serve(rte::loop loop)
    {
        for (;;) {
            const rte_status status = loop.wait();
            if (status != RTE_OK) return status == RTE_CLOSED ? RTE_OK : status;
            auto messages = loop.messages();
            for (const rte::received &message : messages) take(loop, message);
            ended_by = messages.status();
        }
    }
    void take(rte::loop loop, const rte::received &message)
    {
        const std::uint64_t who = message.session();
        switch (message.kind()) {
        case RTE_ATTACH:
            if (message.user() == 13) { said += loop.push(rte::rejected(who, -1013).tag(message.tag())) == RTE_OK ? 1 : 0; break; }
            said += loop.push(rte::attached(who).tag(message.tag()).generation(message.generation())) == RTE_OK ? 1 : 0;
            break;
        case RTE_ACTION: {
            const std::int64_t *const times = message.get(length);
            const std::string_view    words = message.text(text);
            for (std::int64_t i = 0; i < (times == nullptr ? 1 : *times); ++i)
                said += loop.push(rte::chunk(who, index++, words.data(), words.size()).tag(message.tag()).tick(9).frames(2).heavy_tag(4)) == RTE_OK ? 1 : 0;
            if (words == "fail") said += loop.push(rte::row_failed(who, -1005).stage(3)) == RTE_OK ? 1 : 0;
            break;
        }
        case RTE_DETACH: said += loop.push(rte::detached(who)) == RTE_OK ? 1 : 0; break;
        default: break;
        }
    }
    std::uint64_t index    = 0;
    int           said     = 0;
    rte_status    ended_by = RTE_OK;
};

void a_loop()
{
    const auto   echo = std::make_shared<Echo>();
    rte::model   model("echo");
    rte::options options;
    options.outbox_depth = 16;
    model.sessions(4).chunk_bytes(16).keys(text, length).methods(echo);
    rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
    (void)engine.push(rte::attach(1).tag(5));
    (void)engine.push(rte::attach(2).user(13).tag(6));
    (void)engine.push(rte::action(1).tag(7), text("hello"), length(3));
    (void)engine.push(rte::action(1), text("fail"));
    engine.start().or_throw();
    int  chunks = 0, notices = 0;
    bool is_right = true;
    while (notices < 4 && engine.wait() == RTE_OK)
        for (const rte::output &out : engine.outputs()) {
            if (out.is_chunk()) {
                const std::string_view words(out.data_as<char>().data(), out.data().size());
                is_right = is_right && out.index() == static_cast<std::uint64_t>(chunks) && out.frames() == 2 && out.heavy_tag() == 4 && out.tick() == 9;
                is_right = is_right && words == (chunks < 3 ? "hello" : "fail") && out.tag() == (chunks < 3 ? 7U : 0U);
                ++chunks;
                continue;
            }
            ++notices;
            if (out.kind() == RTE_ATTACHED) is_right = is_right && out.session() == 1 && out.tag() == 5;
            if (out.kind() == RTE_REJECTED) is_right = is_right && out.session() == 2 && out.status() == -1013 && out.tag() == 6;
            if (out.kind() == RTE_ROW_FAILED) is_right = is_right && out.status() == -1005 && out.stage() == 3;
            if (out.kind() == RTE_ROW_FAILED) (void)engine.push(rte::drain(1)); // its chunks come first
        }
    CHECK("a loop of methods says what it was told", is_right && chunks == 4 && notices == 4);
    engine.stop().or_throw();
    CHECK("all of it was taken, and the range said why it ended", echo->said == 8 && (echo->ended_by == RTE_AGAIN || echo->ended_by == RTE_CLOSED));
}

// A device that does everything at once; the host's memory is its memory.
struct Device {
    std::vector<rte_event> waited, events;
    static Device &of(void *user) { return *static_cast<Device *>(user); }
    rte_backend    backend()
    {
        rte_backend b{};
        b.struct_size = sizeof b;
        b.user        = this;
        b.stream_new  = [](void *user, std::uint32_t, rte_stream *out) noexcept { return *out = static_cast<rte_stream>(user), rte_status{RTE_OK}; };
        b.stream_free = [](void *, rte_stream) noexcept {};
        b.event_new   = [](void *user, rte_event *out) noexcept { return *out = static_cast<rte_event>(user), rte_status{RTE_OK}; };
        b.event_free  = [](void *, rte_event) noexcept {};
        b.record      = [](void *, rte_event, rte_stream) noexcept { return rte_status{RTE_OK}; };
        b.wait        = [](void *user, rte_stream, rte_event event) noexcept { return of(user).waited.push_back(event), rte_status{RTE_OK}; };
        b.query       = [](void *user, rte_event event) noexcept { return rte_status{event == of(user).late ? RTE_AGAIN : RTE_OK}; };
        b.sync        = [](void *, rte_event, std::uint64_t) noexcept { return rte_status{RTE_OK}; };
        return b;
    }
    rte_event late = nullptr;
};

constexpr rte::key<rte::bytes> picture{0, "picture"};

void a_device()
{
    Device            device;
    char              event = 0, memory[4] = {'a', 'b', 'c', 'd'}, out[2] = {'x', 'y'};
    int               given_back = 0, released = 0, ready = 0;
    const void       *seen     = nullptr;
    std::uint64_t     revision = 0;
    const auto        passes   = static_cast<cudaEvent_t>(static_cast<void *>(&event));
    const rte_backend backend  = device.backend();
    device.late                = passes;
    {
        rte::model model("device");
        model.sessions(1).chunk_bytes(8).keys(picture).flags(RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT)
            .hot("hot", [&](rte::batch batch, cudaStream_t) {
                for (rte::row row : batch) {
                    const rte_value &value = row.value(picture);
                    seen = value.data, revision = value.revision;
                    row.finish(out, sizeof out);
                }
            })
            .release_output([&](void *data) { given_back += data == out ? 1 : 0; });
        rte::options options;
        options.lanes      = RTE_LANES_HOST;
        options.backend    = &backend;
        rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
        (void)engine.push(rte::attach(1));
        EQUAL("values on a device are pushed", engine.push(rte::action(1).ready(passes).release([](void *n) { ++*static_cast<int *>(n); }, &released), picture.device(memory, sizeof memory, 5)), RTE_OK);
        EQUAL("a device's tick", engine.tick(rte::forever), RTE_OK);
        for (rte::output &chunk : engine.outputs()) {
            ready += chunk.is_chunk() && chunk.ready() != nullptr && chunk.raw().data == out && chunk.data().size() == 2 ? 1 : 0;
            chunk.release(static_cast<cudaStream_t>(static_cast<void *>(&device)));
        }
        EQUAL("an output on a device has its event", ready, 1);
        device.late = nullptr;
    }
    CHECK("a stage saw the pointer and its revision", seen == memory && revision == 5);
    CHECK("behind the message's event", std::count(device.waited.begin(), device.waited.end(), passes) >= 1);
    CHECK("each went back once", given_back == 1 && released == 1);
}

// What one stage wrote in a block lies in its place.
void a_block()
{
    rte::model model("block");
    model.sessions(3).chunk_bytes(64).flags(RTE_MODEL_OUTPUT_BLOCK).hot("hot", [](rte::batch batch) {
        const rte::view<std::byte> block = batch.block();
        for (std::size_t at = 0; at < block.size(); ++at) block[at] = static_cast<std::byte>(at / 64);
        for (rte::row row : batch) row.finish(64);
    });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    for (std::uint64_t session = 0; session < 3; ++session) (void)engine.push(rte::attach(session));
    (void)engine.tick();
    std::size_t right = 0;
    for (const rte::output &out : engine.outputs())
        if (out.is_chunk()) right += static_cast<std::size_t>(std::count(out.data().begin(), out.data().end(), static_cast<std::byte>(out.session())));
    EQUAL("a block is the outputs of all rows", right, std::size_t{192});
}

// A batch that is the whole arena, and rows that say what is to become of them.
void rows()
{
    std::uint32_t ranged = 0, whole = 0;
    rte_status    why    = RTE_OK;
    rte::model    model("rows");
    model.sessions(8).chunk_bytes(8).flags(RTE_MODEL_DENSE)
        .hot("hot", [&](rte::batch batch) {
            whole = batch.count();
            for (rte::row row : batch) {
                ++ranged;
                if (row.age() == 2) row.fail(-1007);
                else row.finish(1);
            }
        })
        .detach([&](rte::batch batch) { for (rte::row row : batch) why = row.status(); });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    (void)engine.push(rte::attach(5).user(6));
    for (int i = 0; i < 3; ++i) (void)engine.tick();
    CHECK("rows that are padding are left out", whole == 8 && ranged == 3);
    int failed = 0, chunks = 0;
    for (const rte::output &out : engine.outputs()) {
        chunks += out.is_chunk() && out.user() == 6 ? 1 : 0;
        failed += out.kind() == RTE_ROW_FAILED && out.session() == 5 && out.status() == -1007 ? 1 : 0;
    }
    CHECK("a row fails alone", failed == 1 && chunks == 2);
    EQUAL("what a range has gone past is given back", engine.info(5)->held, 0U);
    (void)engine.push(rte::detach(5));
    (void)engine.tick();
    EQUAL("detach is told why", why, -1007);
    const bool kinds = rte::attach(1).raw().kind == RTE_ATTACH && rte::detach(1).raw().flags == 0 && rte::drain(1).raw().kind == RTE_DETACH
                    && rte::drain(1).raw().flags == RTE_DRAIN && rte::reset(1).raw().kind == RTE_RESET && rte::action(1).raw().flags == 0
                    && rte::partial(1).raw().kind == RTE_ACTION && rte::partial(1).raw().flags == RTE_PARTIAL && rte::pause(1).raw().kind == RTE_PAUSE
                    && rte::resume(1).generation(3).raw().kind == RTE_RESUME && rte::resume(1).generation(3).raw().generation == 3;
    CHECK("each message is of its kind", kinds);
}

void views()
{
    std::vector<std::uint64_t>           due = {2, 3};
    const rte::view<const std::uint64_t> of_vector = due;
    CHECK("a view of a vector", of_vector.data() == due.data() && of_vector.size() == 2 && of_vector[1] == 3);
    const std::uint64_t                  fixed[] = {4, 5, 6};
    const rte::view<const std::uint64_t> of_array = fixed;
    EQUAL("a view of an array", std::accumulate(of_array.begin(), of_array.end(), std::uint64_t{0}), 15U);
    const rte::view<std::uint64_t> mutable_view = due;
    const rte::view<const std::uint64_t> same   = mutable_view;
    CHECK("a view that may not write of one that may", same.data() == due.data() && !same.empty() && rte::view<int>().empty());
    static_assert(!std::is_constructible_v<rte::view<std::uint64_t>, const std::vector<std::uint64_t> &>);
    static_assert(!std::is_constructible_v<rte::view<std::uint64_t>, std::vector<std::uint32_t> &>);
#if __cplusplus >= 202002L
    const std::span<const std::uint64_t> span     = rte::view<std::uint64_t>(due);
    const rte::view<const std::uint64_t> of_span  = span;
    const bool                           is_there = span.data() == due.data() && of_span.data() == span.data() && of_span.size() == 2;
#else
    const bool is_there = true;
#endif
    CHECK("a view is a span where there is one", is_there);
    std::vector<std::uint64_t> stepped;
    rte::model                 model("due");
    model.sessions(4).chunk_bytes(1).hot("hot", [&](rte::batch batch) { stepped.assign(batch.sessions().begin(), batch.sessions().end()); });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    for (std::uint64_t session = 1; session < 4; ++session) (void)engine.push(rte::attach(session));
    CHECK("a step of those who are due", engine.step(due) == RTE_OK && stepped == due);
}

rte::model counting()
{
    rte::model model("counting");
    model.sessions(1).chunk_bytes(8).hot("hot", [](rte::batch batch) {
        for (rte::row row : batch) {
            row.output_as<std::uint64_t>()[0] = row.session() + row.age();
            row.finish(8);
        }
    });
    return model;
}

std::uint64_t sum_of_five_ticks(rte::engine &engine)
{
    for (std::uint64_t session = 1; session < 4; ++session) (void)engine.push(rte::attach(session * 10));
    for (int i = 0; i < 5; ++i) (void)engine.tick();
    std::uint64_t sum = 0;
    for (const rte::output &out : engine.outputs())
        if (out.is_chunk()) sum += out.data_as<std::uint64_t>()[0];
    return sum;
}

void a_replica()
{
    rte_model table{};
    table.struct_size        = sizeof table;
    const rte_replica_fn make = [](void *, rte_model *child) noexcept { return *child = counting().release(), rte_status{RTE_OK}; };
    rte::options options;
    options.outbox_depth = 8;
    EQUAL("a model is a replica's child", rte_replica_model(&table, 4, make, nullptr), RTE_OK);
    rte::engine engine = rte::engine::make(table, options).or_throw();
    EQUAL("children of three sessions count", sum_of_five_ticks(engine), std::uint64_t{5 * (10 + 20 + 30) + 3 * 10});

    rte_model reference{};
    reference.struct_size = sizeof reference;
    EQUAL("the built-in model", rte_reference_model(&reference), RTE_OK);
    CHECK("is an engine's", static_cast<bool>(rte::engine::make(reference)));
    EQUAL("once more", rte_reference_model(&reference), RTE_OK);
    reference.max_sessions = 0;
    EQUAL("what is refused has been destroyed", rte::engine::make(reference).status(), RTE_ERR_ARGUMENT);
}

void a_record()
{
    const char *const path = "wrapper_model.record";
    rte::options      options;
    options.outbox_depth = 8;
    std::uint64_t first = 0, again = 0;
    {
        rte::options recorded = options;
        recorded.record_path  = path;
        recorded.trace_path   = "wrapper_model.json";
        rte::engine engine    = rte::engine::make(counting().sessions(3).release(), recorded).or_throw();
        first                 = sum_of_five_ticks(engine);
        engine.stop().or_throw();
    }
    rte::engine engine = rte::engine::make(counting().sessions(3).release(), options).or_throw();
    CHECK("a record is replayed", static_cast<bool>(engine.replay(path)));
    for (const rte::output &out : engine.outputs())
        if (out.is_chunk()) again += out.data_as<std::uint64_t>()[0];
    CHECK("to the same chunks", first != 0 && again == first);
    const rte::result<void> none = rte::engine::make(counting()).or_throw().replay("no/such/file");
    CHECK("a replay of none says so", none.status() == RTE_ERR_ARGUMENT && none.error().message.find("no/such/file") != std::string::npos);
}

} // namespace

int main() // NOLINT(bugprone-exception-escape): what comes out here fails the test
{
    a_class();
    a_throwing_on_output();
    a_loop();
    a_device();
    a_block();
    rows();
    views();
    a_replica();
    a_record();
    return finish();
}
