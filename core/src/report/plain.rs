//! A section as text for a terminal: its paragraphs and tables; what only a picture shows is left
//! to the page.

use super::page::{Block, Section, Table};

/// What a terminal has at least: longer paragraphs are broken, and wider tables stand in parts.
const WIDTH: usize = 80;

impl Section {
    /// Title, paragraphs, notes and tables as lines of at most 80 letters; no line end stands at
    /// the end.
    pub fn plain(&self) -> String {
        self.plain_in(WIDTH)
    }

    /// The same for a terminal of `width` columns.
    pub fn plain_in(&self, width: usize) -> String {
        let mut lines = vec![self.title.clone()];
        for block in &self.blocks {
            match block {
                Block::Text(text) | Block::Note(text) | Block::Warning(text) => {
                    lines.extend(broken(text, width))
                }
                Block::Table(table) => lines.extend(table.plain(width)),
                Block::Cards(cards) => {
                    lines.extend(cards.iter().map(|card| format!("{}: {}", card.key, card.value)))
                }
                Block::Commands(commands) => lines.push(commands.clone()),
                Block::Chart(_) => {}
            }
        }
        lines.join("\n")
    }
}

impl Table {
    /// Headings, a word below the other, and rows. What is too wide stands in parts below each
    /// other, each with the columns by which rows are told apart.
    fn plain(&self, room: usize) -> Vec<String> {
        let mut widths: Vec<usize> =
            (0..self.columns.len()).map(|column| self.width(column)).collect();
        if widths.iter().map(|width| width + GAP).sum::<usize>() > room.saturating_add(GAP) {
            // Words are broken within their column; figures are not.
            for (width, _) in widths.iter_mut().zip(&self.columns).filter(|(_, (_, right))| !right)
            {
                *width = (*width).min(if room < WIDTH { WORDS.min(room / 2) } else { WORDS });
            }
        }
        let wide = |columns: &[usize]| {
            columns.iter().map(|column| widths[*column] + GAP).sum::<usize>().saturating_sub(GAP)
        };
        let keys: Vec<usize> = (0..self.keys()).collect();
        let mut parts = vec![keys.clone()];
        for column in keys.len()..self.columns.len() {
            let part = parts.len() - 1;
            let there = &mut parts[part];
            if there.len() > keys.len() && wide(&[&there[..], &[column]].concat()) > room {
                parts.push([&keys[..], &[column]].concat());
            } else {
                there.push(column);
            }
        }
        parts.iter().flat_map(|columns| self.part(columns, &widths)).collect()
    }

    /// How many of the first columns tell the rows apart: all of them where none do.
    fn keys(&self) -> usize {
        let apart = |count: &usize| {
            let rows = || self.rows.iter().map(|(cells, _)| &cells[..(*count).min(cells.len())]);
            rows().enumerate().all(|(i, row)| rows().take(i).all(|other| other != row))
        };
        (1..self.columns.len()).find(apart).unwrap_or(1)
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column)).map(String::as_str);
        cells
            .chain(self.columns[column].0.split(' '))
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    }

    fn part(&self, columns: &[usize], widths: &[usize]) -> Vec<String> {
        let headings: Vec<Vec<&str>> =
            columns.iter().map(|column| self.columns[*column].0.split(' ').collect()).collect();
        let height = headings.iter().map(Vec::len).max().unwrap_or(0);
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (cell, &column) in cells.zip(columns) {
                let width = widths[column];
                let padded = if self.columns[column].1 {
                    format!("{cell:>width$}  ")
                } else {
                    format!("{cell:<width$}  ")
                };
                line.push_str(&padded);
            }
            line.trim_end().to_owned()
        };
        // A short heading stands at the bottom, next to the last words of the long ones.
        let word = |heading: &Vec<&'_ str>, row: usize| (row + heading.len()).checked_sub(height);
        let head = (0..height).map(|row| {
            line(&mut headings.iter().map(|heading| {
                word(heading, row).and_then(|at| heading.get(at)).copied().unwrap_or("")
            }))
        });
        let rows = self.rows.iter().flat_map(|(cells, _)| {
            let cells: Vec<Vec<String>> = columns
                .iter()
                .map(|&column| match cells.get(column) {
                    Some(cell) if cell.chars().count() > widths[column] => {
                        broken(cell, widths[column])
                    }
                    cell => vec![cell.cloned().unwrap_or_default()],
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            let row = |row: usize| {
                line(&mut cells.iter().map(|cell| cell.get(row).map_or("", String::as_str)))
            };
            (0..height).map(row).collect::<Vec<_>>()
        });
        head.chain(rows).collect()
    }
}

/// Blanks between two columns.
const GAP: usize = 2;
/// What a column of words takes at most where the table is too wide.
const WORDS: usize = 48;

/// `text` in lines of at most 80 letters, broken between words.
pub fn wrapped(text: &str) -> Vec<String> {
    broken(text, WIDTH)
}

/// `text` in lines of at most `width` letters, but for a word that is longer.
pub fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
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
    fn a_narrow_terminal_has_paragraphs_and_tables_in_its_width() {
        let columns = Table::headings(["A path's name", "Mean", "sd", "Median", "99 %", "99.9 %"]);
        let row = [
            "one of a name of many words that is long",
            "26.8459",
            "0.1870",
            "26.84",
            "27.1",
            "27.2",
        ];
        let rows = vec![(row.map(str::to_owned).to_vec(), false)];
        let words = "it is longer than another on average, by more than chance, as a test says";
        let section = Section::new("Paths").text(words).table(Table { columns, rows });
        for width in [30, 50, 80] {
            let plain = section.plain_in(width);
            assert!(plain.lines().all(|line| line.chars().count() <= width), "{width}:\n{plain}");
        }
        assert_eq!(section.plain_in(80), section.plain());
    }

    #[test]
    fn a_table_stands_in_columns_under_headings_of_several_words() {
        let columns = Table::headings(["Control", "SC08's Gbit/s", "sd"]);
        let row = |cells: [&str; 3]| (cells.map(str::to_owned).to_vec(), false);
        let table =
            Table { columns, rows: vec![row(["bic", "9.12", "64.11"]), row(["htcp", "9.21", ""])] };
        let text = Section::new("Traffic").text("one ".repeat(40)).table(table).plain();
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(
            lines[0] == "Traffic" && lines[1].len() == 79 && lines[2].starts_with("one one"),
            "{text}"
        );
        assert_eq!(
            lines[3..],
            [
                "         SC08's",
                "Control  Gbit/s     sd",
                "bic        9.12  64.11",
                "htcp       9.21"
            ],
            "{text}"
        );
    }

    #[test]
    fn a_wide_table_is_split_and_each_part_names_its_rows() {
        let names: Vec<String> = (0..13).map(|i| format!("Heading{i} here")).collect();
        let columns = names.iter().enumerate().map(|(i, name)| (name.clone(), i > 0)).collect();
        let row = |control: &str, miles: &str| {
            let rest = (2..13).map(|i| format!("{i}.{miles}"));
            ([control.to_owned(), miles.to_owned()].into_iter().chain(rest).collect(), false)
        };
        let table = Table {
            columns,
            rows: vec![row("bic", "0.2"), row("bic", "1400"), row("htcp", "0.2")],
        };
        let lines = table.plain(WIDTH);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        let of = |words: &str| {
            lines.iter().filter(|line| line.starts_with("bic") && line.contains(words)).count()
        };
        assert!(
            of(" 1400 ") == 2 && of(" 0.2 ") == 2,
            "control and miles in both parts: {lines:#?}"
        );
        assert_eq!(
            lines.iter().filter(|line| line.contains("12.1400")).count(),
            1,
            "every column stands once"
        );
    }
}
