//! A client of a few lines that says what no good client would, and a server that only says one thing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A control connection on which anything can be said.
#[derive(Debug)]
pub struct RawClient {
    reader: BufReader<TcpStream>,
    host: SocketAddr,
}

impl RawClient {
    /// Connects to `ftp://HOST:PORT`, logs in, and goes to MODE E.
    ///
    /// # Panics
    /// When any of it fails.
    pub fn open(url: &str) -> RawClient {
        let host = url.trim_start_matches("ftp://").parse().expect("ftp://ADDRESS:PORT");
        let stream = TcpStream::connect(host).expect("the node listens");
        // A node that never answers is a failed test, not one that hangs.
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut client = RawClient { reader: BufReader::new(stream), host };
        assert!(client.final_reply().starts_with("220"));
        for command in ["USER anonymous", "PASS x@", "TYPE I", "MODE E"] {
            let reply = client.ask(command);
            assert!(reply.starts_with('2') || reply.starts_with("331"), "{command}: {reply}");
        }
        client
    }

    /// Says a line and does not wait.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn say(&mut self, command: &str) {
        self.reader.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("the control connection stands");
    }

    /// Says a line and answers with the final reply.
    pub fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.final_reply()
    }

    /// The next reply that is not preliminary, all of its lines.
    ///
    /// # Panics
    /// When none comes.
    pub fn final_reply(&mut self) -> String {
        loop {
            let mut reply = String::new();
            loop {
                let mut line = Vec::new();
                let read = self.reader.read_until(b'\n', &mut line).expect("a reply");
                assert!(read > 0, "the node closed the control connection after: {reply}");
                let line = String::from_utf8_lossy(&line).into_owned();
                reply.push_str(&line);
                let last = line.len() > 3 && line.as_bytes()[..3].iter().all(u8::is_ascii_digit) && line.as_bytes()[3] == b' ';
                if last {
                    break;
                }
            }
            if !reply.starts_with('1') {
                return reply;
            }
        }
    }

    /// Asks for a data port and connects to it.
    ///
    /// # Panics
    /// When there is none.
    pub fn passive(&mut self) -> TcpStream {
        let reply = self.ask("EPSV");
        let port = reply.split('|').nth(3).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no port in {reply}"));
        TcpStream::connect(SocketAddr::new(self.host.ip(), port)).expect("the data port")
    }
}

/// MODE E by hand (GFD.20, section 4.3).
#[derive(Debug)]
pub struct Blocks;

impl Blocks {
    /// Any header: flags, offset, count.
    pub fn header(flags: u8, offset: u64, count: u64) -> Vec<u8> {
        [&[flags][..], &count.to_be_bytes(), &offset.to_be_bytes()].concat()
    }

    /// End of data on this channel, end of file over `channels` channels.
    pub fn eof(channels: u64) -> Vec<u8> {
        Blocks::header(0x48, channels, 0)
    }

    /// Writes as much as the node takes: it may break the connection at the first wrong byte.
    pub fn write(data: &mut TcpStream, bytes: &[u8]) {
        let _ = data.write_all(bytes);
    }
}

/// A server on a loopback port that says `words` to the first that come, and closes when they have spoken; answers with the port.
///
/// # Panics
/// When there is no port.
pub fn answer_with(words: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(&words);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
            let _ = stream.read(&mut [0; 512]);
        }
    });
    port
}
