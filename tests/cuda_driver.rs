//! What is found of CUDA when an engine is made, and what is said of it: on a machine without, with an old one, with one
//! that sees no device; which device is taken, which streams are made, and which lent ones are refused.

mod cuda_host;
mod driver;
mod random;
mod support;

use std::ffi::{CStr, CString, c_void};
use std::process::Command;
use std::ptr::null_mut;

use cuda_host::bench::within;
use cuda_host::fake::{Census, Handle, fake, under};
use driver::*;
use rte::lane::CUDA_FUNCTIONS;

const OK: i32 = 0;
const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;

/// What `init` was shown: the streams, and which context was current.
#[derive(Default)]
struct Shown {
    streams: Vec<Handle>,
    context: usize,
}

unsafe extern "C-unwind" fn init(user: *mut c_void, streams: *const rte_stream) -> i32 {
    let mut context = null_mut();
    cuda!(cuCtxGetCurrent(&mut context));
    // SAFETY: the `Shown` of `make`, and three streams.
    unsafe {
        (*user.cast::<Shown>()).streams = (0..3).map(|at| (*streams.add(at)).cast()).collect();
        (*user.cast::<Shown>()).context = context.addr();
    }
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

/// An engine with these options, of a model with a stage on each lane; or the status and the words.
fn make(options: rte_engine_options, shown: Option<&mut Shown>) -> Result<Host, (i32, String)> {
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, nothing), stage(RTE_ENCODE, nothing)];
    let mut model = model(&stages, 2, 64);
    if let Some(shown) = shown {
        model.init = Some(init);
        model.user = std::ptr::from_mut(shown).cast();
    }
    let (mut engine, mut error): (*mut rte_engine, rte_error) = (null_mut(), zeroed());
    // SAFETY: valid descriptors and places.
    let status = unsafe { rte_engine_new(&model, &options, &mut engine, &mut error) };
    if status == OK {
        return Ok(Host { engine });
    }
    // SAFETY: the library's text.
    Err((status, unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned()))
}

fn refusal(options: rte_engine_options) -> (i32, String) {
    match make(options, None) {
        Ok(_) => panic!("an engine was made"),
        Err(refusal) => refusal,
    }
}

fn cuda_lanes() -> rte_engine_options {
    rte_engine_options { lanes: RTE_LANES_CUDA, ..options() }
}

/// Runs this program's test `name` in a process that finds the driver in `folder`.
fn in_child(name: &str, folder: Option<&std::path::Path>, settings: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture", "--ignored"]).envs(settings.iter().copied());
    child.env("LD_LIBRARY_PATH", folder.map_or("/nowhere".into(), std::path::Path::to_path_buf));
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter_map(|line| line.split_once("said ")).map(|(_, words)| words.to_string()).collect()
}

/// Not a test: what the processes of the others run.
#[test]
#[ignore = "run by others, with a driver of their choice"]
fn say_what_is_found() {
    let asked = make(cuda_lanes(), None).map(|host| host.info().lanes);
    let auto = make(rte_engine_options { lanes: RTE_LANES_AUTO, ..options() }, None).map(|host| host.info().lanes);
    println!("said {asked:?}, {auto:?}");
}

/// What CUDA lanes come to, and that AUTO is inline then.
fn expect_none(said: String, words: &str) {
    assert_eq!(said, format!("Err(({UNAVAILABLE}, {words:?})), Ok({RTE_LANES_INLINE})"));
}

#[test]
fn without_a_driver_or_a_device_the_error_says_so_and_auto_is_inline() {
    // A machine may have a driver of its own.
    if std::process::Command::new("sh")
        .args(["-c", "ldconfig -p | grep -q libcuda.so.1"])
        .status()
        .is_ok_and(|found| !found.success())
    {
        let missing = "libcuda.so.1: cannot open shared object file: No such file or directory";
        expect_none(in_child("say_what_is_found", None, &[]), &format!("no CUDA driver: {missing}"));
    }
    let driver = support::cuda::driver(&support::scratch("found"), &[]);
    let none = in_child("say_what_is_found", Some(&driver), &[("FAKE_CUDA_DEVICES", "none")]);
    expect_none(none, "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected");
    let zero = in_child("say_what_is_found", Some(&driver), &[("FAKE_CUDA_DEVICES", "0")]);
    expect_none(zero, "the CUDA driver sees no device");
    let both = in_child("say_what_is_found", Some(&driver), &[]);
    assert_eq!(both, format!("Ok({RTE_LANES_CUDA}), Ok({RTE_LANES_CUDA})"));
}

#[test]
fn a_driver_that_lacks_a_function_is_refused_and_the_error_names_it() {
    let whole = std::fs::read(support::cuda::driver(&support::scratch("whole"), &[]).join("libcuda.so.1")).unwrap();
    let folder = support::scratch("lacking");
    for symbol in CUDA_FUNCTIONS {
        // Its name is another in the table of names; that of the hashes stays, so it is not found under either.
        let (name, mut lacking) = (format!("\0{symbol}\0"), whole.clone());
        let at = whole.windows(name.len()).position(|window| window == name.as_bytes()).expect(symbol);
        lacking[at + 1] = b'x';
        std::fs::write(folder.join("libcuda.so.1"), lacking).unwrap();
        let words = format!("libcuda.so.1: the CUDA driver has no {symbol}: it is too old");
        expect_none(in_child("say_what_is_found", Some(&folder), &[]), &words);
    }
}

#[test]
fn the_library_needs_no_cuda() {
    let library = support::library();
    let output = Command::new("readelf").arg("-d").arg(&library).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let needed: Vec<&str> = said.lines().filter(|line| line.contains("(needed)")).collect();
    assert!(!needed.is_empty() && needed.iter().all(|line| !line.contains("cuda")), "{needed:?}");
}

#[test]
fn the_device_is_chosen_by_number_or_by_name() {
    under("the_device_is_chosen_by_number_or_by_name", &[], || {
        let context = fake().context(1);
        let mut bytes = [0u8; 16];
        cuda!(cuDeviceGetUuid_v2(&mut bytes, 1));
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let [a, b, c, d, e] = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        let name = CString::new(format!("GPU-{a}-{b}-{c}-{d}-{e}")).unwrap();
        for options in [
            rte_engine_options { device: 1, ..cuda_lanes() },
            rte_engine_options { device_uuid: name.as_ptr(), ..cuda_lanes() },
        ] {
            let mut shown = Shown::default();
            let host = make(options, Some(&mut shown)).unwrap();
            assert_eq!(host.tick(), OK);
            assert_eq!(shown.context, context.addr());
            assert!(shown.streams.iter().all(|stream| fake().stream(*stream).device == 1));
        }
        fake().let_go(1);
        let beyond = refusal(rte_engine_options { device: 2, ..cuda_lanes() });
        assert_eq!(beyond, (ARGUMENT, "options.device: 2, but the CUDA driver sees 2, from 0".to_string()));
        assert_eq!(refusal(rte_engine_options { device: -1, ..cuda_lanes() }).0, ARGUMENT);
        let unknown = refusal(rte_engine_options {
            device_uuid: c"GPU-00000000-0000-0000-0000-000000000000".as_ptr(),
            ..cuda_lanes()
        });
        assert_eq!(unknown.0, ARGUMENT);
        assert!(unknown.1.starts_with("options.device_uuid: none of the 2 devices"), "{}", unknown.1);
        let wrong = refusal(rte_engine_options { device_uuid: c"the fast one".as_ptr(), ..cuda_lanes() });
        assert_eq!((wrong.0, wrong.1.starts_with("options.device_uuid: \"the fast one\" is not")), (ARGUMENT, true));
        fake().expect_rules_kept();
        assert_eq!(fake().census(), Census::default());
    });
}

#[test]
fn streams_do_not_block_and_hot_comes_first() {
    under("streams_do_not_block_and_hot_comes_first", &[], || {
        let mut shown = Shown::default();
        let host = make(rte_engine_options { encode_lanes: 3, ..cuda_lanes() }, Some(&mut shown)).unwrap();
        assert_eq!(host.tick(), OK);
        let [hot, deferred, encode] = [0, 1, 2].map(|lane| fake().stream(shown.streams[lane]));
        // The driver's greatest priority is -5 here, and the least 0.
        assert_eq!((hot.priority, encode.priority), (-5, 0));
        assert!((-5..=0).contains(&deferred.priority));
        assert!([hot, deferred, encode].iter().all(|stream| stream.flags == 1));
        assert_eq!(fake().census().streams, 5, "ENCODE has three");
        drop(host);
        assert_eq!(fake().census(), Census::default());
    });
}

#[test]
fn lent_streams_that_cannot_serve_are_refused() {
    under("lent_streams_that_cannot_serve_are_refused", &[], || {
        let (own, other) = (fake().context(0), fake().context(1));
        let mut private = null_mut();
        cuda!(cuCtxCreate_v2(&mut private, 0, 0));
        cuda!(cuCtxPopCurrent_v2(&mut null_mut()));
        let stream_in = |context| {
            let mut stream = null_mut();
            within(context, || cuda!(cuStreamCreateWithPriority(&mut stream, 1, 0)));
            stream
        };
        let streams = [own, other, private].map(stream_in);
        let lending = |lane: usize, stream: Handle| {
            let mut options = cuda_lanes();
            options.streams[lane] = stream.cast();
            options
        };
        let named = std::ptr::without_provenance_mut::<c_void>;
        for (lane, stream, words) in [
            (0, named(1), "options.streams[0]: a default stream, which waits for others"),
            (1, named(2), "options.streams[1]: a default stream, which waits for others"),
            (
                2,
                streams[1],
                "options.streams[2]: of another context than the device's primary one, or of another device",
            ),
            (
                0,
                streams[2],
                "options.streams[0]: of another context than the device's primary one, or of another device",
            ),
        ] {
            assert_eq!(refusal(lending(lane, stream)), (ARGUMENT, words.to_string()));
        }
        let mut graph = null_mut();
        within(own, || cuda!(cuStreamBeginCapture_v2(streams[0], 2)));
        assert_eq!(refusal(lending(1, streams[0])), (ARGUMENT, "options.streams[1]: being captured".to_string()));
        within(own, || {
            cuda!(cuStreamEndCapture(streams[0], &mut graph));
            cuda!(cuGraphDestroy(graph));
        });
        let mut shown = Shown::default();
        let host = make(lending(1, streams[0]), Some(&mut shown)).unwrap();
        assert_eq!(host.tick(), OK);
        assert_eq!(shown.streams[1], streams[0]);
        drop(host);
        assert_eq!(fake().stream(streams[0]).is_alive, 1, "it is the host's");
        for (context, stream) in [own, other, private].into_iter().zip(streams) {
            within(context, || {
                cuda!(cuStreamSynchronize(stream));
                cuda!(cuStreamDestroy_v2(stream));
            });
        }
        cuda!(cuCtxDestroy_v2(private));
        fake().let_go(0);
        fake().let_go(1);
        fake().expect_rules_kept();
    });
}

#[test]
fn each_callback_finds_the_devices_context_and_the_caller_its_own() {
    under("each_callback_finds_the_devices_context_and_the_caller_its_own", &[], || {
        let (own, other) = (fake().context(0), fake().context(1));
        within(other, || {
            let mut shown = Shown::default();
            let host = make(cuda_lanes(), Some(&mut shown)).unwrap();
            // SAFETY: a context.
            let expect_own = || unsafe { (fake().fake_cuda_expect_current)(other) };
            expect_own();
            assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
            (0..3).for_each(|_| assert_eq!(host.tick(), OK));
            assert_eq!(shown.context, own.addr());
            expect_own();
            host.pop_all(|_| {});
            expect_own();
            drop(host);
            expect_own();
        });
        fake().let_go(0);
        fake().let_go(1);
        fake().expect_rules_kept();
        assert_eq!(fake().census(), Census::default());
    });
}
