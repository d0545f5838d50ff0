//! A disk that is full, at once or later, cuts a record or a trace off and says so, once; the engine goes on as if there
//! were none. One test, for the limit of a file's size is the process's.

#![cfg(target_os = "linux")]

mod driver;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use driver::*;
use rte::abi::log::RTE_LOG_WARN;

const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
/// No file grows beyond it.
const LIMIT: u64 = 200_000;

unsafe extern "C-unwind" fn count(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        let batch = &*batch;
        for at in 0..batch.count as usize {
            (*batch.output.add(at)).cast::<u64>().write(*batch.age.add(at));
            *batch.output_size.add(at) = 8;
        }
    }
    0
}

unsafe extern "C-unwind" fn note_line(user: *mut c_void, _: u32, text: *const c_char) {
    // SAFETY: the test's list, and a line.
    unsafe {
        (*user.cast::<Mutex<Vec<String>>>()).lock().unwrap().push(CStr::from_ptr(text).to_string_lossy().into_owned())
    };
}

/// An engine that records and traces there, if anywhere.
fn engine(record: Option<&Path>, trace: Option<&Path>, lines: &Mutex<Vec<String>>) -> Result<Host, (i32, String)> {
    let stages = [stage(RTE_HOT, count)];
    let keys = [zeroed()];
    let model = rte_model { keys: keys.as_ptr(), key_count: 1, ..model(&stages, 2, 8) };
    let path = |path: Option<&Path>| path.map(|path| CString::new(path.to_str().unwrap()).unwrap());
    let (record, trace) = (path(record), path(trace));
    let pointer = |path: &Option<CString>| path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
    let options = rte_engine_options {
        record_path: pointer(&record),
        trace_path: pointer(&trace),
        log: Some(note_line),
        log_user: std::ptr::from_ref(lines).cast_mut().cast(),
        log_level: RTE_LOG_WARN,
        ..options()
    };
    let (mut engine, mut error): (*mut rte_engine, rte_error) = (std::ptr::null_mut(), zeroed());
    // SAFETY: valid descriptors and places.
    match unsafe { rte_engine_new(&model, &options, &mut engine, &mut error) } {
        0 => Ok(Host { engine }),
        // SAFETY: the library's text.
        status => Err((status, unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned())),
    }
}

/// So many ticks with a message of so many bytes in each, then a stop. Each makes its chunk.
fn live(host: &Host, ticks: u64, bytes: usize) {
    let big = vec![7; bytes];
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
    for tick in 0..ticks {
        assert_eq!(host.push(message(RTE_ACTION, 1), &[value(0, &big)]), 0);
        assert_eq!(host.tick(), 0);
        let mut chunks = Vec::new();
        host.pop_all(|output| chunks.extend((output.kind == RTE_CHUNK).then_some(output.index)));
        assert_eq!(chunks, [tick]);
    }
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    assert_eq!(host.info().health, 0);
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("full_disk");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[test]
fn a_disk_that_is_full_cuts_the_file_off_and_costs_nothing_else() {
    let full = Path::new("/dev/full");
    for (record, trace, name) in [(Some(full), None, "record_path"), (None, Some(full), "trace_path")] {
        let lines = Mutex::default();
        let (status, words) = engine(record, trace, &lines).err().expect("it is full");
        assert_eq!(status, ARGUMENT);
        assert!(words.starts_with(&format!("options.{name}: /dev/full: No space left")), "{words}");
    }
    // SAFETY: of this process, whose one test this is: a write that goes too far fails, and is no signal.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let (record, trace) = (file("record"), file("trace"));
    // The whole of it fits; it does not with the last flush; nor in the middle of the run, once and again.
    for (ticks, bytes, is_whole) in [(20, 100, true), (20, 30_000, false), (200, 30_000, false)] {
        let lines = Mutex::default();
        let host = engine(Some(&record), None, &lines).unwrap();
        live(&host, ticks, bytes);
        drop(host);
        let lines = lines.into_inner().unwrap();
        let said = "options.record_path: File too large (os error 27): the record is cut off".to_string();
        assert_eq!(lines, if is_whole { vec![] } else { vec![said] }, "{ticks} {bytes}");
        let lines = Mutex::default();
        let host = engine(None, None, &lines).unwrap();
        let mut error: rte_error = zeroed();
        let path = CString::new(record.to_str().unwrap()).unwrap();
        // SAFETY: the engine lives; a path and a place.
        let status = unsafe { rte_engine_replay(host.engine, path.as_ptr(), &mut error) };
        // SAFETY: zero, or the library's text.
        let words = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy();
        assert_eq!(status, if is_whole { 0 } else { ARGUMENT }, "{words}");
        assert_eq!(words.contains("cut off"), !is_whole, "{words}");
    }
    for (ticks, is_whole) in [(100, true), (5_000, false)] {
        let lines = Mutex::default();
        let host = engine(None, Some(&trace), &lines).unwrap();
        live(&host, ticks, 8);
        drop(host);
        let said = "options.trace_path: File too large (os error 27): the trace is cut off".to_string();
        assert_eq!(lines.into_inner().unwrap(), if is_whole { vec![] } else { vec![said] }, "{ticks}");
        let text = std::fs::read(&trace).unwrap();
        assert_eq!(text.ends_with(b"\n]\n"), is_whole);
        assert!(is_whole || text.len() as u64 == LIMIT, "up to the last byte");
    }
}
