//! Tests of the repository as a whole.

mod citations;
mod layering;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder, or the file itself.
fn files(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.to_path_buf()];
    }
    let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| files(&path)).collect()
}

/// Name and content of every text file at these places.
fn texts(places: &str) -> Vec<(String, String)> {
    let places = places.split_whitespace().map(|place| root().join(place));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        Some((name.to_owned(), fs::read_to_string(&path).ok()?))
    };
    places
        .flat_map(|place| files(&place))
        .filter_map(read)
        .collect()
}
