//! Dialogues of real clients with a server session.
