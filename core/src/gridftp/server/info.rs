//! What the server says of itself: FEAT, HELP, STAT, LANG.

use super::session::ServerSession;
use crate::gridftp::Reply;
use crate::gridftp::command::{Mode, VERBS, Verb};

/// Command names in a row of HELP, as GCT prints them; globus-url-copy takes the features it looks
/// for from there.
const HELP_COLUMNS: usize = 8;

impl ServerSession {
    pub(super) fn features(&mut self) {
        let checksums: String = self
            .config
            .checksums
            .iter()
            .enumerate()
            // GCT's form, `MD5:10;`: the lower the number, the more it is preferred.
            .map(|(i, name)| format!("{name}:{};", 10 + i))
            .collect();
        let mut lines = vec!["Extensions supported".to_owned()];
        if self.config.tls {
            lines.push(" AUTH TLS".to_owned());
        }
        if self.config.gssapi {
            lines.push(" AUTH GSSAPI".to_owned());
        }
        if self.config.tls || self.config.gssapi || self.config.secure {
            lines.extend([" PBSZ".to_owned(), " PROT".to_owned()]);
        }
        if !checksums.is_empty() {
            lines.push(format!(" CKSM {checksums}"));
            lines.push(" SCKS".to_owned());
        }
        let fixed = ["DCAU", "EPRT", "EPSV", "ERET", "ESTO", "LANG EN*", "MDTM", "MFMT"];
        lines.extend(fixed.iter().chain(&["MLSC", "MLSR"]).map(|name| format!(" {name}")));
        lines.push(format!(" MLST {}", self.settings.facts.feature()));
        let fixed = ["PARALLEL", "REST STREAM", "SIZE", "SPAS", "SPOR", "TVFS", "UTF8"];
        lines.extend(fixed.iter().map(|name| format!(" {name}")));
        if !self.by_gssapi {
            lines.extend(self.config.features.iter().map(|feature| format!(" {feature}")));
        }
        lines.push("End.".to_owned());
        self.reply(Reply::new(211, lines));
    }

    pub(super) fn help(&mut self, topic: Option<&str>) {
        let reply = match topic.map(|topic| (topic, Verb::find(topic))) {
            Some((_, Some(verb))) => Reply::new(
                214,
                [
                    format!("Help for {}:", verb.name),
                    format!(" {} {}", verb.name, verb.syntax),
                    "End.".to_owned(),
                ],
            ),
            Some((topic, None)) if !topic.eq_ignore_ascii_case("SITE") => {
                Reply::line(502, "This command is not known.")
            }
            _ => {
                let names: Vec<&str> = VERBS
                    .iter()
                    .map(|verb| verb.name)
                    .filter(|&name| name != "AUTH" || self.config.tls || self.config.gssapi)
                    .collect();
                let row = |names: &[&str]| {
                    names.iter().map(|name| format!("    {name:<4}")).collect::<String>()
                };
                let lines = std::iter::once("The following commands are recognized:".to_owned())
                    .chain(names.chunks(HELP_COLUMNS).map(row))
                    .chain(["End".to_owned()]);
                Reply::new(214, lines)
            }
        };
        self.reply(reply);
    }

    pub(super) fn status(&mut self) {
        let mode = if self.settings.mode == Mode::Extended { 'E' } else { 'S' };
        let doing = if self.is_transferring() { "A transfer runs." } else { "No transfer runs." };
        let lines = [
            "Farline GridFTP server status:".to_owned(),
            format!(" MODE {mode}, parallelism {}", self.settings.parallelism),
            format!(" {doing}"),
            "End.".to_owned(),
        ];
        self.reply(Reply::new(211, lines));
    }

    pub(super) fn language(&mut self, language: Option<&str>) {
        match language {
            None => self.say(200, "Language is EN."),
            Some(tag) if tag.get(..2).is_some_and(|tag| tag.eq_ignore_ascii_case("en")) => {
                self.say(200, "Language is EN.")
            }
            Some(_) => self.say(504, "Only LANG EN is offered here."),
        }
    }
}
