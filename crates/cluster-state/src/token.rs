//! The token in a file: a service account's, or a kubeconfig's `tokenFile`.
//!
//! `kube` 5 sends the file unchanged (`kube-client/src/client/auth/mod.rs`,
//! `TokenFile`), so that a line break in it makes every call fail; client-go sends it
//! without white space around it (`k8s.io/client-go/transport/token_source.go`,
//! `fileTokenSource`).

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use http::HeaderValue;

use super::error::ClientError;
use limits::file;

/// How often the file is read again.
const EVERY: Duration = Duration::from_secs(60);

/// A token that is read again at intervals.
pub(super) struct TokenFile {
    path: PathBuf,
    /// The value to send, and when it was read.
    known: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    /// Reads the token for the first time.
    pub(super) fn open(path: PathBuf) -> Result<Self, ClientError> {
        let known = read(&path)
            .map_err(|reason| ClientError::TokenFile(path.display().to_string(), reason))?;
        Ok(Self {
            path,
            known: Mutex::new((known, Instant::now())),
        })
    }

    /// The value of `Authorization`. If the file cannot be read, the last token stays
    /// in use, as in client-go.
    pub(super) async fn header(&self) -> HeaderValue {
        if let Some(known) = self.fresh(EVERY) {
            return known;
        }
        let path = self.path.clone();
        let header = file::aside(move || read(&path)).await.and_then(|read| read);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(header) = header {
            known.0 = header;
        }
        known.1 = Instant::now();
        known.0.clone()
    }

    fn fresh(&self, every: Duration) -> Option<HeaderValue> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        (known.1.elapsed() < every).then(|| known.0.clone())
    }
}

fn read(path: &std::path::Path) -> Result<HeaderValue, String> {
    let bytes = file::read(path)?;
    let token = String::from_utf8(bytes).map_err(|_| "this is no text".to_owned())?;
    let token = token.trim();
    if token.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token contains a line break or another control character".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<HeaderValue, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, text).unwrap();
        let file = TokenFile::open(path).map_err(|error| error.to_string())?;
        Ok(file.fresh(EVERY).unwrap())
    }

    #[test]
    fn white_space_around_a_token_is_no_part_of_it() {
        assert_eq!(open(" secret\r\n\n").unwrap(), "Bearer secret");
        assert!(open("secret\n").unwrap().is_sensitive());
    }

    #[test]
    fn a_file_without_a_token_is_named_with_the_remedy() {
        for text in ["", " \n", "two\nlines"] {
            let error = open(text).unwrap_err();
            assert!(error.contains("/token: "), "{error}");
            assert!(error.contains("write only the token"), "{error}");
            assert!(!error.contains("lines"), "{error}");
        }
    }
}
