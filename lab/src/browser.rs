//! A real browser in tests: Debian's Chromium without a screen, driven by its own `chromedriver`
//! over WebDriver (W3C), which clicks, drags and presses keys as a hand would.

use crate::command;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How an element is named in WebDriver's documents.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// How long a page may take to become what a test waits for.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is tried to start a browser: on a busy machine Chromium may begin later than its
/// driver waits for it.
const STARTS: usize = 3;

/// The keys that WebDriver has no letters for.
pub mod key {
    #![allow(missing_docs, reason = "the names say it")]
    pub const SHIFT: &str = "\u{E008}";
    pub const TAB: &str = "\u{E004}";
    pub const ENTER: &str = "\u{E007}";
    pub const ESCAPE: &str = "\u{E00C}";
    pub const LEFT: &str = "\u{E012}";
    pub const RIGHT: &str = "\u{E014}";
    pub const SPACE: &str = " ";
}

/// A browser with one page; it ends with the test.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one; `None` where there is no `chromedriver`, or no Chromium that it knows.
    ///
    /// # Panics
    /// When it is there and does not start.
    pub fn start() -> Option<Browser> {
        let mut driver = command("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            line.strip_suffix('.')?.rsplit_once("successfully on port ")?.1.parse().ok()
        });
        let port = port.expect("chromedriver says where it listens");
        let mut browser = Browser { driver, port, session: String::new() };
        // A container's /dev/shm may be too small for a page.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": arguments },
        }}});
        let mut begun = Value::Null;
        for _ in 0..STARTS {
            begun = browser.asked("POST", "/session", &wanted);
            if begun["error"] != "session not created" {
                break;
            }
            if begun.to_string().contains("binary") {
                return None;
            }
        }
        let session = begun["sessionId"].as_str().unwrap_or_else(|| panic!("{begun}"));
        browser.session = format!("/session/{session}");
        Some(browser)
    }

    /// What chromedriver replies.
    fn asked(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver");
        write!(
            stream,
            "{method} {}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.session,
            body.len()
        )
        .expect("sent");
        // It keeps the connection open, whatever it is asked.
        let mut reply = BufReader::new(stream);
        let mut length = 0;
        for line in reply.by_ref().lines().map(|line| line.expect("a head")) {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reply.read_exact(&mut body).expect("a body");
        let mut said: Value = serde_json::from_slice(&body).expect("an object");
        said["value"].take()
    }

    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        let said = self.asked(method, path, body);
        assert!(said["error"].is_null(), "{method} {path} {body}: {said}");
        said
    }

    /// Goes to `url`.
    pub fn open(&self, url: &str) {
        self.done("POST", "/url", &json!({ "url": url }));
    }

    /// What the function body `script` returns on the page; `arguments` are its arguments.
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.done("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Waits until the expression `script` is true on the page.
    ///
    /// # Panics
    /// When it is not within a minute.
    pub fn until(&self, what: &str, script: &str) {
        self.until_amid(what, script, || {});
    }

    /// Waits as [`until`](Browser::until) does, and does something before each look.
    ///
    /// # Panics
    /// When it is not within a minute.
    pub fn until_amid(&self, what: &str, script: &str, amid: impl Fn()) {
        let begun = Instant::now();
        amid();
        while self.run(&format!("return Boolean({script})"), json!([])) != true {
            if begun.elapsed() > TIMEOUT {
                let page = self.run("return document.body.innerText", json!([]));
                panic!("{what}: {script} is not so on: {page}");
            }
            std::thread::sleep(Duration::from_millis(30));
            amid();
        }
    }

    /// The text of the one element that `css` selects.
    pub fn text(&self, css: &str) -> String {
        let text = self.run("return document.querySelector(arguments[0]).innerText", json!([css]));
        text.as_str().unwrap_or_default().to_owned()
    }

    fn element(&self, css: &str) -> Value {
        let wanted = json!({ "using": "css selector", "value": css });
        self.done("POST", "/element", &wanted)[ELEMENT].clone()
    }

    /// Clicks the first element that `css` selects; where it is out of sight, the page is scrolled.
    pub fn click(&self, css: &str) {
        let element = self.element(css);
        let path = format!("/element/{}/click", element.as_str().unwrap_or_default());
        self.done("POST", &path, &json!({}));
    }

    /// Types `text` where the page's focus is.
    pub fn keys(&self, text: &[&str]) {
        let press =
            |key: &&str| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key }));
        self.act(json!([{ "type": "key", "id": "keys", "actions": text.iter().flat_map(press).collect::<Vec<_>>() }]));
    }

    /// Presses `key` so many times while `held` is down.
    pub fn keys_with(&self, held: &str, key: &str, times: usize) {
        let mut actions = vec![json!({ "type": "keyDown", "value": held })];
        for _ in 0..times {
            actions.extend(["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        }
        actions.push(json!({ "type": "keyUp", "value": held }));
        self.act(json!([{ "type": "key", "id": "keys", "actions": actions }]));
    }

    /// Drags a pointer of `kind` (`mouse` or `touch`) from one point of the window to another.
    pub fn drag(&self, kind: &str, from: (f64, f64), to: (f64, f64)) {
        let to_there = |(x, y): (f64, f64), millis: u64| json!({ "type": "pointerMove", "duration": millis, "x": x.round() as i64, "y": y.round() as i64 });
        let middle = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
        let actions = json!([
            to_there(from, 0),
            { "type": "pointerDown", "button": 0 },
            to_there(middle, 40),
            to_there(to, 40),
            { "type": "pointerUp", "button": 0 },
        ]);
        let pointer = json!({ "pointerType": kind });
        self.act(
            json!([{ "type": "pointer", "id": kind, "parameters": pointer, "actions": actions }]),
        );
    }

    fn act(&self, actions: Value) {
        self.done("POST", "/actions", &json!({ "actions": actions }));
    }

    /// A command of Chromium's own protocol.
    pub fn chromium(&self, command: &str, parameters: Value) -> Value {
        self.done("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Makes the window as wide and high as a screen of so many points.
    pub fn resize(&self, width: u32, height: u32, is_phone: bool) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        self.chromium("Emulation.setDeviceMetricsOverride", screen);
        self.chromium("Emulation.setTouchEmulationEnabled", json!({ "enabled": is_phone }));
    }

    /// Lets the page have light or dark colours.
    pub fn colours(&self, scheme: &str) {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.chromium("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// The page as a picture: PNG in base64.
    pub fn picture(&self) -> String {
        let picture = self.done("GET", "/screenshot", &Value::Null);
        picture.as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser; without it that would go on.
        if !self.session.is_empty() && !std::thread::panicking() {
            self.asked("DELETE", "", &json!({}));
        } else if !self.session.is_empty() {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.asked("DELETE", "", &json!({}));
            }));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
