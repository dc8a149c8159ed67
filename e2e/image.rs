//! The program in the environment of the image's final stage: an otherwise empty
//! root, and an unprivileged user. Unlike images, this needs no container builder.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::curl::curl;
use crate::program::{Program, eventually, output};

/// The libraries in `gcr.io/distroless/cc-debian12` (`cc/BUILD` of
/// GoogleContainerTools/distroless: libc6, libgcc-s1, libgomp1, libstdc++6) that a
/// Rust program may need.
const LIBRARIES: [&str; 7] = [
    "ld-linux",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// The image's user.
const NOBODY: &str = "65532:65532";

/// Paths of the libraries that the binary is linked with.
fn libraries(binary: &Path) -> BTreeSet<PathBuf> {
    let text = output(Command::new("ldd").arg(binary)).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

/// A root with only the binary, its libraries, and a folder for the test's files.
fn empty_root(binary: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |from: &Path, to: &str| {
        let to = root.path().join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    };
    put(binary, "gpu-metrics-apiserver");
    for library in libraries(binary) {
        let name = library.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            LIBRARIES.iter().any(|known| name.starts_with(known)),
            "{name} is not in the image: distroless/cc has {LIBRARIES:?}"
        );
        put(&library, library.to_str().unwrap());
    }
    // Temporary directories have mode 0700, which excludes the image's user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.path(), open).unwrap();
    root
}

/// Runs the binary in that root. A user other than root becomes root in a new user
/// namespace, which has no other users.
fn inside(root: &Path) -> Command {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = match is_root {
        true => Command::new("chroot"),
        false => Command::new("unshare"),
    };
    match is_root {
        true => command.arg(format!("--userspec={NOBODY}")),
        false => command.args(["--map-root-user", "chroot"]),
    };
    command.arg(root).arg("/gpu-metrics-apiserver");
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn the_program_serves_in_an_empty_root() {
    let root = empty_root(Path::new(env!("CARGO_BIN_EXE_gpu-metrics-apiserver")));
    let said = output(inside(root.path()).arg("--version")).unwrap();
    assert!(said.starts_with("gpu-metrics-apiserver "), "{said}");

    // The system's authorities are missing here, so the cluster's is configured.
    let config = root.path().join("config");
    std::fs::create_dir(&config).unwrap();
    let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&config, anybody).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let authority = authority.self_signed(&key).unwrap();
    std::fs::write(config.join("ca.crt"), authority.pem()).unwrap();
    let kubeconfig = r#"{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],
        "users":[{"name":"c","user":{}}],
        "clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1","certificate-authority":"/config/ca.crt"}}]}"#;
    std::fs::write(config.join("kubeconfig"), kubeconfig).unwrap();
    let port = crate::prometheus::free_port();
    let mut command = inside(root.path());
    command.args([
        &format!("--secure-port={port}"),
        "--shutdown-delay-duration=0s",
        "--cert-dir=/config",
        "--prometheus-url=http://127.0.0.1:1",
        "--lister-kubeconfig=/config/kubeconfig",
        "--authentication-kubeconfig=/config/kubeconfig",
        "--authorization-kubeconfig=/config/kubeconfig",
    ]);
    let program = Program::start(command);
    let ask = |path: &str| curl(&format!("https://127.0.0.1:{port}{path}"), "");
    eventually("/livez", Duration::from_secs(60), || match ask("/livez") {
        said if said == "ok" => Ok(()),
        said => Err(format!("{said}{}", program.stderr())),
    });
    let said = ask("/readyz?verbose");
    assert!(said.contains("[-]cluster-objects"), "{said}");
    program.signal("TERM");
    let end = program.await_end(Duration::from_secs(60));
    end.assert_orderly();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}
