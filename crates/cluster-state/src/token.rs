//! The token in a file: a service account's, or a kubeconfig's `tokenFile`.
//!
//! `kube` 5 sends the content of the file unchanged (`kube-client/src/client/auth/mod.rs`,
//! `TokenFile`), so a line break in it makes every call fail. client-go removes the
//! surrounding white space (`k8s.io/client-go/transport/token_source.go`,
//! `fileTokenSource`), and so does this module.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::HeaderValue;
use parking_lot::Mutex;

use super::error::ClientError;
use limits::file;

/// How often the file is read again.
const EVERY: Duration = Duration::from_secs(60);

pub(super) struct TokenFile {
    path: PathBuf,
    /// The header value to send, and when it was read.
    known: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    pub(super) async fn open(path: PathBuf) -> Result<Self, ClientError> {
        let header = header(&path).await.map_err(|reason| {
            ClientError(format!(
                "token file {}: {reason}: write only the token into it, or set another tokenFile",
                path.display()
            ))
        })?;
        Ok(Self {
            path,
            known: Mutex::new((header, Instant::now())),
        })
    }

    /// The value of `Authorization`. If the file cannot be read, the last token stays
    /// in use, as in client-go.
    pub(super) async fn header(&self) -> HeaderValue {
        let (known, read) = self.known.lock().clone();
        if read.elapsed() < EVERY {
            return known;
        }
        let header = header(&self.path).await.unwrap_or(known);
        *self.known.lock() = (header.clone(), Instant::now());
        header
    }
}

async fn header(path: &Path) -> Result<HeaderValue, String> {
    let token = file::secret(path).await?;
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "the token contains a line break or another control character".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(text: &str) -> Result<HeaderValue, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let opened = TokenFile::open(file.path().to_owned()).await;
        let file = opened.map_err(|error| error.to_string())?;
        Ok(file.header().await)
    }

    #[tokio::test]
    async fn white_space_around_a_token_is_no_part_of_it() {
        let header = open(" secret\r\n\n").await.unwrap();
        assert!(header == "Bearer secret" && header.is_sensitive());
    }

    #[tokio::test]
    async fn a_file_without_a_token_is_named_with_the_remedy() {
        for text in ["", " \n", "two\nlines"] {
            let error = open(text).await.unwrap_err();
            assert!(error.starts_with("token file /"), "{error}");
            assert!(error.contains("write only the token"), "{error}");
            assert!(!error.contains("lines"), "{error}");
        }
    }
    #[tokio::test]
    async fn a_token_stays_in_use_while_its_file_is_empty() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, "secret").unwrap();
        let file = TokenFile::open(path.to_path_buf()).await.unwrap();
        for (text, header) in [("", "Bearer secret"), ("next", "Bearer next")] {
            std::fs::write(&path, text).unwrap();
            file.known.lock().1 -= EVERY;
            assert_eq!(file.header().await, header);
        }
    }
}
