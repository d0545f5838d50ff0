// cuda: sixteen sessions of one model on a GPU, whose state never leaves it.
//
//     steers, by row --ACTION--> [ HOT: some steps of a flow; fp32 state, bf16 weights        -> latent[slot] ]
//                                [ DEFERRED, meanwhile: latent of chunk N-1 -> 1024 samples ] --> CHUNK
//     a prompt       --ACTION--> [ ENCODE: a tenth of a second of the whole GPU, at the lowest priority       ]
//
// First what is right: sessions that join, leave and change their prompt are held against plain loops on the processor, and
// against themselves alone, bit for bit. Then the same with chunks that stay on the device, where a consumer reads them on a
// stream of its own. Then what it costs: how far the lanes overlap, and what others notice of an encode.
//
//     make bin/06_cuda && ./bin/06_cuda [ENCODE_MS [SECONDS [POSITIONS [STEPS]]]]
//
// An encode takes 100 ms, each measurement of others 2 s, unless you say otherwise; a prompt has 8192 positions, of a block
// each, which fills a large GPU; a chunk is 32 steps.
//
// Ends with "ok: ..." and 0, with 1 when a check failed, with 77 where there is no GPU. Times are printed, and nothing depends
// on them.
#include "06_cuda_reference.h"
#include "06_cuda_session.h"
#include "06_cuda_times.h"
#include <cstdlib>

namespace {

enum : uint32_t { CHUNKS = 24, TURN = 10, LEAVER = 5, LEAVES = 12, KEEPER = 3 };
enum : uint64_t { FIRST = 700 }; // the sessions' names

const uint32_t sampled[] = {0, 7, 15};
const Work     light     = {3, 2, {24, 2}}; // what the processor can follow

// All that a session is told follows from its name and its age.
const char *prompt_of(uint32_t player, uint64_t age)
{
    static const char *const before[] = {"a castle at dawn", "an empty subway", "a coral reef", "rain on a tin roof"};
    return age < TURN ? before[player % 4] : "a volcano at night";
}

float steer_of(uint32_t player, uint64_t age, uint32_t i) { return 0.5f * noise(player + 1, static_cast<uint32_t>(age) * STEERS + i); }

struct Heard {
    std::vector<float> chunks[CHUNKS];
    uint64_t           seen = 0;
    bool               is_over = false;
};

// Sums up chunks where they are, on a stream of its own, and keeps some for a while before it looks at them.
class Reader {
public:
    bool begin()
    {
        return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess &&
               sums_.take(std::vector<uint32_t>(ROWS * CHUNKS));
    }
    void end() { (void)cudaStreamDestroy(stream_); }

    // The output is the reader's now: what is left of it is empty, and its release does nothing.
    void take(rte_output &output, uint32_t player, uint64_t tick)
    {
        kept_.push_back(Kept{output, player * CHUNKS + static_cast<uint32_t>(output.index), player == KEEPER ? tick + 20 : 0});
        output = rte_output();
    }

    // At those whose time has come.
    void look(uint64_t tick)
    {
        for (size_t at = 0; at < kept_.size();) {
            if (kept_[at].until > tick) {
                ++at;
                continue;
            }
            Kept kept = kept_[at];
            kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
            (void)cudaStreamWaitEvent(stream_, kept.output.ready, 0);
            launch_digest(kept.output.data, sums_.get() + kept.place, stream_);
            rte_output_release(&kept.output, stream_); // it is reused when the stream has come here
            ++read;
        }
    }

    bool sums(std::vector<uint32_t> &out)
    {
        out.resize(ROWS * CHUNKS);
        const size_t size = out.size() * sizeof(uint32_t);
        return cudaMemcpyAsync(out.data(), sums_.get(), size, cudaMemcpyDeviceToHost, stream_) == cudaSuccess &&
               cudaStreamSynchronize(stream_) == cudaSuccess;
    }

    uint32_t read = 0;

private:
    struct Kept {
        rte_output output;
        uint32_t   place;
        uint64_t   until;
    };

    cudaStream_t      stream_ = nullptr;
    Array<uint32_t>   sums_;
    std::vector<Kept> kept_;
};

// Flies the given players, who join one tick after the other. One of many leaves early.
std::vector<Heard> fly(const std::vector<uint32_t> &players, uint32_t flags, Reader *reader)
{
    std::vector<Heard> heard(ROWS);
    Model              model(light);
    rte_engine_options options = default_options();
    options.held_max = 24; // what the reader keeps
    Engine     engine(model.table(flags, 0), options);
    size_t     over = 0;
    for (uint64_t tick = 0; over < players.size(); ++tick) {
        for (uint32_t at = 0; at < players.size() && at <= tick; ++at) {
            const uint32_t player = players[at];
            if (heard[player].is_over) continue;
            const uint64_t age = engine.age_of(FIRST + player);
            if (at == tick) engine.attach(FIRST + player, prompt_of(player, 0));
            if (age == CHUNKS || (player == LEAVER && age == LEAVES && players.size() > 1)) {
                engine.detach(FIRST + player); // what it has made still comes
                continue;
            }
            const float steers[STEERS] = {steer_of(player, age, 0), steer_of(player, age, 1)};
            engine.act(FIRST + player, age + 1, steers, age == TURN ? prompt_of(player, TURN) : nullptr);
        }
        engine.tick();
        for (rte_output output; engine.pop(output);) {
            const auto player = static_cast<uint32_t>(output.session - FIRST);
            over += output.kind == RTE_DETACHED && !heard[player].is_over;
            heard[player].is_over |= output.kind == RTE_DETACHED;
            expect(output.kind != RTE_REJECTED && output.kind != RTE_ROW_FAILED && output.kind != RTE_TICK_FAILED, "nothing fails");
            if (output.kind == RTE_CHUNK && output.index < CHUNKS) {
                Heard &h = heard[player];
                expect(output.index == h.seen++ && output.dropped == 0, "no chunk is missing");
                expect(output.tag == output.index + 1, "each step sees the steer that was pushed for it");
                expect((output.ready != nullptr) == (reader != nullptr), "chunks on the device have an event, others none");
                const auto *samples = static_cast<const float *>(output.data);
                if (reader) reader->take(output, player, tick);
                else h.chunks[output.index].assign(samples, samples + SAMPLES);
            }
            rte_output_release(&output, nullptr);
        }
        if (reader) reader->look(tick);
    }
    if (reader) reader->look(UINT64_MAX);
    engine.stop();
    return heard;
}

// The greatest difference of a player's chunks from the reference's.
float difference(const Reference &reference, const Heard &heard, uint32_t player)
{
    Reference::Vector state = Reference::seed(FIRST + player), text[2];
    float             greatest = 0.0f;
    for (uint32_t turn : {0, 1}) text[turn] = reference.text_of(prompt_of(player, turn * TURN), light.effort);
    for (uint32_t age = 0; age < heard.seen; ++age) {
        const float             steers[STEERS] = {steer_of(player, age, 0), steer_of(player, age, 1)};
        const Reference::Vector samples        = reference.chunk(state, text[age >= TURN], steers, light);
        for (uint32_t i = 0; i < SAMPLES; ++i) {
            const float off = std::fabs(samples[i] - heard.chunks[age][i]);
            if (!(off <= greatest)) greatest = off; // also what is not a number
        }
    }
    return greatest;
}

uint32_t digest_of(const std::vector<float> &chunk)
{
    uint32_t sum = 0, word;
    for (uint32_t i = 0; i < SAMPLES; ++i) {
        std::memcpy(&word, &chunk[i], sizeof word);
        sum += share_of(word, i);
    }
    return sum;
}

void check(char *summary, size_t size)
{
    std::vector<uint32_t> all;
    for (uint32_t player = 0; player < ROWS; ++player) all.push_back(player);
    const std::vector<Heard> together = fly(all, 0, nullptr);
    for (uint32_t player : all)
        expect(together[player].seen >= (player == LEAVER ? LEAVES : CHUNKS), "all chunks have come");

    const Reference reference;
    float           greatest = 0.0f;
    for (uint32_t player : sampled) {
        greatest = std::fmax(greatest, difference(reference, together[player], player));
        expect(difference(reference, together[player], player) <= TOLERANCE, "a session is what the reference makes of it");
        const std::vector<Heard> alone = fly({player}, 0, nullptr);
        for (uint32_t age = 0; age < CHUNKS; ++age)
            expect(std::memcmp(alone[player].chunks[age].data(), together[player].chunks[age].data(), CHUNK) == 0,
                   "a session is the same alone, to the last bit");
    }

    Reader reader;
    if (!reader.begin()) fatal("the reader's stream");
    const std::vector<Heard> kept = fly(all, RTE_MODEL_DEVICE_OUTPUT, &reader);
    std::vector<uint32_t>    sums;
    expect(reader.sums(sums), "the reader's stream comes to its end");
    for (uint32_t player : all)
        for (uint32_t age = 0; age < kept[player].seen && age < together[player].seen; ++age)
            expect(sums[player * CHUNKS + age] == digest_of(together[player].chunks[age]), "a chunk on the device is the same");
    expect(reader.read >= (ROWS - 1) * CHUNKS + LEAVES, "all of them were read");
    reader.end();
    std::snprintf(summary, size,
                  "%u sessions, %zu of them within %.5f of the reference (%.5f allowed) and alone the same bits; "
                  "%u chunks read on the device",
                  static_cast<unsigned>(ROWS), sizeof sampled / sizeof *sampled, static_cast<double>(greatest),
                  static_cast<double>(TOLERANCE), reader.read);
}

} // namespace

int main(int count, char **arguments)
{
    const double  encode_ms = count > 1 ? std::atof(arguments[1]) : 100.0;
    const double  seconds   = count > 2 ? std::atof(arguments[2]) : 2.0;
    const auto    positions = static_cast<uint32_t>(count > 3 ? std::atoi(arguments[3]) : 8192);
    const auto    steps     = static_cast<uint32_t>(count > 4 ? std::atoi(arguments[4]) : 32);
    char          summary[256], why[256];
    if (encode_ms <= 0.0 || seconds <= 0.0 || positions == 0 || steps == 0)
        return std::puts("06_cuda [ENCODE_MS [SECONDS [POSITIONS [STEPS]]]]"), 1;
    if (!has_gpu(why, sizeof why)) return std::printf("skipped: %s\n", why), 77;

    check(summary, sizeof summary);
    measure(encode_ms, seconds, positions, steps);
    if (failures) return 1;
    std::printf("ok: %s\n", summary);
    return 0;
}
