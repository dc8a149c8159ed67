//! Lists the files of `src/presets`: an inference server is one file, and its word the file's
//! name.

use std::error::Error;
use std::path::Path;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src/presets");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let mut words = String::new();
    for file in &files {
        let word = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = file.display().to_string();
        words += &format!("({word:?}, preset(include_str!({path:?}))),\n");
    }
    let table = Path::new(&env::var("OUT_DIR")?).join("presets.rs");
    Ok(fs::write(table, format!("&[\n{words}]"))?)
}
