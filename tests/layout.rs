//! Sizes, offsets and constants: C, Rust and `golden/layout.txt` agree.
//!
//! The C side is generated from `rte.h`, so it has every struct, field, macro and status that a user sees; the Rust side
//! is listed here. `RTE_BLESS=1 cargo test --test layout` writes the golden file where an older host goes on working with
//! what it says; `RTE_BLESS=break` where not, which an ABI version that is in a release does not allow.
#![cfg(target_pointer_width = "64")]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use rte::abi::{info, log, message, model, options, output, reference, status, version};
use support::{Build, read, root, run, scratch};

const GOLDEN: &str = "tests/golden/layout.txt";

// ---- C

/// The text without comments, whether `/* */` or `//`.
fn without_comments(header: &str) -> String {
    let lines = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, after)| after)).collect()
}

/// The name in a field's declaration: `const char *name`, `rte_stream streams[3]`, `void (*destroy)(void *user)`.
fn field_name(declaration: &str) -> &str {
    let declarator = match declaration.split_once("(*") {
        Some((_, function)) => function.split(')').next(),
        None => declaration.split('[').next().and_then(|text| text.split([' ', '*']).next_back()),
    };
    declarator.unwrap_or_default().trim()
}

/// Each struct of the header with the names of its fields.
fn structs(header: &str) -> Vec<(&str, Vec<&str>)> {
    let bodies = header.split("typedef struct ").skip(1).filter_map(|text| {
        let (name, rest) = text.split_once('{')?;
        let name = name.trim();
        // `typedef struct a *b;` and `typedef struct a a;` have no body of their own.
        (!name.contains(';')).then(|| (name, rest.split_once('}').unwrap().0))
    });
    bodies
        .map(|(name, body)| (name, body.split(';').map(field_name).filter(|name| !name.is_empty()).collect()))
        .collect()
}

/// Macros that stand for numbers, and the values of `rte_status_code`.
fn constants(header: &str) -> Vec<&str> {
    let macros = header.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
        value.starts_with(|first: char| first.is_ascii_digit()).then_some(name)
    });
    let (_, codes) = header.split_once("typedef enum rte_status_code {").unwrap();
    let codes = codes.split_once('}').unwrap().0.split(',').filter_map(|text| text.split_once('='));
    macros.chain(codes.map(|(name, _)| name.trim())).collect()
}

/// What a C compiler says of a header.
fn c_layout(header: &str, folder: &Path) -> String {
    std::fs::write(folder.join("rte.h"), header).unwrap(); // found before the repository's
    let header = without_comments(header);
    let mut source = String::from("#include \"rte.h\"\n#include <stdio.h>\n\n");
    source += "#define ALIGN(type) offsetof(struct { char first; type second; }, second)\n\nint main(void)\n{\n";
    for (name, fields) in structs(&header) {
        writeln!(source, "    printf(\"{name} %zu %zu\\n\", sizeof({name}), ALIGN({name}));").unwrap();
        for field in fields {
            let size = format!("sizeof((({name} *)0)->{field})");
            writeln!(source, "    printf(\"{name}.{field} %zu %zu\\n\", offsetof({name}, {field}), {size});").unwrap();
        }
    }
    for name in constants(&header) {
        writeln!(source, "    printf(\"{name} %lld\\n\", (long long){name});").unwrap();
    }
    source += "    return 0;\n}\n";

    let path = folder.join("layout.c");
    std::fs::write(&path, source).unwrap();
    let program = Build { source: &path, standard: "c99", options: &[], folder }.link();
    run(Command::new(program), folder).expect_success().output
}

// ---- Rust

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($out:ident, $module:ident::$name:ident { $($field:ident),* $(,)? }) => {
        writeln!($out, "{} {} {}", stringify!($name), size_of::<$module::$name>(), align_of::<$module::$name>()).unwrap();
        $(
            let name = stringify!($field).trim_start_matches("r#");
            let (at, size) =
                (offset_of!($module::$name, $field), size_of_field(|it: &$module::$name| &it.$field));
            writeln!($out, "{}.{name} {at} {size}", stringify!($name)).unwrap();
        )*
    };
}

macro_rules! constants {
    ($out:ident, $module:ident: $($name:ident)*) => {
        $( writeln!($out, "{} {}", stringify!($name), i64::from($module::$name)).unwrap(); )*
    };
}

macro_rules! codes {
    ($out:ident: $($name:ident)*) => {
        $( writeln!($out, "{} {}", stringify!($name), status::rte_status_code::$name as i64).unwrap(); )*
    };
}

fn rust_layout() -> String {
    let mut out = String::new();
    records(&mut out);
    descriptors(&mut out);
    infos(&mut out);
    numbers(&mut out);
    out
}

fn records(out: &mut String) {
    layout!(out, model::rte_key { name, size, r#type, merge, flags, reserved });
    layout!(out, message::rte_value { data, size, revision, key, flags });
    layout!(out, model::rte_stage { name, run, lane, flags, reserved });
    layout!(out, status::rte_error { status, message });
    layout!(
        out,
        message::rte_message {
            kind,
            flags,
            session,
            generation,
            tag,
            user,
            values,
            value_count,
            ready,
            release,
            release_user,
            reserved,
        }
    );
    layout!(
        out,
        output::rte_output {
            kind,
            flags,
            session,
            user,
            generation,
            index,
            dropped,
            tick,
            tag,
            heavy_tag,
            start_ns,
            done_ns,
            data,
            size,
            ready,
            owner,
            status,
            frames,
            stage,
            row,
            reserved,
        }
    );
}

fn descriptors(out: &mut String) {
    layout!(
        out,
        model::rte_batch {
            struct_size,
            stage,
            slot,
            count,
            tick,
            chunk_bytes,
            row,
            session,
            user,
            generation,
            age,
            changed,
            value,
            column,
            mask,
            output,
            output_size,
            frames,
            status,
        }
    );
    layout!(
        out,
        model::rte_model {
            struct_size,
            flags,
            name,
            user,
            max_sessions,
            frames_per_chunk,
            input_latency_chunks,
            key_count,
            chunk_bytes,
            rate_num,
            rate_den,
            keys,
            stages,
            stage_count,
            reserved0,
            init,
            ready,
            seed,
            detach,
            finalize,
            release_output,
            serve,
            destroy,
        }
    );
    layout!(
        out,
        options::rte_backend {
            struct_size,
            reserved,
            user,
            stream_new,
            stream_free,
            event_new,
            event_free,
            record,
            wait,
            query,
            sync,
            set_wake,
            destroy,
        }
    );
    layout!(out, options::rte_clock { struct_size, reserved, user, now, sleep_until });
    layout!(
        out,
        options::rte_engine_options {
            struct_size,
            lanes,
            pipeline,
            device,
            backend,
            clock,
            streams,
            inbox_capacity,
            message_bytes,
            inbox_bytes,
            outbox_depth,
            held_max,
            outbox_policy,
            overrun,
            max_catch_up,
            seed_attempts,
            encode_attempts,
            encode_lanes,
            log_level,
            log,
            log_user,
            on_output,
            on_output_user,
            thread_name,
            cpu_mask,
            priority,
            flags,
            stall_ns,
            spin_ns,
            trace_path,
            record_path,
            device_uuid,
        }
    );
}

fn infos(out: &mut String) {
    layout!(
        out,
        info::rte_engine_info {
            struct_size,
            health,
            lanes,
            pipeline_depth_chunks,
            input_latency_chunks,
            stalled_stage,
            max_sessions,
            attached,
            live,
            pending,
            encoding,
            paused,
            quarantined,
            retiring,
            held,
            stalled_row,
            chunk_bytes,
            session_bytes,
            rate_num,
            rate_den,
            ticks,
            missed_deadlines,
            late_ticks,
            chunks,
            dropped,
            refused,
            coalesced,
            failed_ticks,
            tick_ns_p50,
            tick_ns_p99,
            tick_ns_max,
            late_ns_p50,
            late_ns_p99,
            late_ns_max,
            lane_ns_p50,
            lane_ns_p99,
            lane_ns_max,
            inbox_ns_p50,
            inbox_ns_p99,
            inbox_ns_max,
            action_ns_p50,
            action_ns_p99,
            action_ns_max,
        }
    );
    layout!(
        out,
        info::rte_session_info {
            struct_size,
            state,
            row,
            status,
            paused,
            reserved0,
            user,
            generation,
            age,
            tag,
            heavy_tag,
            queued,
            held,
            dropped,
            encodes,
            ticks_out,
        }
    );
}

fn numbers(out: &mut String) {
    constants!(out, info: RTE_PENDING RTE_READY RTE_ENCODING RTE_QUARANTINED RTE_HELD);
    constants!(out, log: RTE_LOG_ERROR RTE_LOG_WARN RTE_LOG_INFO RTE_LOG_DEBUG);
    constants!(out, message: RTE_VALUE_BORROWED RTE_VALUE_DEVICE);
    constants!(out, message: RTE_ATTACH RTE_DETACH RTE_RESET RTE_ACTION RTE_PAUSE RTE_RESUME RTE_PARTIAL RTE_DRAIN);
    constants!(out, model: RTE_STAGE_SEED RTE_STAGE_DETACH RTE_STAGE_READY RTE_STAGE_FINALIZE RTE_STAGE_INIT RTE_STAGE_ON_OUTPUT RTE_STAGE_SERVE);
    constants!(out, model: RTE_STAGE_NONE RTE_HOT RTE_DEFERRED RTE_ENCODE);
    constants!(out, model: RTE_BYTES RTE_U32 RTE_I64 RTE_F32 RTE_F64 RTE_MERGE_LATEST RTE_MERGE_SUM RTE_MERGE_OR);
    constants!(out, model: RTE_KEY_HEAVY RTE_MAX_KEYS);
    constants!(out, model: RTE_MODEL_DENSE RTE_MODEL_NO_MIDRUN RTE_MODEL_OWN_OUTPUT RTE_MODEL_RETRY_SAFE);
    constants!(out, model: RTE_MODEL_SEED_ASIDE RTE_MODEL_DEVICE_OUTPUT RTE_MODEL_OUTPUT_BLOCK);
    constants!(out, options: RTE_LANES_AUTO RTE_LANES_INLINE RTE_LANES_THREADS RTE_LANES_CUDA RTE_LANES_HOST);
    constants!(out, options: RTE_PIPELINE_AUTO RTE_PIPELINE_ON RTE_PIPELINE_OFF);
    constants!(out, options: RTE_DROP_OLDEST RTE_DROP_NEWEST RTE_HOLD RTE_SKIP RTE_CATCH_UP RTE_PREFAULT);
    constants!(out, output: RTE_CHUNK RTE_ATTACHED RTE_REJECTED RTE_DETACHED RTE_ROW_FAILED RTE_TICK_FAILED RTE_DEAD);
    constants!(out, output: RTE_ALREADY);
    constants!(out, reference: RTE_REFERENCE_PROMPT RTE_REFERENCE_ACTION RTE_REFERENCE_SEED);
    constants!(out, version: RTE_ABI_VERSION);
    codes!(out: RTE_OK RTE_AGAIN RTE_TIMEOUT RTE_CLOSED RTE_ERR_ARGUMENT RTE_ERR_VERSION RTE_ERR_STATE RTE_ERR_FULL);
    codes!(out: RTE_ERR_UNKNOWN RTE_ERR_MEMORY RTE_ERR_DEVICE RTE_ERR_UNAVAILABLE RTE_ERR_DEADLOCK RTE_ERR_CALLBACK);
    codes!(out: RTE_ERR_DEAD RTE_ERR_FORKED RTE_ERR_STALE RTE_ERR_TOO_LARGE RTE_ERR_HOST);
}

// ---- both

/// The lines of `text` that `other` has not.
fn missing<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let known: BTreeSet<&str> = other.lines().collect();
    text.lines().filter(|line| !line.starts_with('#') && !known.contains(line)).collect()
}

/// Each line says whose it is, so their order may differ.
#[track_caller]
fn expect_same((a_name, a): (&str, &str), (b_name, b): (&str, &str)) {
    let (only_a, only_b) = (missing(a, b), missing(b, a));
    assert!(only_a.is_empty() && only_b.is_empty(), "{a_name} alone: {only_a:#?}\n{b_name} alone: {only_b:#?}");
}

#[test]
fn c_and_rust_and_the_golden_file_agree() {
    let (c, rust) = (c_layout(&read("include/rte.h"), &scratch("layout")), rust_layout());
    assert!(c.lines().count() > 200, "the header was not understood:\n{c}");
    expect_same(("C", &c), ("Rust", &rust));
    if let Some(bless) = std::env::var_os("RTE_BLESS") {
        let was = read(GOLDEN);
        let broken = broken(&was, &c);
        assert!(broken.is_empty() || bless == "break", "older hosts break, RTE_BLESS=break writes it: {broken:#?}");
        let head = "# `struct size align`, `struct.field offset size`, `constant value`; 64-bit pointers; the header's order.\n";
        std::fs::write(root().join(GOLDEN), format!("{head}{c}")).unwrap();
    }
    expect_same(("C", &c), (GOLDEN, &read(GOLDEN)));
}

/// What a host that was compiled with the layout `old` would get wrong in a library with the layout `new`: each line of `old`
/// must still hold, but that structs with a size of their own may have grown. New names are no matter.
fn broken<'a>(old: &'a str, new: &str) -> Vec<&'a str> {
    let numbers = |line: &str| line.split(' ').skip(1).map(|number| number.parse().unwrap()).collect::<Vec<i64>>();
    let has_grown = |line: &str| {
        let name = line.split(' ').next().unwrap();
        let now = new.lines().find(|line| line.split(' ').next() == Some(name)).map(numbers);
        let sized = old.contains(&format!("\n{name}.struct_size 0 4\n"));
        let was = numbers(line);
        sized && now.is_some_and(|now| now[0] >= was[0] && now[1] == was[1])
    };
    missing(old, new).into_iter().filter(|line| !has_grown(line)).collect()
}

/// The header with another text in one place.
fn changed(from: &str, to: &str) -> String {
    let header = read("include/rte.h");
    let (before, after) = header.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    format!("{before}{to}{after}")
}

#[test]
fn a_field_at_the_end_of_a_descriptor_breaks_no_older_host() {
    let golden = read(GOLDEN);
    for (at, name) in ["rte_engine_options", "rte_model", "rte_session_info", "rte_batch"].into_iter().enumerate() {
        let end = format!("}} {name};");
        let appended = c_layout(&changed(&end, &format!("uint64_t more;\n{end}")), &scratch(&format!("append_{at}")));
        assert_eq!(broken(&golden, &appended), Vec::<&str>::new(), "{name}");
        let seen = missing(&appended, &golden);
        assert!(seen.iter().any(|line| line.starts_with(&format!("{name}.more "))), "to be blessed: {seen:?}");
    }
}

#[test]
fn a_field_in_between_a_larger_record_and_another_constant_do() {
    let golden = read(GOLDEN);
    let (options, message, model) = ("struct rte_engine_options {", "} rte_message;", "} rte_model;");
    let changes = [
        ("rte_engine_options.lanes ", options, format!("{options}\nuint32_t first;")),
        ("rte_message 96 ", message, format!("uint64_t more;\n{message}")),
        (
            "rte_model.struct_size 0 4",
            "{\n    /// sizeof(rte_model).\n    uint32_t struct_size;",
            "{ uint64_t struct_size;".into(),
        ),
        ("RTE_DETACH 2", "#define RTE_DETACH 2", "#define RTE_DETACH 8".into()),
        ("rte_model ", model, format!("long double wide;\n{model}")),
    ];
    for (at, (breaks, from, to)) in changes.iter().enumerate() {
        let layout = c_layout(&changed(from, to), &scratch(&format!("break_{at}")));
        let broken = broken(&golden, &layout);
        assert!(broken.iter().any(|line| line.starts_with(breaks)), "{breaks}: {broken:?}");
    }
    let without = golden.lines().filter(|line| !line.starts_with("rte_error.status")).collect::<Vec<_>>().join("\n");
    assert_eq!(broken(&golden, &without), ["rte_error.status 0 4"]);
}

/// Records stand in users' arrays: they never change size.
#[test]
fn records_have_the_sizes_that_the_header_promises() {
    let sizes = [
        (size_of::<model::rte_key>(), 32),
        (size_of::<message::rte_value>(), 32),
        (size_of::<model::rte_stage>(), 32),
        (size_of::<message::rte_message>(), 96),
        (size_of::<output::rte_output>(), 160),
        (size_of::<status::rte_error>(), 256),
    ];
    assert!(sizes.iter().all(|(size, promised)| size == promised), "{sizes:?}");
}
