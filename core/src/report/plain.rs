//! A section as text for a terminal: its paragraphs and tables; what only a picture shows is left to the page.

use super::page::{Block, Section, Table};

/// Longer paragraphs are broken.
const WIDTH: usize = 100;

impl Section {
    /// Title, paragraphs, notes and tables as lines; no line end stands at the end.
    pub fn plain(&self) -> String {
        let mut lines = vec![self.title.clone()];
        for block in &self.blocks {
            match block {
                Block::Text(text) | Block::Note(text) | Block::Warning(text) => lines.extend(broken(text)),
                Block::Table(table) => lines.extend(table.plain()),
                Block::Cards(cards) => lines.extend(cards.iter().map(|card| format!("{}: {}", card.key, card.value))),
                Block::Commands(commands) => lines.push(commands.clone()),
                Block::Chart(_) => {}
            }
        }
        lines.join("\n")
    }
}

impl Table {
    /// Headings, a word below the other, and rows.
    fn plain(&self) -> Vec<String> {
        let headings: Vec<Vec<&str>> = self.columns.iter().map(|(heading, _)| heading.split(' ').collect()).collect();
        let height = headings.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column)).map(String::as_str);
            cells.chain(headings[column].iter().copied()).map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((cell, (_, right)), width) in cells.zip(&self.columns).zip(&widths) {
                let padded = if *right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
                line.push_str(&padded);
            }
            line.trim_end().to_owned()
        };
        // A short heading stands at the bottom, beside the last words of the long ones.
        let word = |heading: &Vec<&'_ str>, row: usize| (row + heading.len()).checked_sub(height);
        let head = (0..height).map(|row| {
            line(&mut headings.iter().map(|heading| word(heading, row).and_then(|at| heading.get(at)).copied().unwrap_or("")))
        });
        head.chain(self.rows.iter().map(|(cells, _)| line(&mut cells.iter().map(String::as_str)))).collect()
    }
}

/// `text` in lines of at most [`WIDTH`], broken between words.
fn broken(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_stands_in_columns_under_headings_of_several_words() {
        let columns = Table::headings(["Control", "SC08's Gbit/s", "sd"]);
        let row = |cells: [&str; 3]| (cells.map(str::to_owned).to_vec(), false);
        let table = Table { columns, rows: vec![row(["bic", "9.12", "64.11"]), row(["htcp", "9.21", ""])] };
        let text = Section::new("Beside").text("one ".repeat(40)).table(table).plain();
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(lines[0] == "Beside" && lines[1].len() == 99 && lines[2].starts_with("one one"), "{text}");
        assert_eq!(
            lines[3..],
            ["         SC08's", "Control  Gbit/s     sd", "bic        9.12  64.11", "htcp       9.21"],
            "{text}"
        );
    }
}
