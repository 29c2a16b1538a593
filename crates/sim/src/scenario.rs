//! A world as a scripted test wants it.
