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
//          .encode("digest", world, &World::digest);                       // a shared_ptr and a method: or all
//                                                                          // of a class: .methods(world)
//
//     rte::engine engine = rte::engine::make(std::move(model), options).or_throw();
//     engine.start().or_throw();
//     rte_status taken = engine.push(rte::attach(7).tag(1), prompt("a castle"));
//     for (rte::output &out : engine.outputs()) draw(out.session(), out.data());
//
// Nothing here throws but what is named or_throw (and std::bad_alloc, before the engine is made). A model's callback may
// throw: it fails as if it had returned RTE_ERR_CALLBACK, and the process lives. (Plain functions, of options and
// message::release, must not.) Nothing allocates after rte::engine::make but the messages of errors.
// Ownership, threads and what may be called in callbacks are as rte.h says; a C++ object adds no lock. Streams and events
// of CUDA go in as they are, without its headers: cudaStream_t is rte_stream, cudaEvent_t rte_event. An object that was
// moved from may be destroyed or assigned to; an empty engine answers RTE_ERR_ARGUMENT.
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
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define RTE_HPP_EXCEPTIONS 1
#include <stdexcept>
#endif
#if defined(__has_include) && __cplusplus >= 202002L
#if __has_include(<ranges>)
#include <ranges> // for std::span of a view that is a temporary
#endif
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

// Whether this file is compiled with exceptions. What differs without them has a parameter that says so: files of both kinds
// may be of one program, if each function and class of yours that is a model in one of them is so in that kind alone.
struct throwing {};
struct aborting {};
#ifdef RTE_HPP_EXCEPTIONS
using mode = throwing;
#else
using mode = aborting;
#endif

template <class Mode> [[noreturn]] void raise(const failure &why)
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
    result(T value) : value_(std::move(value)) {}
    result(failure why) : why_(std::move(why)) {}

    [[nodiscard]] explicit operator bool() const noexcept { return value_.has_value(); }
    [[nodiscard]] rte_status     status() const noexcept { return why_.status; }
    [[nodiscard]] const failure &error() const noexcept { return why_; }

    // Only where there is one.
    [[nodiscard]] T       &operator*() noexcept { return *value_; }
    [[nodiscard]] const T &operator*() const noexcept { return *value_; }
    [[nodiscard]] T       *operator->() noexcept { return &*value_; }
    [[nodiscard]] const T *operator->() const noexcept { return &*value_; }

    // The value; throws rte::exception where there is none (ends the process where exceptions are off).
    template <class Mode = detail::mode> T or_throw() &&
    {
        if (!value_) detail::raise<Mode>(why_);
        return std::move(*value_);
    }

private:
    std::optional<T> value_;
    failure          why_;
};

template <> class [[nodiscard]] result<void> {
public:
    result() = default;
    result(failure why) : why_(std::move(why)) {}

    [[nodiscard]] explicit operator bool() const noexcept { return why_.status == RTE_OK; }
    [[nodiscard]] rte_status     status() const noexcept { return why_.status; }
    [[nodiscard]] const failure &error() const noexcept { return why_; }

    template <class Mode = detail::mode> void or_throw() const
    {
        if (why_.status != RTE_OK) detail::raise<Mode>(why_);
    }

private:
    failure why_;
};

// ---- views

// So many items that somebody else owns. From a vector, an array, a std::span; to a std::span where there is one.
template <class T> class view {
public:
    constexpr view() noexcept = default;
    constexpr view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>,
              class = std::enable_if_t<std::is_convertible_v<E (*)[], T (*)[]> && !std::is_same_v<std::decay_t<C>, view>>>
    constexpr view(C &&items) noexcept : data_(std::data(items)), size_(std::size(items)) {}

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

// ---- time

using nanoseconds = std::chrono::nanoseconds;
inline constexpr nanoseconds forever = nanoseconds::max();

namespace detail {

inline std::uint64_t ticks_of(nanoseconds time) noexcept
{
    return time == forever ? UINT64_MAX : time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

} // namespace detail

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

// A value of a key, for engine::push: a copy; of bytes a view.
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
    // This key, absent.
    [[nodiscard]] assignment<bytes> none() const noexcept { return {{}, index_, 0, 0}; }

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

    // This key with bytes in a device's memory, complete after message::ready. `revision` tells whether they are others.
    [[nodiscard]] assignment<bytes> device(const void *data, std::size_t size, std::uint64_t revision) const noexcept
    {
        return {{static_cast<const char *>(data), size}, index_, revision, RTE_VALUE_DEVICE};
    }

    // This key, absent.
    [[nodiscard]] assignment<bytes> none() const noexcept { return {{}, index_, 0, 0}; }

    [[nodiscard]] rte_key raw() const noexcept { return {name_, 0, RTE_BYTES, RTE_MERGE_LATEST, static_cast<std::uint32_t>(weight_), 0}; }

private:
    std::uint32_t index_;
    weight        weight_;
    const char   *name_;
};

// A key whose values are a member of a struct of yours: constexpr rte::member wheel{0, "wheel", &Input::wheel}. wheel(input)
// is the key with that member's value.
template <class S, class T> class member : public key<T> {
public:
    template <class... O> constexpr member(std::uint32_t index, const char *name, T S::*where, O... option) noexcept
        : key<T>(index, name, option...), where_(where) {}

    using key<T>::operator();
    [[nodiscard]] assignment<T> operator()(const S &from, std::uint64_t revision = 0) const
    {
        assignment<T> value = {{}, this->index(), revision};
        std::memcpy(&value.data, &(from.*where_), sizeof(T));
        return value;
    }

private:
    T S::*where_;
};
template <class S, class T, class... O> member(std::uint32_t, const char *, T S::*, O...) -> member<S, T>;

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
        static_assert(!std::is_same_v<T, bytes>, "values of a key of bytes have any size: take text(key)");
        const rte_value &value = batch_->value[at_][key.index()];
        return value.size == 0 ? nullptr : static_cast<const typename rte::key<T>::value_type *>(value.data);
    }

    // The value of a key of bytes; empty: absent.
    [[nodiscard]] std::string_view text(const key<bytes> &key) const noexcept
    {
        const rte_value &value = batch_->value[at_][key.index()];
        return {static_cast<const char *>(value.data), value.size};
    }

    // A value as it is, with its revision: of a device's memory, or bytes of another alignment.
    template <class T> [[nodiscard]] const rte_value &value(const key<T> &key) const noexcept { return batch_->value[at_][key.index()]; }

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
    // With RTE_MODEL_OWN_OUTPUT: so many bytes of yours are the chunk.
    void finish(void *data, std::size_t size) const noexcept { batch_->output[at_] = data, batch_->output_size[at_] = size; }
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

    // With RTE_MODEL_OUTPUT_BLOCK: all outputs, one after the other, in the lane that ends the chunk; else empty.
    [[nodiscard]] view<std::byte> block() const noexcept
    {
        if (batch_->output == nullptr || batch_->count == 0) return {};
        return {static_cast<std::byte *>(batch_->output[0]), batch_->count * batch_->chunk_bytes};
    }

    [[nodiscard]] rte_batch *raw() const noexcept { return batch_; }

private:
    rte_batch *batch_;
};

// ---- messages, replies and outputs

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
    // The event behind which the values of key::device are complete.
    message &ready(rte_event event) noexcept { return raw_.ready = event, *this; }
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
    // Takes a record of rte_outbox_pop; `raw` holds nothing any more.
    explicit output(rte_output &raw) noexcept : raw_(std::exchange(raw, rte_output{})) {}
    output(output &&other) noexcept : output(other.raw_) {}
    output &operator=(output &&other) noexcept
    {
        output last(std::move(other)); // other may be this
        std::swap(raw_, last.raw_);
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
    // What was held is given back.
    [[nodiscard]] rte_status pop_from(rte_engine *engine) noexcept
    {
        release();
        return rte_outbox_pop(engine, &raw_);
    }

private:
    rte_output raw_;
};

// What is there to pop, one after the other; each is given up before the next. `status` says why the range ended: RTE_AGAIN,
// RTE_CLOSED, RTE_ERR_DEAD.
template <class T> class popped {
public:
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type        = T;
        using difference_type   = std::ptrdiff_t;
        using pointer           = T *;
        using reference         = T &;

        explicit iterator(popped *range) noexcept : range_(range) {}
        [[nodiscard]] T &operator*() const noexcept { return range_->item_; }
        [[nodiscard]] T *operator->() const noexcept { return &range_->item_; }
        iterator        &operator++() noexcept
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
    void next() noexcept { status_ = item_.pop_from(engine_); }

    rte_engine *engine_;
    T           item_;
    rte_status  status_ = RTE_OK;
};

// ---- a loop of your own

// A message that is shown to model::serve. Its values are readable until the next one is popped.
class received {
public:
    [[nodiscard]] std::uint32_t kind() const noexcept { return raw_.kind; }
    [[nodiscard]] std::uint32_t flags() const noexcept { return raw_.flags; }
    [[nodiscard]] std::uint64_t session() const noexcept { return raw_.session; }
    [[nodiscard]] std::uint64_t generation() const noexcept { return raw_.generation; }
    [[nodiscard]] std::uint64_t tag() const noexcept { return raw_.tag; }
    [[nodiscard]] std::uint64_t user() const noexcept { return raw_.user; }

    // The value of a key with a fixed size: the value, or the first of an array. nullptr: not named, or absent.
    template <class T> [[nodiscard]] const typename key<T>::value_type *get(const key<T> &key) const noexcept
    {
        static_assert(!std::is_same_v<T, bytes>, "values of a key of bytes have any size: take text(key)");
        return static_cast<const typename rte::key<T>::value_type *>(find(key.index()).data);
    }
    // The value of a key of bytes; empty: not named, or absent.
    [[nodiscard]] std::string_view text(const key<bytes> &key) const noexcept
    {
        const rte_value value = find(key.index());
        return {static_cast<const char *>(value.data), value.size};
    }

    [[nodiscard]] const rte_message &raw() const noexcept { return raw_; }
    [[nodiscard]] rte_status         pop_from(rte_engine *engine) noexcept { return rte_inbox_pop(engine, &raw_); }

private:
    [[nodiscard]] rte_value find(std::uint32_t index) const noexcept
    {
        for (std::size_t i = 0; i < raw_.value_count; ++i)
            if (raw_.values[i].key == index && raw_.values[i].size != 0) return raw_.values[i];
        return {};
    }

    rte_message raw_ = {};
};

// What is said to a session, for loop::push.
class reply {
public:
    reply(std::uint32_t kind, std::uint64_t session) noexcept : raw_{}
    {
        raw_.kind    = kind;
        raw_.session = session;
    }

    reply &generation(std::uint64_t generation) noexcept { return raw_.generation = generation, *this; }
    reply &tag(std::uint64_t tag) noexcept { return raw_.tag = tag, *this; }
    reply &heavy_tag(std::uint64_t tag) noexcept { return raw_.heavy_tag = tag, *this; }
    reply &tick(std::uint64_t tick) noexcept { return raw_.tick = tick, *this; }
    reply &index(std::uint64_t index) noexcept { return raw_.index = index, *this; }
    reply &frames(std::uint32_t frames) noexcept { return raw_.frames = frames, *this; }
    reply &status(rte_status status) noexcept { return raw_.status = status, *this; }
    reply &stage(std::uint32_t stage) noexcept { return raw_.stage = stage, *this; }
    reply &data(const void *data, std::size_t size) noexcept { return raw_.data = data, raw_.size = size, *this; }

    [[nodiscard]] const rte_output &raw() const noexcept { return raw_; }

private:
    rte_output raw_;
};

[[nodiscard]] inline reply chunk(std::uint64_t session, std::uint64_t index, const void *data, std::size_t size) noexcept
{
    return reply(RTE_CHUNK, session).index(index).data(data, size);
}
[[nodiscard]] inline reply attached(std::uint64_t session) noexcept { return {RTE_ATTACHED, session}; }
[[nodiscard]] inline reply rejected(std::uint64_t session, rte_status why) noexcept
{
    return reply(RTE_REJECTED, session).status(why);
}
[[nodiscard]] inline reply detached(std::uint64_t session, rte_status why = RTE_OK) noexcept
{
    return reply(RTE_DETACHED, session).status(why);
}
[[nodiscard]] inline reply row_failed(std::uint64_t session, rte_status why) noexcept
{
    return reply(RTE_ROW_FAILED, session).status(why);
}

// The other ends of the two queues, in model::serve alone.
class loop {
public:
    explicit loop(rte_engine *raw) noexcept : raw_(raw) {}

    [[nodiscard]] rte_status       wait(nanoseconds timeout = forever) noexcept { return rte_inbox_wait(raw_, detail::ticks_of(timeout)); }
    [[nodiscard]] rte_status       pop(received &message) noexcept { return message.pop_from(raw_); }
    [[nodiscard]] popped<received> messages() noexcept { return popped<received>(raw_); }
    // Copies.
    [[nodiscard]] rte_status push(const reply &reply) noexcept { return rte_outbox_push(raw_, &reply.raw()); }

    [[nodiscard]] rte_engine *raw() const noexcept { return raw_; }

private:
    rte_engine *raw_;
};

// ---- the model

namespace detail {

using call = std::function<rte_status(rte_batch *, rte_stream)>;

// Everything that a model's callbacks reach, and its arrays. Owned by the engine once that is made.
struct state {
    std::vector<rte_key>                          keys;
    std::vector<rte_stage>                        stages;
    std::vector<call>                             runs; // of the stages
    call                                          ready, seed, detach, finalize;
    std::function<rte_status(const rte_stream *)> init;
    std::function<rte_status(rte_engine *)>       serve;
    std::function<void(void *)>                   release_output;
    std::function<void(output &)>                 on_output;
};

// Runs what may throw where nothing may.
template <class Mode, class F> rte_status guarded(F &&function) noexcept
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

// A method of a shared object, which lives as long as the model: `method` is a pointer to it, or calls it.
template <class T, class M> struct bound {
    std::shared_ptr<T> object;
    M                  method;

    template <class... A> std::invoke_result_t<const M &, T &, A...> operator()(A &&...arguments) const
    {
        return std::invoke(method, *object, std::forward<A>(arguments)...);
    }
};

template <class Mode> rte_status run_stage(void *user, rte_batch *batch, rte_stream stream) noexcept
{
    return guarded<Mode>([&] { return static_cast<state *>(user)->runs[batch->stage](batch, stream); });
}

template <call state::*Hook, class Mode> rte_status run_hook(void *user, rte_batch *batch, rte_stream stream) noexcept
{
    return guarded<Mode>([&] { return (static_cast<state *>(user)->*Hook)(batch, stream); });
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
    model &input_latency_chunks(std::uint32_t chunks) noexcept { return table_.input_latency_chunks = chunks, *this; }
    model &flags(std::uint32_t flags) noexcept { return table_.flags |= flags, *this; }

    // All keys, each at its index.
    template <class... K> model &keys(const K &...keys)
    {
        (put(keys.index(), keys.raw()), ...);
        return *this;
    }

    template <class F> model &hot(const char *name, F function) { return stage(name, RTE_HOT, std::move(function)); }
    template <class F> model &deferred(const char *name, F function) { return stage(name, RTE_DEFERRED, std::move(function)); }
    template <class F> model &encode(const char *name, F function) { return stage(name, RTE_ENCODE, std::move(function)); }
    template <class T, class M> model &hot(const char *name, const std::shared_ptr<T> &object, M method)
    {
        return hot(name, of(object, method));
    }
    template <class T, class M> model &deferred(const char *name, const std::shared_ptr<T> &object, M method)
    {
        return deferred(name, of(object, method));
    }
    template <class T, class M> model &encode(const char *name, const std::shared_ptr<T> &object, M method)
    {
        return encode(name, of(object, method));
    }

    template <class F> model &ready(F function) { return hook<&detail::state::ready>(table_.ready, std::move(function)); }
    template <class F> model &seed(F function) { return hook<&detail::state::seed>(table_.seed, std::move(function)); }
    template <class F> model &detach(F function) { return hook<&detail::state::detach>(table_.detach, std::move(function)); }
    template <class F> model &finalize(F function) { return hook<&detail::state::finalize>(table_.finalize, std::move(function)); }
    template <class T, class M> model &ready(const std::shared_ptr<T> &object, M method) { return ready(of(object, method)); }
    template <class T, class M> model &seed(const std::shared_ptr<T> &object, M method) { return seed(of(object, method)); }
    template <class T, class M> model &detach(const std::shared_ptr<T> &object, M method) { return detach(of(object, method)); }
    template <class T, class M> model &finalize(const std::shared_ptr<T> &object, M method) { return finalize(of(object, method)); }

    // Takes the three streams by lane.
    template <class F> model &init(F function)
    {
        state_->init = [function = std::move(function)](const rte_stream *streams) mutable { return detail::answer(function, streams); };
        table_.init  = [](void *user, const rte_stream *streams) noexcept {
            return detail::guarded<detail::mode>([&] { return static_cast<detail::state *>(user)->init(streams); });
        };
        return *this;
    }

    // "Level 2": your own loop instead of stages. Takes an rte::loop, or its rte_engine *.
    template <class F> model &serve(F function)
    {
        state_->serve = [function = std::move(function)](rte_engine *engine) mutable {
            if constexpr (std::is_invocable_v<F &, loop>) return detail::answer(function, loop(engine));
            else return detail::answer(function, engine);
        };
        table_.serve  = [](void *user, rte_engine *engine) noexcept {
            return detail::guarded<detail::mode>([&] { return static_cast<detail::state *>(user)->serve(engine); });
        };
        return *this;
    }

    // With RTE_MODEL_OWN_OUTPUT. What it throws is dropped.
    template <class F> model &release_output(F function)
    {
        state_->release_output = std::move(function);
        table_.release_output  = [](void *user, void *data) noexcept {
            (void)detail::guarded<detail::mode>([&] { return static_cast<detail::state *>(user)->release_output(data), RTE_OK; });
        };
        return *this;
    }

    // options.on_output: takes an rte::output &, to move from or to leave, where it is given back. What it throws is dropped.
    template <class F> model &on_output(F function)
    {
        state_->on_output = std::move(function);
        on_output_        = [](void *user, rte_output *raw) noexcept {
            output out(*raw);
            (void)detail::guarded<detail::mode>([&] { return static_cast<detail::state *>(user)->on_output(out), RTE_OK; });
        };
        return *this;
    }

    // All of a class: each of its methods of these names is a stage, a hook, init, serve, release_output or on_output.
    template <class T> model &methods(const std::shared_ptr<T> &object)
    {
#define RTE_HPP_METHOD(name) \
    [](auto &it, auto &&...a) -> decltype(it.name(std::forward<decltype(a)>(a)...)) { return it.name(std::forward<decltype(a)>(a)...); }
        add<batch>(object, RTE_HPP_METHOD(hot), [](model &to, auto method) { to.hot("hot", method); });
        add<batch>(object, RTE_HPP_METHOD(deferred), [](model &to, auto method) { to.deferred("deferred", method); });
        add<batch>(object, RTE_HPP_METHOD(encode), [](model &to, auto method) { to.encode("encode", method); });
        add<batch>(object, RTE_HPP_METHOD(ready), [](model &to, auto method) { to.ready(method); });
        add<batch>(object, RTE_HPP_METHOD(seed), [](model &to, auto method) { to.seed(method); });
        add<batch>(object, RTE_HPP_METHOD(detach), [](model &to, auto method) { to.detach(method); });
        add<batch>(object, RTE_HPP_METHOD(finalize), [](model &to, auto method) { to.finalize(method); });
        add<const rte_stream *>(object, RTE_HPP_METHOD(init), [](model &to, auto method) { to.init(method); });
        add<loop>(object, RTE_HPP_METHOD(serve), [](model &to, auto method) { to.serve(method); });
        add<void *>(object, RTE_HPP_METHOD(release_output), [](model &to, auto method) { to.release_output(method); });
        add<output &>(object, RTE_HPP_METHOD(on_output), [](model &to, auto method) { to.on_output(method); });
#undef RTE_HPP_METHOD
        return *this;
    }

    // The C table, which is the caller's with its `user`: for rte_engine_new, or as a child of rte_replica_model; else its
    // `destroy` is to be called. Without a user where this was moved from.
    [[nodiscard]] rte_model release() noexcept
    {
        if (state_ != nullptr) {
            table_.keys        = state_->keys.data();
            table_.key_count   = static_cast<std::uint32_t>(state_->keys.size());
            table_.stages      = state_->stages.data();
            table_.stage_count = static_cast<std::uint32_t>(state_->stages.size());
            table_.destroy     = [](void *user) noexcept { delete static_cast<detail::state *>(user); };
        }
        table_.user = state_.release();
        return table_;
    }

private:
    friend class engine;

    template <class F> model &stage(const char *name, std::uint32_t lane, F function)
    {
        rte_stage stage{};
        stage.name = name;
        stage.lane = lane;
        stage.run  = detail::run_stage<detail::mode>;
        state_->stages.push_back(stage);
        state_->runs.push_back(detail::call_of(std::move(function)));
        return *this;
    }

    template <detail::call detail::state::*Hook, class F> model &hook(rte_stage_fn &place, F function)
    {
        (*state_).*Hook = detail::call_of(std::move(function));
        place           = detail::run_hook<Hook, detail::mode>;
        return *this;
    }

    template <class T, class M> static detail::bound<T, M> of(const std::shared_ptr<T> &object, M method) { return {object, method}; }

    // Adds a method if it is there: one that takes an A, or an A and a stream.
    template <class A, class T, class M, class F> void add(const std::shared_ptr<T> &object, M method, F to)
    {
        constexpr bool is_there = std::is_invocable_v<M, T &, A> || std::is_invocable_v<M, T &, A, rte_stream>;
        if constexpr (is_there) to(*this, of(object, method));
    }

    void put(std::uint32_t index, const rte_key &key)
    {
        if (state_->keys.size() <= index) state_->keys.resize(index + 1);
        state_->keys[index] = key;
    }

    std::unique_ptr<detail::state> state_; // null: moved from
    rte_model                      table_;
    void (*on_output_)(void *, rte_output *) = nullptr;
};

// ---- the engine

// Options with struct_size set; all else is that of rte_engine_options.
struct options : rte_engine_options {
    options() noexcept : rte_engine_options{} { struct_size = sizeof(rte_engine_options); }
};

// An engine; stopped without limit and freed when it goes.
class engine {
public:
    // As rte_engine_new. The model is taken either way: where it is refused, its stages and hooks are gone with it.
    static result<engine> make(model model, const rte_engine_options &options = rte::options())
    {
        if (model.state_ == nullptr) return failure{RTE_ERR_ARGUMENT, "model: it was moved from"};
        rte_engine_options told = options;
        if (model.on_output_ != nullptr) told.on_output = model.on_output_, told.on_output_user = model.state_.get();
        return make(model.release(), told);
    }
    // A model in C (rte_reference_model, rte_replica_model): where it is refused, its `destroy` has run.
    static result<engine> make(const rte_model &model, const rte_engine_options &options = rte::options())
    {
        rte_engine *raw   = nullptr;
        rte_error   error = {};
        if (const rte_status status = rte_engine_new(&model, &options, &raw, &error); status != RTE_OK) {
            if (model.destroy != nullptr) model.destroy(model.user);
            return detail::why(status, error);
        }
        return engine(raw);
    }

    // None.
    engine() noexcept = default;
    // Takes a handle of rte_engine_new.
    explicit engine(rte_engine *raw) noexcept : raw_(raw) {}
    engine(engine &&other) noexcept : raw_(other.release()) {}
    engine &operator=(engine &&other) noexcept
    {
        engine last(std::move(other)); // other may be this
        std::swap(raw_, last.raw_);
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
    // Runs what options.record_path of another engine wrote.
    result<void> replay(const char *path)
    {
        return told([&](rte_error *error) { return rte_engine_replay(raw_, path, error); });
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

    // A message with its values as they are.
    [[nodiscard]] rte_status push(const rte_message &message) noexcept { return rte_inbox_push(raw_, &message); }

    [[nodiscard]] rte_status    pop(output &out) noexcept { return out.pop_from(raw_); }
    [[nodiscard]] rte_status    wait(nanoseconds timeout = forever) noexcept { return rte_outbox_wait(raw_, detail::ticks_of(timeout)); }
    [[nodiscard]] std::intptr_t fd() noexcept { return rte_outbox_fd(raw_); }

    // for (rte::output &out : engine.outputs()): an output that is not moved from is given back before the next is popped.
    [[nodiscard]] popped<output> outputs() noexcept { return popped<output>(raw_); }

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
        const rte_status status = rte_session_get_info(raw_, session, &info);
        if (status != RTE_OK) return failure{status, rte_status_message(status)};
        return info;
    }

    [[nodiscard]] explicit operator bool() const noexcept { return raw_ != nullptr; }
    [[nodiscard]] rte_engine *raw() const noexcept { return raw_; }
    [[nodiscard]] rte_engine *release() noexcept { return std::exchange(raw_, nullptr); } // the caller's from now on

private:
    template <class F> result<void> told(F call)
    {
        rte_error error = {};
        if (const rte_status status = call(&error); status != RTE_OK) return detail::why(status, error);
        return {};
    }

    rte_engine *raw_ = nullptr;
};

} // namespace rte

#if defined(__cpp_lib_ranges)
template <class T> inline constexpr bool std::ranges::enable_borrowed_range<rte::view<T>> = true;
#endif

#endif
