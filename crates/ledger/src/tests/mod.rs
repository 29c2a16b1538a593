//! A small deterministic world of ledgers, and what must hold in it.

mod admission;
mod bounds;
mod chaos;
mod checks;
mod durability;
mod election;
mod flow;
mod formation;
mod meeting;
mod reform;
mod register;
mod replace;
mod world;
