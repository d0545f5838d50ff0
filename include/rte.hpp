// rte for C++17 and later: what rte.h says, with destructors, typed keys and lambdas. Header-only; link the same librte.
//
//     constexpr rte::key<float[2]>   steer{0, "steer"};
//     constexpr rte::key<rte::bytes> prompt{1, "prompt", rte::heavy};
//
//     rte::model model("world");
//     model.sessions(64).chunk_bytes(4096).rate(60).keys(steer, prompt)
//          .hot("generate", [](rte::batch batch, rte_stream) {
//              for (rte::row row : batch) {
//                  const float *wheel = row.get(steer);                    // nullptr: absent
//                  row.finish(generate(row.index(), wheel, row.output())); // bytes written
//              }
//          })
//          .encode("digest", world, &World::digest);                       // a shared_ptr and a method
//
//     rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
//     engine.start().or_throw();
//     engine.push(rte::attach(7).tag(1), prompt("a castle"));
//     for (rte::output &out : engine.outputs()) draw(out.session(), out.data());
//
// Nothing here throws but what is named or_throw. A model's callback may throw: it fails as if it had returned
// RTE_ERR_CALLBACK, and the process lives. (Plain functions, of options and message::release, must not.) Nothing
// allocates after rte::engine::make but the messages of errors.
// Ownership, threads and what may be called in callbacks are as rte.h says; a C++ object adds no lock.
#ifndef RTE_HPP
#define RTE_HPP

#include "rte.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define RTE_HPP_EXCEPTIONS 1
#include <stdexcept>
#endif

namespace rte {

// ---- errors

// Why a call failed.
struct failure {
    rte_status  status = RTE_OK;
    std::string message; // names the field and its value
};

#ifdef RTE_HPP_EXCEPTIONS
// What or_throw throws.
class exception : public std::runtime_error {
public:
    explicit exception(const failure &why) : std::runtime_error(why.message), status_(why.status) {}
    [[nodiscard]] rte_status status() const noexcept { return status_; }

private:
    rte_status status_;
};
#endif

namespace detail {

[[noreturn]] inline void raise(const failure &why)
{
#ifdef RTE_HPP_EXCEPTIONS
    throw exception(why);
#else
    (void)why;
    std::abort();
#endif
}

inline failure why(rte_status status, const rte_error &error)
{
    return {status, error.status == status ? std::string(error.message) : std::string(rte_status_message(status))};
}

} // namespace detail

// A value, or why there is none.
template <class T> class [[nodiscard]] result {
public:
    result(T value) : value_(std::make_unique<T>(std::move(value))) {}
    result(failure why) : why_(std::move(why)) {}

    [[nodiscard]] explicit operator bool() const noexcept { return value_ != nullptr; }
    [[nodiscard]] rte_status     status() const noexcept { return why_.status; }
    [[nodiscard]] const failure &error() const noexcept { return why_; }

    // Only where there is one.
    [[nodiscard]] T       &operator*() noexcept { return *value_; }
    [[nodiscard]] const T &operator*() const noexcept { return *value_; }
    [[nodiscard]] T       *operator->() noexcept { return value_.get(); }

    // The value; throws rte::exception where there is none (ends the process where exceptions are off).
    T or_throw() &&
    {
        if (value_ == nullptr) detail::raise(why_);
        return std::move(*value_);
    }

private:
    std::unique_ptr<T> value_;
    failure            why_;
};

template <> class [[nodiscard]] result<void> {
public:
    result() = default;
    result(failure why) : why_(std::move(why)) {}

    [[nodiscard]] explicit operator bool() const noexcept { return why_.status == RTE_OK; }
    [[nodiscard]] rte_status     status() const noexcept { return why_.status; }
    [[nodiscard]] const failure &error() const noexcept { return why_; }

    void or_throw() const
    {
        if (why_.status != RTE_OK) detail::raise(why_);
    }

private:
    failure why_;
};

// ---- views

// So many items that somebody else owns. Converts to std::span where there is one.
template <class T> class view {
public:
    constexpr view() noexcept = default;
    constexpr view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    [[nodiscard]] constexpr T          *data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool        empty() const noexcept { return size_ == 0; }
    [[nodiscard]] constexpr T          *begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T          *end() const noexcept { return data_ + size_; }
    [[nodiscard]] constexpr T          &operator[](std::size_t at) const noexcept { return data_[at]; }

private:
    T          *data_ = nullptr;
    std::size_t size_ = 0;
};

// ---- keys

// The type of a key whose values have any size.
struct bytes {};

enum class weight : std::uint32_t { cheap = 0, heavy = RTE_KEY_HEAVY };
enum class merge : std::uint32_t { latest = RTE_MERGE_LATEST, sum = RTE_MERGE_SUM, any = RTE_MERGE_OR };
inline constexpr weight heavy = weight::heavy;
inline constexpr merge  sum   = merge::sum; // a step sees the sum of all since the last step
inline constexpr merge  any   = merge::any; // a step sees the bits of all since the last step

namespace detail {

template <class T> constexpr std::uint32_t element() noexcept
{
    using E = std::remove_all_extents_t<T>;
    if constexpr (std::is_same_v<E, float>) return RTE_F32;
    else if constexpr (std::is_same_v<E, double>) return RTE_F64;
    else if constexpr (std::is_integral_v<E> && std::is_signed_v<E> && sizeof(E) == 8) return RTE_I64;
    else if constexpr (std::is_integral_v<E> && std::is_unsigned_v<E> && sizeof(E) == 4) return RTE_U32;
    else return RTE_BYTES;
}

// What a typed value is carried in: arrays are copied, too.
template <class T> struct carried { using type = T; };
template <class T, std::size_t N> struct carried<T[N]> { using type = std::array<T, N>; };

} // namespace detail

// A value of a key, for engine::push. Holds a copy; of bytes a view.
template <class T> struct assignment {
    typename detail::carried<T>::type data;
    std::uint32_t                     index;
    std::uint64_t                     revision;

    [[nodiscard]] rte_value raw() const noexcept { return {&data, sizeof data, revision, index, 0}; }
};

template <> struct assignment<bytes> {
    std::string_view data;
    std::uint32_t    index;
    std::uint64_t    revision;
    std::uint32_t    flags;

    [[nodiscard]] rte_value raw() const noexcept { return {data.data(), data.size(), revision, index, flags}; }
};

// A key of the conditioning: its index in the model, its name, and as type what its values are: a number, an array
// (float[2]), a trivially copyable struct, or rte::bytes for any size.
template <class T> class key {
    static_assert(std::is_trivially_copyable_v<T>, "values are copied as bytes");

public:
    using value_type = std::remove_extent_t<T>; // what get points to

    constexpr key(std::uint32_t index, const char *name) noexcept : index_(index), name_(name) {}
    constexpr key(std::uint32_t index, const char *name, weight weight) noexcept
        : index_(index), weight_(weight), name_(name) {}
    constexpr key(std::uint32_t index, const char *name, merge merge) noexcept
        : index_(index), merge_(merge), name_(name) {}

    [[nodiscard]] constexpr std::uint32_t index() const noexcept { return index_; }
    [[nodiscard]] constexpr std::uint64_t bit() const noexcept { return std::uint64_t{1} << index_; }

    // This key with a value. `revision`: see rte_value.
    [[nodiscard]] assignment<T> operator()(typename detail::carried<T>::type value, std::uint64_t revision = 0) const
    {
        return {value, index_, revision};
    }

    [[nodiscard]] rte_key raw() const noexcept
    {
        return {name_, sizeof(T), detail::element<T>(), static_cast<std::uint32_t>(merge_), static_cast<std::uint32_t>(weight_), 0};
    }

private:
    std::uint32_t index_;
    weight        weight_ = weight::cheap;
    merge         merge_  = merge::latest;
    const char   *name_;
};

template <> class key<bytes> {
public:
    using value_type = char;

    constexpr key(std::uint32_t index, const char *name, weight weight = weight::cheap) noexcept
        : index_(index), weight_(weight), name_(name) {}

    [[nodiscard]] constexpr std::uint32_t index() const noexcept { return index_; }
    [[nodiscard]] constexpr std::uint64_t bit() const noexcept { return std::uint64_t{1} << index_; }

    // This key with a value, whose bytes the push copies.
    [[nodiscard]] assignment<bytes> operator()(std::string_view value, std::uint64_t revision = 0) const noexcept
    {
        return {value, index_, revision, 0};
    }

    // This key with bytes that stay the caller's, unchanged until the message's release has run.
    [[nodiscard]] assignment<bytes> lend(std::string_view value, std::uint64_t revision = 0) const noexcept
    {
        return {value, index_, revision, RTE_VALUE_BORROWED};
    }

    [[nodiscard]] rte_key raw() const noexcept { return {name_, 0, RTE_BYTES, RTE_MERGE_LATEST, static_cast<std::uint32_t>(weight_), 0}; }

private:
    std::uint32_t index_;
    weight        weight_;
    const char   *name_;
};

// ---- batches

// One row of a batch; valid as long as the batch.
class row {
public:
    row(rte_batch *batch, std::uint32_t at) noexcept : batch_(batch), at_(at) {}

    [[nodiscard]] std::uint32_t position() const noexcept { return at_; }
    [[nodiscard]] std::uint32_t index() const noexcept { return batch_->row[at_]; } // index your state by it
    [[nodiscard]] std::uint64_t session() const noexcept { return batch_->session[at_]; }
    [[nodiscard]] std::uint64_t user() const noexcept { return batch_->user[at_]; }
    [[nodiscard]] std::uint64_t generation() const noexcept { return batch_->generation[at_]; }
    [[nodiscard]] std::uint64_t age() const noexcept { return batch_->age[at_]; } // chunks made before this one

    // Whether the key differs from what this row's last successful batch on this lane saw.
    template <class T> [[nodiscard]] bool changed(const key<T> &key) const noexcept
    {
        return (batch_->changed[at_] & key.bit()) != 0;
    }

    // The value of a key with a fixed size: the value, or the first of an array. nullptr: absent.
    template <class T> [[nodiscard]] const typename key<T>::value_type *get(const key<T> &key) const noexcept
    {
        const rte_value &value = batch_->value[at_][key.index()];
        return value.size == 0 ? nullptr : static_cast<const typename rte::key<T>::value_type *>(value.data);
    }

    // The value of a key of bytes; empty: absent.
    [[nodiscard]] std::string_view text(const key<bytes> &key) const noexcept
    {
        const rte_value &value = batch_->value[at_][key.index()];
        return {static_cast<const char *>(value.data), value.size};
    }

    // The buffer of the chunk, in the lane that ends it; else empty.
    [[nodiscard]] view<std::byte> output() const noexcept
    {
        void *output = batch_->output == nullptr ? nullptr : batch_->output[at_];
        return {static_cast<std::byte *>(output), output == nullptr ? 0 : batch_->chunk_bytes};
    }

    template <class T> [[nodiscard]] view<T> output_as() const noexcept
    {
        const view<std::byte> output = this->output();
        return {reinterpret_cast<T *>(output.data()), output.size() / sizeof(T)};
    }

    // There is a chunk of so many bytes.
    void finish(std::size_t size) const noexcept { batch_->output_size[at_] = size; }
    void frames(std::uint32_t frames) const noexcept { batch_->frames[at_] = frames; }
    // This row alone fails. `status`: not RTE_OK; -1000 and below are yours.
    void fail(rte_status status) const noexcept { batch_->status[at_] = status; }
    // In detach: why the life ended.
    [[nodiscard]] rte_status status() const noexcept { return batch_->status[at_]; }

private:
    rte_batch    *batch_;
    std::uint32_t at_;
};

// The rows that one call works on. A range of rows; the padding of RTE_MODEL_DENSE is left out.
class batch {
public:
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type        = row;
        using difference_type   = std::ptrdiff_t;
        using pointer           = const row *;
        using reference         = row;

        iterator(rte_batch *batch, std::uint32_t at) noexcept : batch_(batch), at_(at) { skip(); }
        [[nodiscard]] row operator*() const noexcept { return {batch_, at_}; }
        iterator         &operator++() noexcept
        {
            ++at_;
            skip();
            return *this;
        }
        [[nodiscard]] bool operator==(const iterator &other) const noexcept { return at_ == other.at_; }
        [[nodiscard]] bool operator!=(const iterator &other) const noexcept { return at_ != other.at_; }

    private:
        void skip() noexcept
        {
            while (at_ < batch_->count && batch_->mask[batch_->row[at_]] == 0) ++at_;
        }

        rte_batch    *batch_;
        std::uint32_t at_;
    };

    explicit batch(rte_batch *raw) noexcept : batch_(raw) {}

    [[nodiscard]] iterator begin() const noexcept { return {batch_, 0}; }
    [[nodiscard]] iterator end() const noexcept { return {batch_, batch_->count}; }

    [[nodiscard]] std::uint32_t count() const noexcept { return batch_->count; } // padding too
    [[nodiscard]] std::uint32_t slot() const noexcept { return batch_->slot; }
    [[nodiscard]] std::uint64_t tick() const noexcept { return batch_->tick; }
    [[nodiscard]] std::uint32_t stage() const noexcept { return batch_->stage; }

    [[nodiscard]] view<const std::uint32_t> rows() const noexcept { return {batch_->row, batch_->count}; }
    [[nodiscard]] view<const std::uint64_t> sessions() const noexcept { return {batch_->session, batch_->count}; }
    [[nodiscard]] view<const std::uint64_t> ages() const noexcept { return {batch_->age, batch_->count}; }

    // The values of all rows in one array, zero where absent; of arrays all items one after the other.
    template <class T> [[nodiscard]] view<const std::remove_all_extents_t<T>> column(const key<T> &key) const noexcept
    {
        using E = std::remove_all_extents_t<T>;
        return {static_cast<const E *>(batch_->column[key.index()]), batch_->count * (sizeof(T) / sizeof(E))};
    }

    [[nodiscard]] rte_batch *raw() const noexcept { return batch_; }

private:
    rte_batch *batch_;
};

// ---- the model

namespace detail {

using call = std::function<rte_status(rte_batch *, rte_stream)>;

// Everything that a model's callbacks reach. Owned by the engine once that is made.
struct state {
    std::vector<call>                                                          stages;
    call                                                                       ready, seed, detach, finalize;
    std::function<rte_status(const rte_stream *)>                              init;
    std::function<rte_status(rte_engine *)>                                    serve;
    std::function<void(void *)>                                                release_output;
};

// Runs what may throw where nothing may.
template <class F> rte_status guarded(F &&function) noexcept
{
#ifdef RTE_HPP_EXCEPTIONS
    try {
        return function();
    } catch (...) {
        return RTE_ERR_CALLBACK;
    }
#else
    return function();
#endif
}

// A function that returns a status, or nothing for RTE_OK.
template <class F, class... A> rte_status answer(F &function, A... arguments)
{
    if constexpr (std::is_void_v<std::invoke_result_t<F &, A...>>) {
        std::invoke(function, arguments...);
        return RTE_OK;
    } else {
        return std::invoke(function, arguments...);
    }
}

// Takes (batch, stream) or (batch).
template <class F> call call_of(F function)
{
    return [function = std::move(function)](rte_batch *raw, rte_stream stream) mutable -> rte_status {
        if constexpr (std::is_invocable_v<F &, batch, rte_stream>) return answer(function, batch(raw), stream);
        else return answer(function, batch(raw));
    };
}

// A method of a shared object, which lives as long as the model.
template <class T, class M> auto bound(std::shared_ptr<T> object, M method)
{
    if constexpr (std::is_invocable_v<M, T &, batch, rte_stream>) {
        return [object = std::move(object), method](batch batch, rte_stream stream) { return std::invoke(method, *object, batch, stream); };
    } else {
        return [object = std::move(object), method](batch batch) { return std::invoke(method, *object, batch); };
    }
}

inline rte_status run_stage(void *user, rte_batch *batch, rte_stream stream)
{
    return guarded([&] { return static_cast<state *>(user)->stages[batch->stage](batch, stream); });
}

template <call state::*Hook> rte_status run_hook(void *user, rte_batch *batch, rte_stream stream)
{
    return guarded([&] { return (static_cast<state *>(user)->*Hook)(batch, stream); });
}

} // namespace detail

// A model: what it is, and its stages and hooks, as lambdas or as methods of a shared object. A stage or hook takes a
// batch, or a batch and a stream, and returns an rte_status, or nothing for RTE_OK. Names are kept by pointer: literals.
class model {
public:
    explicit model(const char *name = nullptr) : state_(std::make_unique<detail::state>()), table_{}
    {
        table_.struct_size = sizeof table_;
        table_.name        = name;
    }

    model &sessions(std::uint32_t most) noexcept { return table_.max_sessions = most, *this; }
    model &chunk_bytes(std::size_t bytes) noexcept { return table_.chunk_bytes = bytes, *this; }
    model &rate(std::uint32_t num, std::uint32_t den = 1) noexcept { return table_.rate_num = num, table_.rate_den = den, *this; }
    model &frames_per_chunk(std::uint32_t frames) noexcept { return table_.frames_per_chunk = frames, *this; }
    model &flags(std::uint32_t flags) noexcept { return table_.flags |= flags, *this; }

    // All keys, each at its index.
    template <class... T> model &keys(const key<T> &...keys)
    {
        (put(keys.index(), keys.raw()), ...);
        return *this;
    }

    template <class F> model &hot(const char *name, F function) { return stage(name, RTE_HOT, std::move(function)); }
    template <class F> model &deferred(const char *name, F function) { return stage(name, RTE_DEFERRED, std::move(function)); }
    template <class F> model &encode(const char *name, F function) { return stage(name, RTE_ENCODE, std::move(function)); }
    template <class T, class M> model &hot(const char *name, std::shared_ptr<T> object, M method) { return hot(name, detail::bound(std::move(object), method)); }
    template <class T, class M> model &deferred(const char *name, std::shared_ptr<T> object, M method) { return deferred(name, detail::bound(std::move(object), method)); }
    template <class T, class M> model &encode(const char *name, std::shared_ptr<T> object, M method) { return encode(name, detail::bound(std::move(object), method)); }

    template <class F> model &ready(F function) { return hook<&detail::state::ready>(table_.ready, std::move(function)); }
    template <class F> model &seed(F function) { return hook<&detail::state::seed>(table_.seed, std::move(function)); }
    template <class F> model &detach(F function) { return hook<&detail::state::detach>(table_.detach, std::move(function)); }
    template <class F> model &finalize(F function) { return hook<&detail::state::finalize>(table_.finalize, std::move(function)); }
    template <class T, class M> model &ready(std::shared_ptr<T> object, M method) { return ready(detail::bound(std::move(object), method)); }
    template <class T, class M> model &seed(std::shared_ptr<T> object, M method) { return seed(detail::bound(std::move(object), method)); }
    template <class T, class M> model &detach(std::shared_ptr<T> object, M method) { return detach(detail::bound(std::move(object), method)); }
    template <class T, class M> model &finalize(std::shared_ptr<T> object, M method) { return finalize(detail::bound(std::move(object), method)); }

    // Takes the three streams by lane.
    template <class F> model &init(F function)
    {
        state_->init = [function = std::move(function)](const rte_stream *streams) mutable { return detail::answer(function, streams); };
        table_.init  = [](void *user, const rte_stream *streams) { return detail::guarded([&] { return static_cast<detail::state *>(user)->init(streams); }); };
        return *this;
    }

    // "Level 2": your own loop instead of stages.
    template <class F> model &serve(F function)
    {
        state_->serve = [function = std::move(function)](rte_engine *engine) mutable { return detail::answer(function, engine); };
        table_.serve  = [](void *user, rte_engine *engine) { return detail::guarded([&] { return static_cast<detail::state *>(user)->serve(engine); }); };
        return *this;
    }

    // With RTE_MODEL_OWN_OUTPUT.
    template <class F> model &release_output(F function)
    {
        state_->release_output = std::move(function);
        table_.release_output  = [](void *user, void *data) {
            (void)detail::guarded([&] { return static_cast<detail::state *>(user)->release_output(data), RTE_OK; });
        };
        return *this;
    }

    // The C table of a model that is wholly described; `give_up` once an engine has taken its user.
    [[nodiscard]] const rte_model &raw() noexcept
    {
        table_.user        = state_.get();
        table_.keys        = keys_.data();
        table_.key_count   = static_cast<std::uint32_t>(keys_.size());
        table_.stages      = stages_.data();
        table_.stage_count = static_cast<std::uint32_t>(stages_.size());
        table_.destroy     = [](void *user) { delete static_cast<detail::state *>(user); };
        return table_;
    }
    void give_up() noexcept { (void)state_.release(); }

private:
    template <class F> model &stage(const char *name, std::uint32_t lane, F function)
    {
        rte_stage stage{};
        stage.name = name;
        stage.lane = lane;
        stage.run  = detail::run_stage;
        stages_.push_back(stage);
        state_->stages.push_back(detail::call_of(std::move(function)));
        return *this;
    }

    template <detail::call detail::state::*Hook, class F> model &hook(rte_stage_fn &place, F function)
    {
        (*state_).*Hook = detail::call_of(std::move(function));
        place           = detail::run_hook<Hook>;
        return *this;
    }

    void put(std::uint32_t index, const rte_key &key)
    {
        if (keys_.size() <= index) keys_.resize(index + 1);
        keys_[index] = key;
    }

    std::unique_ptr<detail::state> state_;
    rte_model                      table_;
    std::vector<rte_key>           keys_;
    std::vector<rte_stage>         stages_;
};

// ---- messages and outputs

// A message without its values, for engine::push.
class message {
public:
    message(std::uint32_t kind, std::uint64_t session) noexcept : raw_{}
    {
        raw_.kind    = kind;
        raw_.session = session;
    }

    message &tag(std::uint64_t tag) noexcept { return raw_.tag = tag, *this; }
    message &user(std::uint64_t user) noexcept { return raw_.user = user, *this; }
    message &generation(std::uint64_t generation) noexcept { return raw_.generation = generation, *this; }
    message &flags(std::uint32_t flags) noexcept { return raw_.flags |= flags, *this; }
    // Run once when no work that may read the message's lent values is left.
    message &release(void (*function)(void *), void *user) noexcept { return raw_.release = function, raw_.release_user = user, *this; }

    [[nodiscard]] const rte_message &raw() const noexcept { return raw_; }

private:
    rte_message raw_;
};

[[nodiscard]] inline message attach(std::uint64_t session) noexcept { return {RTE_ATTACH, session}; }
[[nodiscard]] inline message detach(std::uint64_t session) noexcept { return {RTE_DETACH, session}; }
[[nodiscard]] inline message drain(std::uint64_t session) noexcept { return message(RTE_DETACH, session).flags(RTE_DRAIN); }
[[nodiscard]] inline message reset(std::uint64_t session) noexcept { return {RTE_RESET, session}; }
[[nodiscard]] inline message action(std::uint64_t session) noexcept { return {RTE_ACTION, session}; }
[[nodiscard]] inline message partial(std::uint64_t session) noexcept { return message(RTE_ACTION, session).flags(RTE_PARTIAL); }
[[nodiscard]] inline message pause(std::uint64_t session) noexcept { return {RTE_PAUSE, session}; }
[[nodiscard]] inline message resume(std::uint64_t session) noexcept { return {RTE_RESUME, session}; }

// A chunk or notice; given back when it goes. It may outlive its engine.
class output {
public:
    output() noexcept : raw_{} {}
    output(output &&other) noexcept : raw_(other.raw_) { other.raw_ = rte_output{}; }
    output &operator=(output &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    output(const output &)            = delete;
    output &operator=(const output &) = delete;
    ~output() { release(); }

    // `after`: the stream of the last use of the data.
    void release(rte_stream after = nullptr) noexcept
    {
        if (raw_.owner != nullptr) rte_output_release(&raw_, after);
    }

    [[nodiscard]] bool             is_chunk() const noexcept { return raw_.kind == RTE_CHUNK; }
    [[nodiscard]] std::uint32_t    kind() const noexcept { return raw_.kind; }
    [[nodiscard]] std::uint64_t    session() const noexcept { return raw_.session; }
    [[nodiscard]] std::uint64_t    user() const noexcept { return raw_.user; }
    [[nodiscard]] std::uint64_t    generation() const noexcept { return raw_.generation; }
    [[nodiscard]] std::uint64_t    index() const noexcept { return raw_.index; }
    [[nodiscard]] std::uint64_t    dropped() const noexcept { return raw_.dropped; }
    [[nodiscard]] std::uint64_t    tick() const noexcept { return raw_.tick; }
    [[nodiscard]] std::uint64_t    tag() const noexcept { return raw_.tag; }
    [[nodiscard]] std::uint64_t    heavy_tag() const noexcept { return raw_.heavy_tag; }
    [[nodiscard]] rte_status       status() const noexcept { return raw_.status; }
    [[nodiscard]] std::uint32_t    stage() const noexcept { return raw_.stage; }
    [[nodiscard]] std::uint32_t    frames() const noexcept { return raw_.frames; }
    [[nodiscard]] rte_event        ready() const noexcept { return raw_.ready; }
    [[nodiscard]] view<const std::byte> data() const noexcept { return {static_cast<const std::byte *>(raw_.data), raw_.size}; }
    template <class T> [[nodiscard]] view<const T> data_as() const noexcept
    {
        return {static_cast<const T *>(raw_.data), raw_.size / sizeof(T)};
    }

    [[nodiscard]] const rte_output &raw() const noexcept { return raw_; }
    [[nodiscard]] rte_output       *place() noexcept // for rte_outbox_pop: what was held is given back
    {
        release();
        return &raw_;
    }

private:
    rte_output raw_;
};

// ---- the engine

// Options with struct_size set; all else is that of rte_engine_options.
struct options : rte_engine_options {
    options() noexcept : rte_engine_options{} { struct_size = sizeof(rte_engine_options); }
};

using nanoseconds = std::chrono::nanoseconds;
inline constexpr nanoseconds forever = nanoseconds::max();

namespace detail {

inline std::uint64_t ticks_of(nanoseconds time) noexcept
{
    return time == forever ? UINT64_MAX : time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

} // namespace detail

// An engine; stopped without limit and freed when it goes.
class engine {
public:
    // RTE_ERR_*: see rte_engine_new. On failure the model's stages and hooks are gone with it.
    static result<engine> make(model model, const rte_engine_options &options = rte::options())
    {
        rte_engine *raw   = nullptr;
        rte_error   error = {};
        if (const rte_status status = rte_engine_new(&model.raw(), &options, &raw, &error); status != RTE_OK) return detail::why(status, error);
        model.give_up();
        return engine(raw);
    }

    // Takes a handle of rte_engine_new.
    explicit engine(rte_engine *raw) noexcept : raw_(raw) {}
    engine(engine &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    engine &operator=(engine &&other) noexcept
    {
        std::swap(raw_, other.raw_);
        return *this;
    }
    engine(const engine &)            = delete;
    engine &operator=(const engine &) = delete;
    ~engine() { rte_engine_free(raw_); }

    result<void> start() { return told([this](rte_error *error) { return rte_engine_start(raw_, error); }); }
    result<void> run() { return told([this](rte_error *error) { return rte_engine_run(raw_, error); }); }
    result<void> stop(nanoseconds timeout = forever)
    {
        return told([&](rte_error *error) { return rte_engine_stop(raw_, detail::ticks_of(timeout), error); });
    }
    [[nodiscard]] rte_status tick(nanoseconds wait = nanoseconds(0)) noexcept { return rte_engine_tick(raw_, detail::ticks_of(wait)); }
    [[nodiscard]] rte_status step(view<const std::uint64_t> due, nanoseconds wait = nanoseconds(0)) noexcept
    {
        return rte_engine_step(raw_, due.data(), due.size(), detail::ticks_of(wait));
    }

    // Pushes a message with values: engine.push(rte::action(7), steer({0, 1}), prompt("a castle")).
    template <class... T> [[nodiscard]] rte_status push(const message &message, const assignment<T> &...values) noexcept
    {
        const std::array<rte_value, sizeof...(T)> array = {values.raw()...};
        rte_message                               raw   = message.raw();
        raw.values                                      = array.data();
        raw.value_count                                 = array.size();
        return rte_inbox_push(raw_, &raw);
    }

    [[nodiscard]] rte_status    pop(output &out) noexcept { return rte_outbox_pop(raw_, out.place()); }
    [[nodiscard]] rte_status    wait(nanoseconds timeout = forever) noexcept { return rte_outbox_wait(raw_, detail::ticks_of(timeout)); }
    [[nodiscard]] std::intptr_t fd() noexcept { return rte_outbox_fd(raw_); }

    // What is there to pop: for (rte::output &out : engine.outputs()). An output that is not moved from is given back
    // before the next is popped. `status` says why the range ended: RTE_AGAIN, RTE_CLOSED, RTE_ERR_DEAD.
    class popped {
    public:
        class iterator {
        public:
            using iterator_category = std::input_iterator_tag;
            using value_type        = output;
            using difference_type   = std::ptrdiff_t;
            using pointer           = output *;
            using reference         = output &;

            explicit iterator(popped *range) noexcept : range_(range) {}
            [[nodiscard]] output &operator*() const noexcept { return range_->output_; }
            iterator             &operator++() noexcept
            {
                range_->next();
                return *this;
            }
            [[nodiscard]] bool operator!=(const iterator &) const noexcept { return range_->status_ == RTE_OK; }
            [[nodiscard]] bool operator==(const iterator &other) const noexcept { return !(*this != other); }

        private:
            popped *range_;
        };

        explicit popped(rte_engine *engine) noexcept : engine_(engine) {}
        [[nodiscard]] iterator begin() noexcept
        {
            next();
            return iterator(this);
        }
        [[nodiscard]] iterator   end() noexcept { return iterator(this); }
        [[nodiscard]] rte_status status() const noexcept { return status_; }

    private:
        void next() noexcept { status_ = rte_outbox_pop(engine_, output_.place()); }

        rte_engine *engine_;
        output      output_;
        rte_status  status_ = RTE_OK;
    };
    [[nodiscard]] popped outputs() noexcept { return popped(raw_); }

    [[nodiscard]] rte_engine_info info() const noexcept
    {
        rte_engine_info info{};
        info.struct_size = sizeof info;
        (void)rte_engine_get_info(raw_, &info);
        return info;
    }
    [[nodiscard]] result<rte_session_info> info(std::uint64_t session) const
    {
        rte_session_info info{};
        info.struct_size = sizeof info;
        if (const rte_status status = rte_session_get_info(raw_, session, &info); status != RTE_OK) return failure{status, rte_status_message(status)};
        return info;
    }

    [[nodiscard]] rte_engine *raw() const noexcept { return raw_; }

private:
    template <class F> result<void> told(F call)
    {
        rte_error error = {};
        if (const rte_status status = call(&error); status != RTE_OK) return detail::why(status, error);
        return {};
    }

    rte_engine *raw_;
};

} // namespace rte

#endif
