//! What authenticates a request.

use http::HeaderValue;

use crate::sigv4::Keys;

pub(crate) enum Secret {
    /// A bearer token, as the value of `Authorization`.
    Token(HeaderValue),
    /// Keys that sign the request.
    Keys(Keys),
}
