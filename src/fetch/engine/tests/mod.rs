//! The engine against a source in memory.

mod slots;
mod versions;
mod world;
