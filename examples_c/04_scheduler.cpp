// scheduler: continuous batching with a loop of its own. The engine calls Scheduler::serve on its thread; that pops requests
// from the inbox and pushes tokens to the outbox, and decides all the rest: who runs, who waits, who is preempted.
//
//     two clients --ATTACH--> [ waiting queue -> running batch over a budget of KV blocks ] --chunk: a token--> main checks
//
// A request is a session: ATTACH carries its prompt, each chunk is a token, DETACHED says that it is over. When the blocks run
// out the youngest request gives its own back and waits; it is prefilled again later, and its client sees no gap.
//
// Ends with "ok: ..." and 0.
#include "rte.h"
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace {

enum { PROMPT, LENGTH, KEYS };
enum : uint32_t { CLIENTS = 2, REQUESTS = 400, WINDOW = 24, SESSIONS = CLIENTS * WINDOW };

const uint32_t BLOCK  = 16; // tokens
const uint32_t BLOCKS = 48;
const size_t   BATCH  = 16; // requests at most in one step

// ---- the model: the next token follows from all tokens before it, wherever their blocks lie

uint32_t fold(uint32_t state, uint32_t token) { return (state ^ token) * 16777619u; }
uint32_t token_of(uint32_t state) { return state >> 8; }

class KvCache {
public:
    KvCache() : tokens_(BLOCKS * BLOCK)
    {
        for (uint32_t block = 0; block < BLOCKS; ++block) free_.push_back(block);
    }

    size_t   free() const { return free_.size(); }
    uint32_t take()
    {
        const uint32_t block = free_.back();
        free_.pop_back();
        return block;
    }
    void give(std::vector<uint32_t> &blocks)
    {
        free_.insert(free_.end(), blocks.begin(), blocks.end());
        blocks.clear();
    }
    uint32_t &at(const std::vector<uint32_t> &blocks, size_t position)
    {
        return tokens_[blocks[position / BLOCK] * BLOCK + position % BLOCK];
    }

private:
    std::vector<uint32_t> tokens_;
    std::vector<uint32_t> free_;
};

// ---- the scheduler

struct Request {
    uint64_t              session, generation, tag;
    std::vector<uint32_t> tokens; // the prompt's, then those made: what a preempted request is prefilled from
    std::vector<uint32_t> blocks; // of the first `cached` of them
    size_t                prompt, cached, length, delivered;
    bool                  was_told, has_left;
};

class Scheduler {
public:
    uint64_t steps = 0, preemptions = 0, most = 0; // read after the stop

    static rte_status serve(void *self, rte_engine *engine) noexcept
    {
        try {
            return static_cast<Scheduler *>(self)->loop(engine);
        } catch (...) { // no exception may cross into the library
            return RTE_ERR_CALLBACK;
        }
    }

private:
    rte_status loop(rte_engine *engine)
    {
        for (;;) {
            // Asleep only when there is nothing to do. A message ends it, and the client that takes a token we hold others
            // back for.
            const rte_status status = rte_inbox_wait(engine, is_busy_ ? 0 : UINT64_MAX);
            if (status == RTE_CLOSED) return RTE_OK; // a stop was asked for
            if (status < 0) return status;
            is_busy_ = false;
            rte_message message;
            while (rte_inbox_pop(engine, &message) == RTE_OK) take(message);
            admit();
            step();
            deliver(engine, running_);
            deliver(engine, waiting_);
        }
    }

    void take(const rte_message &message)
    {
        if (message.kind == RTE_DETACH) return leave(message.session);
        if (message.kind == RTE_RESET) forget(message.session); // its life before is over
        if (message.kind != RTE_ATTACH && message.kind != RTE_RESET) return;
        Request r = Request();
        r.session = message.session; r.generation = message.generation; r.tag = message.tag;
        for (size_t i = 0; i < message.value_count; ++i) { // the values are ours to read until the next pop
            const rte_value &value = message.values[i];
            const auto      *bytes = static_cast<const unsigned char *>(value.data);
            if (value.key == PROMPT) r.tokens.assign(bytes, bytes + value.size);
            int64_t length = 0;
            if (value.key == LENGTH && value.size == sizeof length) {
                std::memcpy(&length, value.data, sizeof length);
                r.length = static_cast<size_t>(length);
            }
        }
        r.prompt = r.tokens.size();
        waiting_.push_back(std::move(r));
    }

    void leave(uint64_t session)
    {
        for (std::list<Request> *queue : {&running_, &waiting_})
            for (Request &r : *queue)
                if (r.session == session) r.has_left = true;
    }

    void forget(uint64_t session)
    {
        for (std::list<Request> *queue : {&running_, &waiting_})
            queue->remove_if([this, session](Request &r) {
                if (r.session == session) kv_.give(r.blocks);
                return r.session == session;
            });
    }

    // First come, first served, as long as there are blocks for what is to be prefilled.
    void admit()
    {
        while (!waiting_.empty() && running_.size() < BATCH) {
            Request &r = waiting_.front();
            if (kv_.free() < r.tokens.size() / BLOCK + 1) return;
            for (; r.cached < r.tokens.size(); ++r.cached) {
                if (r.cached % BLOCK == 0) r.blocks.push_back(kv_.take());
                kv_.at(r.blocks, r.cached) = r.tokens[r.cached];
            }
            running_.splice(running_.end(), waiting_, waiting_.begin());
        }
    }

    // One token for each request of the batch whose client has taken the one before.
    void step()
    {
        uint64_t made = 0;
        for (auto it = running_.begin(); it != running_.end(); ++it) {
            const size_t so_far = it->tokens.size() - it->prompt;
            if (it->has_left || !it->was_told || it->delivered < so_far || so_far == it->length) continue;
            if (it->cached % BLOCK == 0 && !reserve(it)) break;
            forward(*it);
            ++made;
        }
        steps += made > 0;
        most = std::max(most, made);
        is_busy_ |= made > 0;
    }

    // A block for a request; the youngest are preempted until there is one. False: it was the youngest itself.
    bool reserve(std::list<Request>::iterator it)
    {
        while (kv_.free() == 0) {
            const bool is_youngest = std::next(it) == running_.end();
            kv_.give(running_.back().blocks);
            running_.back().cached = 0;
            waiting_.splice(waiting_.begin(), running_, std::prev(running_.end()));
            ++preemptions;
            if (is_youngest) return false;
        }
        it->blocks.push_back(kv_.take());
        return true;
    }

    void forward(Request &r)
    {
        uint32_t state = 2166136261u;
        for (size_t position = 0; position < r.cached; ++position) state = fold(state, kv_.at(r.blocks, position));
        kv_.at(r.blocks, r.cached++) = token_of(state);
        r.tokens.push_back(token_of(state));
    }

    // What each client is to be told.
    void deliver(rte_engine *engine, std::list<Request> &queue)
    {
        for (auto it = queue.begin(); it != queue.end();) {
            Request &r = *it;
            if (!r.was_told) r.was_told = say(engine, r, RTE_ATTACHED);
            if (r.was_told && !r.has_left && r.delivered < r.tokens.size() - r.prompt) r.delivered += say(engine, r, RTE_CHUNK);
            if ((r.has_left || r.delivered == r.length) && say(engine, r, RTE_DETACHED)) {
                kv_.give(r.blocks);
                it = queue.erase(it);
            } else {
                ++it;
            }
        }
    }

    // False: there is no room. Of a token (RTE_HOLD) we are told when there is; a notice is tried again.
    bool say(rte_engine *engine, const Request &r, uint32_t kind)
    {
        rte_output output = rte_output();
        output.kind = kind; output.session = r.session; output.generation = r.generation;
        output.tag = r.tag; output.tick = steps;
        if (kind == RTE_CHUNK) {
            output.index = r.delivered;
            output.data  = &r.tokens[r.prompt + r.delivered];
            output.size  = sizeof(uint32_t);
        }
        const bool is_taken = rte_outbox_push(engine, &output) != RTE_AGAIN; // copies
        is_busy_ |= is_taken || kind != RTE_CHUNK;
        return is_taken;
    }

    KvCache            kv_;
    std::list<Request> running_, waiting_; // running: oldest first
    bool               is_busy_ = true;
};

// ---- the clients

uint32_t random_of(uint32_t &state)
{
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

// What a client asked for, and how far its tokens were seen to be right.
struct Asked {
    uint32_t state;  // of the model after all tokens so far
    uint64_t length, seen, cancel_at; // cancel_at: hangs up after so many
    bool     is_over;
};

struct Client {
    uint32_t                number, in_flight, pushed;
    std::mutex              lock;
    std::condition_variable room;
};

Asked       asked[CLIENTS * REQUESTS];
rte_engine *engine;

bool submit(uint64_t session, uint32_t &random)
{
    unsigned char prompt[120];
    const size_t  size   = 8 + random_of(random) % 100;
    const int64_t length = 16 + random_of(random) % 48;
    Asked        &mine   = asked[session];
    mine.state  = 2166136261u;
    mine.length = static_cast<uint64_t>(length);
    mine.cancel_at = random_of(random) % 10 == 0 ? mine.length / 2 : UINT64_MAX;
    for (size_t i = 0; i < size; ++i) {
        prompt[i]  = static_cast<unsigned char>(random_of(random));
        mine.state = fold(mine.state, prompt[i]);
    }
    rte_value values[2] = {rte_value(), rte_value()};
    values[0].key = PROMPT; values[0].data = prompt;  values[0].size = size;
    values[1].key = LENGTH; values[1].data = &length; values[1].size = sizeof length;
    rte_message attach = rte_message();
    attach.kind = RTE_ATTACH; attach.session = session; attach.tag = session + 1;
    attach.values = values; attach.value_count = 2;
    rte_status status;
    while ((status = rte_inbox_push(engine, &attach)) == RTE_AGAIN) std::this_thread::yield();
    return status == RTE_OK;
}

void run_client(Client &client)
{
    uint32_t random = client.number + 1;
    for (uint64_t i = 0; i < REQUESTS; ++i) {
        std::unique_lock<std::mutex> guard(client.lock);
        client.room.wait(guard, [&client] { return client.in_flight < WINDOW; });
        ++client.in_flight;
        guard.unlock();
        if (!submit(client.number * REQUESTS + i, random)) return;
        guard.lock();
        ++client.pushed;
        client.room.notify_all();
    }
}

// Checks one output; says what is wrong with it.
const char *check(const rte_output &output, uint64_t &tokens, uint32_t &over, Client *clients)
{
    Asked &mine = asked[output.session];
    if (output.kind == RTE_CHUNK) {
        uint32_t token;
        std::memcpy(&token, output.data, sizeof token);
        if (mine.is_over) return "a token after the end";
        if (mine.seen >= mine.cancel_at) return nullptr; // it has hung up: what still comes is what was not dropped just then
        if (output.index != mine.seen || output.dropped != 0) return "a token is missing";
        if (token != token_of(mine.state)) return "a wrong token";
        mine.state = fold(mine.state, token);
        ++tokens;
        if (++mine.seen == mine.cancel_at) {
            rte_message detach = rte_message();
            detach.kind = RTE_DETACH; detach.session = output.session;
            while (rte_inbox_push(engine, &detach) == RTE_AGAIN) std::this_thread::yield();
        }
    } else if (output.kind == RTE_DETACHED) {
        if (mine.is_over || mine.seen < std::min(mine.length, mine.cancel_at)) return "an end too early";
        mine.is_over = true;
        ++over;
        Client                     &client = clients[output.session / REQUESTS];
        std::lock_guard<std::mutex> guard(client.lock);
        --client.in_flight;
        client.room.notify_all();
    } else if (output.kind != RTE_ATTACHED || output.flags != 0) {
        return "a notice that nobody expects";
    }
    return nullptr;
}

} // namespace

int main()
{
    Scheduler scheduler;
    rte_key   keys[KEYS] = {rte_key(), rte_key()};
    keys[PROMPT].name = "prompt";
    keys[LENGTH].name = "length"; keys[LENGTH].type = RTE_I64; keys[LENGTH].size = sizeof(int64_t);

    rte_model model   = rte_model();
    model.struct_size = sizeof model;
    model.name = "scheduler"; model.user = &scheduler; model.serve = Scheduler::serve; // instead of stages
    model.max_sessions = SESSIONS;
    model.chunk_bytes  = sizeof(uint32_t);
    model.keys = keys; model.key_count = KEYS;

    rte_engine_options options = rte_engine_options();
    options.struct_size   = sizeof options;
    options.outbox_policy = RTE_HOLD; // no token is lost: a push without room is refused
    options.log           = rte_log_stderr;

    rte_error error;
    if (rte_engine_new(&model, &options, &engine, &error) != RTE_OK) return std::puts(error.message), 1;

    Client                   clients[CLIENTS];
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < CLIENTS; ++number) {
        clients[number].number    = number;
        clients[number].in_flight = clients[number].pushed = 0;
        threads.emplace_back(run_client, std::ref(clients[number]));
    }
    // The inbox is open before anybody drives the engine: all of a window is there when it starts.
    for (Client &client : clients) {
        std::unique_lock<std::mutex> guard(client.lock);
        client.room.wait(guard, [&client] { return client.pushed >= WINDOW; });
    }
    if (rte_engine_start(engine, &error) != RTE_OK) return std::puts(error.message), 1;

    uint64_t    tokens = 0;
    uint32_t    over   = 0;
    const char *wrong  = nullptr;
    while (over < CLIENTS * REQUESTS && !wrong && rte_outbox_wait(engine, UINT64_MAX) == RTE_OK) {
        rte_output output;
        while (!wrong && rte_outbox_pop(engine, &output) == RTE_OK) {
            wrong = check(output, tokens, over, clients);
            rte_output_release(&output, nullptr);
        }
    }
    if (wrong || over < CLIENTS * REQUESTS) {
        std::printf("%s\n", wrong ? wrong : "the engine ended");
        std::fflush(stdout);
        std::_Exit(1); // clients may still wait
    }
    for (std::thread &thread : threads) thread.join();
    const rte_status stopped = rte_engine_stop(engine, UINT64_MAX, &error);
    rte_engine_free(engine);
    std::printf("%u requests of %u clients: %llu tokens in %llu steps of at most %llu, in %u KV blocks; preempted %llu times\n",
                over, static_cast<unsigned>(CLIENTS), static_cast<unsigned long long>(tokens),
                static_cast<unsigned long long>(scheduler.steps), static_cast<unsigned long long>(scheduler.most),
                BLOCKS, static_cast<unsigned long long>(scheduler.preemptions));
    if (stopped != RTE_OK || scheduler.preemptions == 0) return std::puts("not stopped, or nobody was preempted"), 1;
    std::printf("ok: %u requests, each got its tokens in order, none missing\n", over);
    return 0;
}
