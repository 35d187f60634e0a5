//! Dialogues of a client session with real servers, and with our own.
