//! Whole rings on a virtual network.

mod facts;
mod failure;
mod input;
mod membership;
mod net;
mod versions;
