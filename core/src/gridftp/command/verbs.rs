//! The table of commands: name and syntax of each.

/// One command's name and syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// Upper case, three or four letters.
    pub name: &'static str,
    /// The arguments, as HELP shows them.
    pub syntax: &'static str,
}

const fn verb(name: &'static str, syntax: &'static str) -> Verb {
    Verb { name, syntax }
}

/// Every command, in order of name.
pub const VERBS: &[Verb] = &[
    verb("ABOR", ""),
    verb("ALLO", "<size>"),
    verb("APPE", "<path>"),
    verb("AUTH", "<mechanism>"),
    verb("CDUP", ""),
    verb("CKSM", "<algorithm> <offset> <length|-1> <path>"),
    verb("CWD", "<path>"),
    verb("DCAU", "N | A | S <subject>"),
    verb("DELE", "<path>"),
    verb("EPRT", "|<1|2>|<host>|<port>|"),
    verb("EPSV", "[1 | 2 | ALL]"),
    verb("ERET", "P <offset> <length> <path> | <module>=\"<parms>\" <path>"),
    verb("ESTO", "A <offset> <path> | <module>=\"<parms>\" <path>"),
    verb("FEAT", ""),
    verb("HELP", "[<command>]"),
    verb("LANG", "[<language>]"),
    verb("LIST", "[<path>]"),
    verb("MDTM", "<path>"),
    verb("MFMT", "<YYYYMMDDHHMMSS> <path>"),
    verb("MKD", "<path>"),
    verb("MLSC", "[<path>]"),
    verb("MLSD", "[<path>]"),
    verb("MLSR", "[<path>]"),
    verb("MLST", "[<path>]"),
    verb("MODE", "S | E"),
    verb("NLST", "[<path>]"),
    verb("NOOP", ""),
    verb("OPTS", "<command> <options>"),
    verb("PASS", "<password>"),
    verb("PASV", ""),
    verb("PBSZ", "<size>"),
    verb("PORT", "<h1>,<h2>,<h3>,<h4>,<p1>,<p2>"),
    verb("PROT", "C | S | E | P"),
    verb("PWD", ""),
    verb("QUIT", ""),
    verb("REST", "<offset> | <start>-<end>,..."),
    verb("RETR", "<path>"),
    verb("RMD", "<path>"),
    verb("RNFR", "<path>"),
    verb("RNTO", "<path>"),
    verb("SBUF", "<size>"),
    verb("SCKS", "<algorithm> <digest>"),
    verb("SITE", "<command> [<arguments>]"),
    verb("SIZE", "<path>"),
    verb("SPAS", "[1 | 2]"),
    verb("SPOR", "<host-port> [<host-port> ...]"),
    verb("STAT", "[<path>]"),
    verb("STOR", "<path>"),
    verb("STRU", "F"),
    verb("SYST", ""),
    verb("TREV", "PERF | RESTART <seconds>"),
    verb("TYPE", "A | I"),
    verb("USER", "<name>"),
];

impl Verb {
    /// The verb of a name in any case; RFC 775's `XMKD`, `XPWD` ... mean those without the X.
    pub fn find(name: &str) -> Option<&'static Verb> {
        let upper = name.to_ascii_uppercase();
        let name = match upper.as_str() {
            "XCUP" => "CDUP",
            "XCWD" => "CWD",
            "XMKD" => "MKD",
            "XPWD" => "PWD",
            "XRMD" => "RMD",
            name => name,
        };
        VERBS.iter().find(|verb| verb.name == name)
    }
}
