//! Reads small files that other programs write: only regular ones, within a size and a
//! time. A pipe or a device in place of a certificate would otherwise block its reader
//! for ever.

pub mod yaml;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;

/// Larger than any certificate chain, key or token, in bytes.
pub(crate) const MOST_BYTES: u64 = 1024 * 1024;

/// The time limit of a read; a network file system may hang.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// Reads a file; the error says why it could not. Follows a link. Blocks.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Checked before opening, because opening a pipe waits for its writer.
    let kind = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !kind.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let count = file
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if count as u64 > MOST_BYTES {
        return Err(format!("more than {MOST_BYTES} bytes"));
    }
    Ok(bytes)
}

/// Reads a file as [`read`] does, apart from the threads that serve requests.
pub async fn read_apart(path: &Path) -> Result<Vec<u8>, String> {
    let path = path.to_owned();
    run_blocking(move || read(&path)).await?
}

/// Reads a text file; the error says why it could not. Follows a link. Blocks.
pub fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|_| "this is no text in UTF-8".to_owned())
}

/// The content of a file with one secret, without white space around it; the error says
/// why there is none.
pub async fn secret(path: &Path) -> Result<SecretString, String> {
    let read = read_apart(path).await;
    let bytes = read.map_err(|why| format!("cannot be read: {why}"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| "cannot be read: this is no text".to_owned())?;
    match text.trim() {
        "" => Err("is empty".to_owned()),
        secret => Ok(secret.into()),
    }
}

/// Runs work that blocks, such as reading files, outside of the threads that serve
/// requests. The error is a message: the work failed or took too long.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work);
    match tokio::time::timeout(WITHIN, done).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err("reading was given up".to_owned()),
        Err(_) => Err(format!("not read within {} s", WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_also_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert_eq!(read(&at("link")).unwrap(), b"text");
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success(), "mkfifo of coreutils is needed");
        std::os::unix::fs::symlink(at("pipe"), at("to-pipe")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        for name in ["pipe", "to-pipe", "device", "."] {
            assert_eq!(read(&at(name)).unwrap_err(), "this is not a regular file");
        }
        std::fs::write(at("large"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        assert_eq!(read(&at("large")).unwrap_err(), "more than 1048576 bytes");
        assert!(read(&at("none")).unwrap_err().contains("No such file"));
    }
}
