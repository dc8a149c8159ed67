//! JSON documents that are rarely requested.

use serde::Serialize;

/// Encodes a rarely requested document, followed by a newline as in Go's responses.
pub fn document(value: &impl Serialize) -> Vec<u8> {
    // Serialization cannot fail: all keys are strings, and all values can be encoded.
    let mut out = serde_json::to_vec(value).unwrap_or_default();
    out.push(b'\n');
    out
}

/// Indents a compact document by two spaces, like Go's `json.MarshalIndent`.
pub(super) fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (at, &byte) in compact.iter().enumerate() {
        let next = compact.get(at + 1);
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            out.push(byte);
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if !matches!(next, Some(b'}' | b']')) {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                if !matches!(
                    at.checked_sub(1).and_then(|at| compact.get(at)),
                    Some(b'{' | b'[')
                ) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indenting_changes_no_meaning() {
        let value =
            serde_json::json!({"a": [], "b": {}, "c": [1, {"d": "x,:{}[]\"\\"}], "e": null});
        let compact = serde_json::to_vec(&value).unwrap();
        let pretty = indent(&compact);
        assert_eq!(
            String::from_utf8(pretty).unwrap(),
            serde_json::to_string_pretty(&value).unwrap()
        );
    }
}
