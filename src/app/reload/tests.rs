//! Files that are valid, invalid, half-written, replaced and missing.

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use super::*;
use configuration::Flags;

const FIRST: &str = "prometheus: {url: 'http://one:9090'}\n";
const SECOND: &str = "prometheus: {url: 'http://two:9090'}\n";

/// A file that has [`FIRST`] in force.
struct Scene {
    folder: tempfile::TempDir,
    file: ConfigFile,
    refused: watch::Sender<Option<String>>,
    hangup: mpsc::Sender<()>,
    hangups: mpsc::Receiver<()>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, FIRST).unwrap();
        let file = ConfigFile {
            path: path.clone(),
            text: FIRST.to_owned(),
            flags: Flags {
                config: Some(path),
                ..Flags::default()
            },
        };
        let (hangup, hangups) = mpsc::channel(1);
        Self {
            folder,
            file,
            refused: watch::Sender::default(),
            hangup,
            hangups,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }

    fn refusal(&self) -> Option<String> {
        self.refused.borrow().clone()
    }

    /// The address in the next configuration; `None`: none within this time.
    async fn next(&mut self, within: Duration) -> Option<String> {
        let next = changed(Some(&self.file), &mut self.hangups, &self.refused);
        let loaded = tokio::time::timeout(within, next).await.ok()?;
        Some(loaded.config.prometheus.unwrap().url.to_string())
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_valid_change_is_used_within_a_minute() {
    let mut scene = Scene::new();
    assert_eq!(scene.next(seconds(60)).await, None, "nothing changed");
    scene.write(SECOND);
    let told = scene.next(seconds(60)).await.unwrap();
    assert!(told.contains("two"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn replicas_use_a_valid_change_at_different_times() {
    let time = async || {
        let mut scene = Scene::new();
        scene.write(SECOND);
        let began = Instant::now();
        scene.next(seconds(60)).await.unwrap();
        began.elapsed()
    };
    assert_ne!(time().await, time().await);
}

#[tokio::test(start_paused = true)]
async fn a_hangup_runs_again_with_the_same_valid_file() {
    let mut scene = Scene::new();
    scene.hangup.send(()).await.unwrap();
    assert!(scene.next(seconds(1)).await.is_some());
    scene.write("gpu: {window: soon}\n");
    scene.hangup.send(()).await.unwrap();
    assert_eq!(scene.next(seconds(1)).await, None);
    assert!(scene.refusal().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_not_used() {
    let mut scene = Scene::new();
    let path = scene.path();
    let writing = async {
        // A write between two looks.
        for part in 0..8 {
            tokio::time::sleep(EVERY / 2).await;
            std::fs::write(&path, SECOND.replace("two", &format!("part{part}"))).unwrap();
        }
        std::fs::write(&path, SECOND).unwrap();
    };
    let (told, ()) = tokio::join!(scene.next(seconds(100)), writing);
    assert!(told.unwrap().contains("two"));
}

#[tokio::test(start_paused = true)]
async fn a_file_with_a_fault_stays_out_and_its_place_is_told() {
    for (text, place) in [
        (
            "prometheus: {url: 'http://two:9090'}\ngpu: {window: soon}\n",
            ":2:",
        ),
        ("rules: []\nnonsense: 1\n", ":2:1: nonsense: "),
        ("", "no address of Prometheus"),
    ] {
        let mut scene = Scene::new();
        scene.write(text);
        assert_eq!(scene.next(seconds(60)).await, None);
        let told = scene.refusal().expect(text);
        assert!(told.contains(place), "{told}");
        scene.write(FIRST);
        assert_eq!(scene.next(seconds(60)).await, None);
        assert_eq!(scene.refusal(), None, "it is in force again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_file_is_tried_again_when_what_it_names_comes_later() {
    let mut scene = Scene::new();
    let authority = scene.folder.path().join("ca.crt");
    scene.write(&format!(
        "prometheus: {{url: 'https://two:9090', tls: {{caFile: {}}}}}\n",
        authority.display()
    ));
    assert_eq!(scene.next(seconds(60)).await, None);
    let told = scene.refusal().unwrap();
    assert!(told.contains("ca.crt"), "{told}");
    let made = aggregated_apiserver::testing::authority::authority("test");
    std::fs::write(&authority, made.certificate_pem()).unwrap();
    assert!(scene.next(seconds(60)).await.unwrap().contains("two"));
}

#[tokio::test(start_paused = true)]
async fn a_mounted_file_is_followed_through_links_and_its_removal_is_reported() {
    let mut scene = Scene::new();
    let at = |name: &str| scene.folder.path().join(name);
    let version = |folder: &Path, name: &str, text: &str| {
        let at = |name: &str| folder.join(name);
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("config.yaml"), text).unwrap();
        std::os::unix::fs::symlink(at(name), at("next")).unwrap();
        std::fs::rename(at("next"), at("..data")).unwrap();
    };
    version(scene.folder.path(), "v1", FIRST);
    std::fs::remove_file(at("config.yaml")).unwrap();
    std::os::unix::fs::symlink(at("..data").join("config.yaml"), at("config.yaml")).unwrap();
    assert_eq!(scene.next(seconds(60)).await, None);
    std::fs::remove_file(scene.folder.path().join("..data")).unwrap();
    assert_eq!(scene.next(seconds(60)).await, None);
    let told = scene.refusal().unwrap();
    assert!(told.contains("cannot be read"), "{told}");
    version(scene.folder.path(), "v2", SECOND);
    assert!(scene.next(seconds(60)).await.unwrap().contains("two"));
}
