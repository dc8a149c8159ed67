//! Invalid files, and their errors.

use super::*;

#[test]
fn each_error_has_the_place_the_key_the_value_and_what_to_write() {
    transcript::compare("src/tests/refused.txt", |text| {
        error(&text.replace('⏎', "\n"))
    });
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, b"rules: []\n\xff").unwrap();
    for (path, words) in [
        (&*file, "it is no text: invalid utf-8"),
        (Path::new("/dev/zero"), "not a regular file"),
    ] {
        let flags = Flags {
            config: Some(path.to_owned()),
            ..Flags::default()
        };
        let error = flags.load().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("cannot be read: "), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
