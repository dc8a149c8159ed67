//! Files of inputs with what becomes of each below it, indented. With `UPDATE_GOLDEN` set, the
//! files are written instead.

use std::path::Path;

/// Compares what becomes of each input with a file of the crate. `#` is before a comment; lines
/// of a result that are empty are left out.
pub(crate) fn compare(file: &str, of: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let known = std::fs::read_to_string(&path).unwrap();
    let mut made = String::new();
    for line in known.lines().filter(|line| !line.starts_with("    ")) {
        made += &format!("{line}\n");
        if !line.is_empty() && !line.starts_with('#') {
            let lines = of(line);
            let lines = lines.lines().filter(|line| !line.is_empty());
            made.extend(lines.map(|line| format!("    {line}\n")));
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).unwrap();
        return;
    }
    let mut both = made.lines().zip(known.lines());
    let differing = both.find(|(made, known)| made != known);
    assert!(
        made == known,
        "{file}, made and known; UPDATE_GOLDEN=1 writes it: {differing:#?}"
    );
}
