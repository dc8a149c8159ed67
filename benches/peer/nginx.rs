//! nginx with prepared answers, from disk over TLS, as the upper limit.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::controlplane::authority::{authority, serving};
use crate::program::{Program, eventually};
use crate::prometheus::free_port;

const REMEDY: &str = "is missing: apt-get install nginx-light";

/// A running nginx, ended on drop.
#[derive(Debug)]
pub(super) struct Nginx {
    program: Option<Program>,
    pub(super) port: u16,
    _dir: TempDir,
}

impl Nginx {
    /// Serves each of these bodies as `/NAME`.
    pub(super) fn start(bodies: &[(String, String)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let identity = serving(&authority("test"), &["localhost"]);
        for (name, text) in [
            ("tls.crt", &identity.cert.pem()),
            ("tls.key", &identity.signing_key.serialize_pem()),
            ("nginx.conf", &configuration(dir.path(), port)),
        ]
        .into_iter()
        .chain(bodies.iter().map(|(name, body)| (name.as_str(), body)))
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let path = std::env::var("PATH").unwrap_or_default();
        assert!(
            Path::new("/usr/sbin/nginx").is_file(),
            "nginx {REMEDY}, or elsewhere than in /usr/sbin"
        );
        let mut command = Command::new("/usr/sbin/nginx");
        command.env("PATH", path).arg("-p").arg(dir.path()).args([
            "-e",
            "stderr",
            "-c",
            "nginx.conf",
        ]);
        let program = Program::start(command);
        eventually("nginx", Duration::from_secs(10), || {
            std::net::TcpStream::connect(("127.0.0.1", port))
                .map(drop)
                .map_err(|error| format!("{error}: {}", program.stderr()))
        });
        Self {
            program: Some(program),
            port,
            _dir: dir,
        }
    }

    /// The process id of the master, whose children do the work.
    pub(super) fn id(&self) -> u32 {
        self.program.as_ref().map_or(0, Program::id)
    }
}

/// As many workers as processors, as in Debian's default, and no access log.
fn configuration(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "daemon off; worker_processes auto; user root; pid {dir}/pid;\n\
         events {{ worker_connections 128; }}\n\
         http {{\n\
         access_log off; default_type application/json; keepalive_requests 100000000;\n\
         client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         server {{\n\
         listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_certificate {dir}/tls.crt; ssl_certificate_key {dir}/tls.key;\n\
         root {dir};\n\
         }} }}\n"
    )
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The workers would survive a killed master.
        if let Some(program) = self.program.take() {
            program.signal("TERM");
            program.await_end(Duration::from_secs(10));
        }
    }
}
