//! What the user typed, and what the program needs of it.
