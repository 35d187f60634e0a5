//! Text that becomes markup: escaping, and numbers and lines as SVG wants them.

use std::fmt::Write;

/// The pixels that a letter of chart text takes on average; labels are placed with it, as no font
/// can be asked here.
pub(super) const LETTER: f64 = 6.6;
/// The height of a line of chart text.
pub(super) const TEXT: f64 = 12.0;

/// `text` as it may stand between tags and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// JSON as it may stand in a `script` element: nothing in it can close the element or open a
/// comment.
pub(super) fn script_data(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// A coordinate with a tenth of a pixel, without a trailing `.0`.
pub(super) fn px(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Minus zero would print its sign.
    format!("{}", rounded + 0.0)
}

/// The width that `text` takes in a chart.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// An SVG picture under construction.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// An empty picture; `description` is what a screen reader says, `attributes` stand in the root
    /// element.
    pub(super) fn new(width: f64, height: f64, description: &str, attributes: &str) -> Svg {
        let mut body =
            format!("<svg viewBox=\"0 0 {} {}\" role=\"img\"{attributes}>", px(width), px(height));
        let _ = write!(body, "<title>{}</title>", escape(description));
        Svg { body, width, height }
    }

    pub(super) fn width(&self) -> f64 {
        self.width
    }

    pub(super) fn height(&self) -> f64 {
        self.height
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (px(from.0), px(from.1), px(to.0), px(to.1));
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    /// A straight line that says what it is.
    pub(super) fn tip_line(&mut self, class: &str, from: (f64, f64), to: (f64, f64), tip: &str) {
        let (x1, y1, x2, y2) = (px(from.0), px(from.1), px(to.0), px(to.1));
        let tip = escape(tip);
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" \
             y2=\"{y2}\"><title>{tip}</title></line>"
        );
    }

    /// Text whose `anchor` (start, middle or end) is at `at`.
    pub(super) fn text(&mut self, class: &str, anchor: &str, at: (f64, f64), text: &str) {
        let (x, y) = (px(at.0), px(at.1));
        let _ = write!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\">{}</text>",
            escape(text)
        );
    }

    /// A filled box.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let (x, y, w, h) = (px(at.0), px(at.1), px(size.0.max(0.0)), px(size.1.max(0.0)));
        let tip = escape(tip);
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" \
             height=\"{h}\"><title>{tip}</title></rect>"
        );
    }

    /// A line through `points`, named for the read-out.
    pub(super) fn polyline(&mut self, class: &str, name: &str, points: &[(f64, f64)]) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        let name = escape(name);
        let _ = write!(
            self.body,
            "<polyline class=\"{class}\" data-name=\"{name}\" points=\"{}\"/>",
            points.join(" ")
        );
    }

    /// A filled shape with these corners; a script finds in `place` where they are in space.
    pub(super) fn placed_polygon(
        &mut self,
        class: &str,
        place: &str,
        points: &[(f64, f64)],
        tip: &str,
    ) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        let tip =
            if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) };
        let _ = write!(
            self.body,
            "<polygon class=\"{class}\" data-at=\"{place}\" points=\"{}\">{tip}</polygon>",
            points.join(" ")
        );
    }

    /// Text around `at`; a script finds in `place` where that is in space.
    pub(super) fn placed_text(&mut self, class: &str, place: &str, at: (f64, f64), text: &str) {
        let (x, y, text) = (px(at.0), px(at.1), escape(text));
        let _ = write!(
            self.body,
            "<text class=\"{class}\" text-anchor=\"middle\" data-at=\"{place}\" x=\"{x}\" \
             y=\"{y}\">{text}</text>"
        );
    }

    /// A filled shape with these corners.
    pub(super) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        let _ = write!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// The finished picture.
    pub(super) fn finish(self) -> String {
        self.body + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_text_or_an_attribute() {
        assert_eq!(
            escape("<b title=\"it's\">&</b>"),
            "&lt;b title=&quot;it&#39;s&quot;&gt;&amp;&lt;/b&gt;"
        );
    }

    #[test]
    fn nothing_gets_out_of_a_script_element() {
        let data = script_data("{\"a\":\"</script><!--\"}");
        assert!(!data.contains('<'), "{data}");
        let back: serde_json::Value = serde_json::from_str(&data).expect("still JSON");
        assert_eq!(back["a"], "</script><!--");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(
            (px(1.0), px(-0.04), px(10.26)),
            ("1".to_owned(), "0".to_owned(), "10.3".to_owned())
        );
    }
}
