//! A pair in two files, followed by content.
//!
//! On a timer, not by inotify: the files of a mounted Secret are replaced by a
//! change of a symbolic link, of which inotify tells nothing
//! (<https://github.com/kubernetes/kubernetes/issues/111947>).

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use super::Publisher;
use super::pair::{Origin, Pair};

/// How often the files are read by default; `protocol.md` §7.2 wants a new
/// pair in force within 60 s.
pub const EVERY: Duration = Duration::from_secs(10);

/// The longest rest.
const MOST: Duration = Duration::from_secs(60);

/// How soon a pair that is no pair is read again: it may be being written.
const AGAIN: Duration = Duration::from_secs(1);

/// More than any chain of certificates.
const MOST_BYTES: u64 = 1024 * 1024;

/// The pair's files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain, PEM, leaf first.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
    /// How often they are read; at most 60 s counts.
    pub every: Duration,
}

impl Files {
    /// Two files, read at the default interval.
    #[must_use]
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            certificate,
            key,
            every: EVERY,
        }
    }

    fn origin(&self) -> Origin {
        Origin {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
        }
    }
}

/// Follows the files until told to stop. They need not exist at the start: who
/// writes them may be slower than we are.
pub async fn run(
    files: Files,
    publisher: Publisher,
    clock: impl Fn() -> SystemTime,
    mut stop: watch::Receiver<bool>,
) {
    let mut follower = Follower {
        files,
        publisher,
        served: None,
        broken: None,
    };
    loop {
        let rest = follower.look(clock()).await;
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

type Texts = (Vec<u8>, Vec<u8>);

struct Follower {
    files: Files,
    publisher: Publisher,
    /// What is in force.
    served: Option<Texts>,
    /// What was seen last and is no pair.
    broken: Option<Result<Texts, String>>,
}

impl Follower {
    /// Looks at the files once; how long to rest before the next time.
    async fn look(&mut self, now: SystemTime) -> Duration {
        let rest = self.files.every.min(MOST);
        let texts = self.read().await;
        if self.served.is_some() && texts.as_ref().ok() == self.served.as_ref() {
            self.broken = None;
            self.publisher.well();
            return rest;
        }
        let why = match &texts {
            Ok((chain, key)) => match pair(chain, key, &self.files.origin(), now) {
                Ok(pair) => {
                    self.publisher.serve(&pair);
                    self.served = texts.ok();
                    self.broken = None;
                    return rest;
                }
                Err(why) => why,
            },
            Err(why) => why.clone(),
        };
        // Of two files one is always written first: only what stays broken is.
        let waiting = self.served.is_none();
        if waiting || self.broken.as_ref() == Some(&texts) {
            self.publisher.failing(&why);
        }
        self.broken = Some(texts);
        rest.min(AGAIN)
    }

    async fn read(&self) -> Result<Texts, String> {
        let chain = read(&self.files.certificate).await?;
        let key = read(&self.files.key).await?;
        Ok((chain, key))
    }
}

fn pair(chain: &[u8], key: &[u8], origin: &Origin, now: SystemTime) -> Result<Pair, String> {
    let pair = Pair::read(chain, key, origin).map_err(|error| error.to_string())?;
    pair.check(now).map_err(|error| error.to_string())?;
    Ok(pair)
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |reason: String| {
        format!(
            "{}: {reason}: write the serving certificate and its key there, or name other files",
            path.display()
        )
    };
    let file = tokio::fs::File::open(path)
        .await
        .map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes).await;
    match read {
        Err(error) => Err(unreadable(error.to_string())),
        Ok(count) if count as u64 > MOST_BYTES => {
            Err(unreadable(format!("more than {MOST_BYTES} bytes")))
        }
        Ok(_) => Ok(bytes),
    }
}
