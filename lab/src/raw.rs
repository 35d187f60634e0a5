//! A client of a few lines that says what no good client would, and servers that say what no good
//! server would.

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

    /// The same in MODE S: plain FTP.
    ///
    /// # Panics
    /// When any of it fails.
    pub fn in_stream_mode(url: &str) -> RawClient {
        let mut client = RawClient::open(url);
        let reply = client.ask("MODE S");
        assert!(reply.starts_with('2'), "{reply}");
        client
    }

    /// Says a line and does not wait.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn say(&mut self, command: &str) {
        self.reader
            .get_mut()
            .write_all(format!("{command}\r\n").as_bytes())
            .expect("the control connection stands");
    }

    /// Says a line and returns the final reply.
    pub fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.final_reply()
    }

    /// The next reply that is not preliminary, all of its lines.
    ///
    /// # Panics
    /// When none comes.
    pub fn final_reply(&mut self) -> String {
        self.replies().pop().unwrap_or_default()
    }

    /// All replies up to the final one, that one last.
    ///
    /// # Panics
    /// When none comes.
    pub fn replies(&mut self) -> Vec<String> {
        let mut replies = Vec::new();
        loop {
            let reply = self.reply();
            let is_final = !reply.starts_with('1');
            replies.push(reply);
            if is_final {
                return replies;
            }
        }
    }

    fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let mut line = Vec::new();
            let read = self.reader.read_until(b'\n', &mut line).expect("a reply");
            assert!(read > 0, "the node closed the control connection after: {reply}");
            let line = String::from_utf8_lossy(&line).into_owned();
            reply.push_str(&line);
            let last = line.len() > 3
                && line.as_bytes()[..3].iter().all(u8::is_ascii_digit)
                && line.as_bytes()[3] == b' ';
            if last {
                return reply;
            }
        }
    }

    /// Asks for a data port and connects to it.
    ///
    /// # Panics
    /// When there is none.
    pub fn passive(&mut self) -> TcpStream {
        TcpStream::connect(self.data_port()).expect("the data port")
    }

    /// Asks for a data port.
    ///
    /// # Panics
    /// When there is none.
    pub fn data_port(&mut self) -> SocketAddr {
        let reply = self.ask("EPSV");
        let port = reply
            .split('|')
            .nth(3)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("no port in {reply}"));
        SocketAddr::new(self.host.ip(), port)
    }
}

/// A connection to `to` from another address of this host.
///
/// # Panics
/// When there is none.
pub fn connected_from(from: &str, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let from: SocketAddr = from.parse().expect("an address");
    let end = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&end, &from).expect("an address of this host");
    connect(&end, &to).expect("the port");
    TcpStream::from(end)
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

/// A server on a loopback port that says `words` to the first that come, and closes when they have
/// spoken; returns the port.
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

/// Says `words` one byte at a time.
///
/// # Errors
/// When the other end is gone.
pub fn drip(stream: &mut TcpStream, words: &[u8], every: Duration) -> std::io::Result<()> {
    for byte in words.chunks(1) {
        stream.write_all(byte)?;
        std::thread::sleep(every);
    }
    Ok(())
}

/// A server on a loopback port whose greeting has no end, a byte at a time; returns the port.
///
/// # Panics
/// When there is no port.
pub fn dripping_greeting(every: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let greeting = [&b"220-hello\r\n"[..], &b" and more\r\n".repeat(1_000)].concat();
            // Until the client goes.
            let _ = drip(&mut stream, &greeting, every);
        }
    });
    port
}

/// The lines that a server lists a folder by: facts, a space and a name each.
pub type Listing = fn(&str) -> Vec<Vec<u8>>;

/// A server of a few lines that says what it is given to say.
#[derive(Clone, Debug, Default)]
pub struct ScriptedServer {
    /// What it says the size of each file is.
    pub size: u64,
    /// What it sends for each file in MODE E, whatever that is.
    pub blocks: Vec<u8>,
    /// What is in each folder of its one tree; without it there are files alone.
    pub listing: Option<Listing>,
    /// What it says each file's MD5 is; without it, that it knows none.
    pub digest: Option<&'static str>,
    /// What it replies to PASV; without it, that it knows none.
    pub passive: Option<&'static str>,
    /// The time between two bytes of a file; none by default.
    pub drips: Duration,
    /// Whether it is a plain FTP server, which sends `blocks` in MODE S over and over.
    pub is_endless: bool,
}

impl ScriptedServer {
    /// Listens on a loopback port; returns it.
    ///
    /// # Panics
    /// When there is no port.
    pub fn start(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = self.clone();
                // A client that goes away in the middle ends its session, nothing else.
                std::thread::spawn(move || script.serve(stream));
            }
        });
        port
    }

    fn serve(&self, control: TcpStream) -> std::io::Result<()> {
        let (mut says, mut target) = (control.try_clone()?, None);
        let mut listening: Option<TcpListener> = None;
        says.write_all(b"220 a server\r\n")?;
        for line in BufReader::new(control).lines() {
            let line = line?;
            let (name, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let reply = match name {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "FEAT" => {
                    let lists =
                        if self.listing.is_some() { " MLST Type*;Size*;\r\n MLSC\r\n" } else { "" };
                    let digests = if self.digest.is_some() { " CKSM MD5:10;\r\n" } else { "" };
                    let grid = if self.is_endless { "" } else { " PARALLEL\r\n" };
                    format!("211-Features\r\n SIZE\r\n MDTM\r\n{lists}{digests}{grid}211 END")
                }
                "SIZE" => format!("213 {}", self.size),
                "MDTM" => "213 20200101000000".to_owned(),
                "MLST" if self.listing.is_some() => {
                    format!("250-Listing\r\n Type=dir;Modify=20200101000000; {rest}\r\n250 End")
                }
                "MLSC" if self.listing.is_some() => {
                    says.write_all(b"250-Listing\r\n")?;
                    for entry in self.listing.map(|listing| listing(rest)).unwrap_or_default() {
                        says.write_all(&[b" ", &entry[..], b"\r\n"].concat())?;
                    }
                    "250 End".to_owned()
                }
                "CKSM" => match self.digest {
                    Some(digest) => format!("213 {digest}"),
                    None => "500 no".to_owned(),
                },
                "TYPE" | "MODE" | "OPTS" => "200 yes".to_owned(),
                "PASV" if self.passive.is_some() => self.passive.unwrap_or_default().to_owned(),
                "PORT" => {
                    let bytes: Vec<u16> =
                        rest.split(',').filter_map(|number| number.parse().ok()).collect();
                    target = bytes.get(4).zip(bytes.get(5)).map(|(high, low)| high * 256 + low);
                    "200 yes".to_owned()
                }
                "EPSV" if self.is_endless => {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    let port = listener.local_addr()?.port();
                    listening = Some(listener);
                    format!("229 Entering Extended Passive Mode (|||{port}|)")
                }
                "RETR" if self.is_endless => {
                    says.write_all(b"150 here it comes\r\n")?;
                    let Some(listener) = listening.take() else { return Ok(()) };
                    let (mut data, _) = listener.accept()?;
                    // Until the client goes.
                    loop {
                        data.write_all(&self.blocks)?;
                    }
                }
                "RETR" => {
                    says.write_all(b"150 here it comes\r\n")?;
                    let mut data = TcpStream::connect(("127.0.0.1", target.unwrap_or(0)))?;
                    match self.drips.is_zero() {
                        true => Blocks::write(&mut data, &self.blocks),
                        false => drip(&mut data, &self.blocks, self.drips)?,
                    }
                    "226 done".to_owned()
                }
                _ => "500 no".to_owned(),
            };
            says.write_all(format!("{reply}\r\n").as_bytes())?;
        }
        Ok(())
    }
}

/// A GridFTP server on a loopback port, as stock as its commands go: it has one file of `size`
/// bytes under any name, and sends `blocks` for it over one channel, whatever they are. Answers
/// with the port.
///
/// # Panics
/// When there is no port.
pub fn server_that_sends(size: u64, blocks: Vec<u8>) -> u16 {
    ScriptedServer { size, blocks, ..ScriptedServer::default() }.start()
}
