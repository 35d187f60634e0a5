//! The calendar's page in Chromium, by hand: dragged over, clicked, and used by keys alone, at a
//! desk's and a phone's width, in light and in dark.

use crate::calendar::{Calendar, curl, done};
use farline_lab::browser::{Browser, key};
use serde_json::json;

/// Where in the window a time is, `hours` after the full hour at which the page begins, on the
/// first link's row.
fn at(browser: &Browser, hours: f64) -> (f64, f64) {
    let script = "const svg = document.getElementById('lanes'); svg.scrollIntoView({ block: 'center' });
        const box = svg.getBoundingClientRect(), wide = svg.viewBox.baseVal.width;
        return [box.left + scale(wide)(shown.start + arguments[0] * HOUR) * box.width / wide, box.top + 40]";
    let point = browser.run(script, json!([hours]));
    let part = |i: usize| point[i].as_f64().unwrap_or_else(|| panic!("{point}"));
    (part(0), part(1))
}

/// A calendar, and a browser that has entered; `None` without one.
fn entered(folder: &std::path::Path) -> Option<(Calendar, Browser)> {
    let Some(browser) = Browser::start() else {
        farline_lab::skip(
            "there is no chromedriver with a Chromium on this machine: nobody tried the calendar's page",
        );
        return None;
    };
    let calendar = Calendar::serve(&folder.join("state"), &[]);
    let token = std::fs::read_to_string(calendar.state.join("admin.token")).expect("a token");
    browser.resize(1100, 900, false);
    browser.open(calendar.url());
    browser.click("#token");
    browser.keys(&["w", "r", "o", "n", "g", key::ENTER]);
    browser.until("who is unknown is told so", "document.getElementById('entered').textContent");
    browser.run("document.getElementById('token').value = ''", json!([]));
    let letters: Vec<String> = token.trim().chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(|letter| &**letter).chain([key::ENTER]).collect();
    browser.keys(&letters);
    browser.until("the network is there", "document.querySelectorAll('#map circle').length === 4");
    Some((calendar, browser))
}

/// Books so much from one end to the other for two hours, two hours after the full hour.
fn book(calendar: &Calendar, browser: &Browser, rate: &str) -> String {
    let time = |hours: u32| {
        let script = "return new Date(shown.start + arguments[0] * HOUR).toISOString()";
        browser.run(script, json!([hours])).as_str().expect("a time").to_owned()
    };
    let mut command = calendar.farline();
    command.args(["reserve", "oak-ridge", "sunnyvale", "--rate", rate]);
    let known = done(command.args(["--start", &time(2), "--end", &time(4)]));
    known["id"].as_str().expect("text").to_owned()
}

#[test]
fn a_slot_is_dragged_refused_and_had_elsewhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some((calendar, browser)) = entered(dir.path()) else { return };
    // Nothing but the stream of events tells of what others do.
    browser.run("for (let i = 0; i < 1000; i++) clearInterval(i)", json!([]));
    for number in 1..=2 {
        let id = book(&calendar, &browser, "6G");
        browser.until("it is told", &format!("document.querySelector('tr[data-id=\"{id}\"]')"));
        let told = browser.text(&format!("tr[data-id=\"{id}\"]"));
        assert!(told.contains("provisioned") && told.contains("6 Gbit/s"), "{number}: {told}");
    }
    browser.drag("mouse", at(&browser, 2.0), at(&browser, 4.0));
    let marked = "return (new Date(document.getElementById('end').value) \
                  - new Date(document.getElementById('start').value)) / HOUR";
    assert_eq!(browser.run(marked, json!([])), 2, "what was dragged over stands in the form");
    browser.run("document.getElementById('rate').select()", json!([]));
    browser.keys(&["6"]);
    browser.click("#ask button");
    browser
        .until("it is refused, with alternatives", "document.querySelector('#answer li button')");
    let refused = browser.text("#answer");
    assert!(refused.contains("free from") && refused.contains("Later: 6 Gbit/s"), "{refused}");
    browser.click("#answer li button");
    browser.until("the alternative is booked", "/r-3 is booked/.test(answer.innerText)");
    browser.until("and listed", "document.querySelector('tr[data-id=\"r-3\"]')");
    // What another takes back is told here too, and so is what is cancelled here.
    done(calendar.farline().args(["reserve", "cancel", "r-1"]));
    let gone = |id: &str| format!("!document.querySelector('tr[data-id=\"{id}\"]')");
    browser.until("it is not there any more", &gone("r-1"));
    browser.click("tr[data-id=\"r-3\"] button");
    assert_eq!(browser.text("tr[data-id=\"r-3\"] .asked"), "Cancel r-3?\nNoYes");
    browser.click("tr[data-id=\"r-3\"] button[aria-label=\"Yes, cancel r-3\"]");
    browser.until("it is cancelled", &gone("r-3"));
    let listed = done(calendar.farline().args(["reserve", "ls"]));
    assert_eq!(listed["reservations"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn keys_alone_book_a_slot() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some((calendar, browser)) = entered(dir.path()) else { return };
    let focus = || {
        let script = "const at = document.activeElement; return at.id || at.textContent";
        browser.run(script, json!([])).as_str().unwrap_or_default().to_owned()
    };
    let tab_to = |wanted: &str| {
        let mut passed = Vec::new();
        while focus() != wanted {
            assert!(passed.len() < 30, "no way to {wanted} by keys: {passed:?}");
            browser.keys(&[key::TAB]);
            passed.push(focus());
        }
    };
    tab_to("lanes");
    browser.keys(&[key::RIGHT, key::RIGHT]);
    browser.keys_with(key::SHIFT, key::RIGHT, 4);
    let marked = "return (mark[1] - mark[0]) / HOUR";
    assert_eq!(browser.run(marked, json!([])), 2, "four half hours");
    tab_to("Book");
    browser.keys(&[key::ENTER]);
    browser.until("it is booked", "/r-1 is booked/.test(answer.innerText)");
    let booked = done(calendar.farline().args(["reserve", "show", "r-1"]));
    let leg = &booked["legs"][0];
    let time = |key: &str| -> jiff::Timestamp {
        leg[key].as_str().expect("text").parse().expect("a time")
    };
    assert_eq!(time("end").duration_since(time("start")).as_mins(), 120, "{booked}");
    // Whoever presses a key twice, or thinks better of it, has what was there.
    tab_to("Cancel");
    browser.keys(&[key::SPACE, key::SPACE]);
    assert_eq!(focus(), "Cancel", "it asked, and the way out is what a second press takes");
    browser.keys(&[key::ENTER, key::TAB, key::ESCAPE]);
    assert_eq!(focus(), "Cancel");
    assert_eq!(done(calendar.farline().args(["reserve", "show", "r-1"])), booked);
    browser.keys(&[key::SPACE]);
    tab_to("Yes");
    browser.keys(&[key::SPACE]);
    browser.until("it is cancelled", "!document.querySelector('tr[data-id]')");
}

#[test]
fn a_phone_shows_the_page_and_takes_a_finger() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some((calendar, browser)) = entered(dir.path()) else { return };
    book(&calendar, &browser, "6G");
    let mut hold = calendar.farline();
    hold.args(["reserve", "oak-ridge", "chicago", "--rate", "1G", "--start", "+3h", "--for", "1h"]);
    done(hold.args(["--hold", "10min"]));
    let mut volume = calendar.farline();
    volume.args(["reserve", "oak-ridge", "sunnyvale", "--volume", "9TB", "--several"]);
    done(volume.args(["--start", "+30h", "--by", "+40h"]));
    browser.resize(390, 844, true);
    browser.until("it is listed", "document.querySelectorAll('tr[data-id]').length === 3");
    let both = browser.text("tr[data-id=\"r-3\"]");
    assert!(both.contains("19.2 Gbit/s"), "what its routes have together: {both}");
    for scheme in ["light", "dark"] {
        browser.colours(scheme);
        let wide =
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.run(wide, json!([])), 0, "nothing sticks out");
        // WCAG's contrast of every text against the page's ground: 4.5 is asked of small text.
        let least = browser.run(CONTRAST, json!([]));
        let least = least.as_array().expect("the least, and where");
        assert!(least[0].as_f64().is_some_and(|ratio| ratio >= 4.5), "{scheme}: {least:?}");
        assert_eq!(
            browser.run(NAMES, json!([])),
            json!([]),
            "each link's name has room, to its end"
        );
    }
    browser.drag("touch", at(&browser, 6.0), at(&browser, 9.0));
    let marked = "return Math.round((mark[1] - mark[0]) / 6e5) / 6";
    assert_eq!(browser.run(marked, json!([])), 3, "a finger marks as a mouse does");
    browser.click("#ask button");
    browser.until("it is booked", "/r-4 is booked/.test(answer.innerText)");
}

/// Links whose names do not end where they should, or stand in what is drawn of the first lane.
const NAMES: &str = "
    const lane = document.querySelector('#lanes .free').getBoundingClientRect().left;
    const names = [...document.querySelectorAll('#lanes text')].filter((text) => text.getAttribute('x') === '0');
    return links.map((link, at) => [link.link, names[at].textContent, names[at].getBoundingClientRect().right - lane])
      .filter(([link, name, over]) => over > 0 || !name.endsWith(link.slice(-7)));";

/// The least contrast of a text on the page, and which that is.
const CONTRAST: &str = "
    const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= .04045 ? share / 12.92 : ((share + .055) / 1.055) ** 2.4;
    });
    const bright = ([r, g, b]) => .2126 * r + .7152 * g + .0722 * b;
    const ground = bright(parts(getComputedStyle(document.body).backgroundColor));
    const texts = [...document.querySelectorAll('main *')].filter((one) => one.getClientRects().length
      && [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()));
    return texts.map((one) => {
      const style = getComputedStyle(one), own = one instanceof SVGElement ? style.fill : style.color;
      const text = bright(parts(own));
      return [(Math.max(text, ground) + .05) / (Math.min(text, ground) + .05), one.outerHTML.slice(0, 80)];
    }).reduce((least, one) => one[0] < least[0] ? one : least);";

#[test]
fn trouble_of_one_circuit_stands_in_its_row() {
    let dir = tempfile::tempdir().expect("a folder");
    let Some((calendar, browser)) = entered(dir.path()) else { return };
    let mut book = calendar.farline();
    book.args(["reserve", "oak-ridge", "chicago", "--volume", "100TB", "--several"]);
    let booked = done(book.args(["--start", "now", "--by", "+23h"]));
    let admin = calendar.state.join("admin.token");
    let say = |number: u64, up: bool, trouble: &str| {
        let rate = &booked["legs"][number as usize - 16]["rate_bps"];
        let word = json!({ "id": "r-1", "number": number, "up": up, "rate_bps": rate,
                           "carried_bytes": 0, "trouble": trouble });
        let put = ["-X", "PUT", "-d", &word.to_string()];
        assert_eq!(curl(&calendar, &admin, "/v1/circuits/r-1", &put).0, 204);
    };
    // An agent repeats itself; so does this one, until the page has seen it.
    let shows = |words: [(bool, &str); 2], expected: &str| {
        let shown = format!(
            "document.querySelector('tr[data-id=\"r-1\"]')?.innerText.includes({})",
            json!(expected)
        );
        browser.until_amid("what agents say is shown", &shown, || {
            (16..).zip(words).for_each(|(number, (up, trouble))| say(number, up, trouble));
        });
    };
    shows([(false, "no such port"), (true, "")], "c16: no such port");
    shows([(false, ""), (true, "")], "c16: it is not up in its time");
    shows([(true, ""), (true, "")], "\tup\t");
}
