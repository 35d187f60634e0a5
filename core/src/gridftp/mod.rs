//! The GridFTP protocol: commands, replies, MODE E blocks, and the client and server sessions.
