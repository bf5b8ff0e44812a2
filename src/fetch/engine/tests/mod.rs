//! The engine against a source in memory.

mod rewrites;
mod slots;
mod versions;
mod world;
