//! A plain FTP server without MLSD that lists its folders as a test says, whatever its files are.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

/// What every file of it holds.
pub const CONTENT: &[u8] = b"hello";

/// What stands for the lines of a folder that is not there any more.
pub const GONE: &str = "gone since it was listed";

/// The lines that LIST gives of a path without its last slash.
pub type Lists = fn(&str) -> &'static str;

/// Starts it; returns its URL. It serves until the test ends.
///
/// # Panics
/// When it cannot listen.
pub fn list_server(lists: Lists) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes is no matter of the server's.
            std::thread::spawn(move || drop(serve(client, lists)));
        }
    });
    format!("ftp://127.0.0.1:{port}")
}

fn serve(mut client: TcpStream, lists: Lists) -> io::Result<()> {
    let lines = BufReader::new(client.try_clone()?).lines();
    let mut data = None;
    client.write_all(b"220 ready\r\n")?;
    for line in lines {
        let line = line?;
        let (verb, path) = line.split_once(' ').unwrap_or((&line, ""));
        let path = path.trim_end_matches('/');
        let is_folder = !matches!(lists(path), "" | GONE);
        let reply = match (verb, is_folder) {
            ("USER", _) => "331 password".to_owned(),
            ("PASS", _) => "230 in".to_owned(),
            ("FEAT", _) => {
                "211-Features\r\n SIZE\r\n MDTM\r\n EPSV\r\n REST STREAM\r\n211 End".to_owned()
            }
            ("PWD", _) => "257 \"/\"".to_owned(),
            ("TYPE" | "MODE" | "STRU" | "NOOP", _) | ("CWD", true) => "200 done".to_owned(),
            ("REST", _) => "350 from there".to_owned(),
            ("SIZE", false) => format!("213 {}", CONTENT.len()),
            ("MDTM", false) => "213 20261127000000".to_owned(),
            ("CWD" | "SIZE" | "MDTM", _) => "550 no".to_owned(),
            ("EPSV", _) => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                data = Some(listener);
                format!("229 here (|||{port}|)")
            }
            ("LIST", _) if lists(path) == GONE => "550 No such file or directory".to_owned(),
            ("LIST" | "RETR", _) => {
                let Some(listener) = data.take() else { return Ok(()) };
                client.write_all(b"150 it comes\r\n")?;
                let (mut data, _) = listener.accept()?;
                data.write_all(if verb == "LIST" { lists(path).as_bytes() } else { CONTENT })?;
                "226 done".to_owned()
            }
            ("QUIT", _) => return client.write_all(b"221 bye\r\n"),
            _ => "502 not here".to_owned(),
        };
        client.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}
