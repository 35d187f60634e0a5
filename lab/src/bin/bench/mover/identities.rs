//! What it costs a copy to come as somebody, within limits and in the log, next to one that comes
//! as nobody over the same TLS.

use super::{Bench, GIB};
use crate::side::{Ends, Node, timed};
use crate::table::{Results, heading, in_turns, row, side};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Argon2id of `secret` with the memory and passes that docs/how-to/identities.md names.
const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$ZmFybGluZWZhcmxpbmU$UHfAzp512OTno0dYc5IF8FjJULG1d+F4WXSbBoYA65Y";
const NOBODY: &str = "anonymous";
const BY_CERTIFICATE: &str = "an identity, by certificate";
const BY_PASSWORD: &str = "an identity, by password";

/// Seconds of a copy, and of its node's processors.
#[derive(Clone, Copy)]
struct Cost {
    time: f64,
    cpu: f64,
}

impl Bench<'_> {
    /// A large file and many small ones, on this host.
    pub(super) fn identities(&self) -> Result<()> {
        let large = self.source("large", 4 * GIB)?;
        self.touch(4 * GIB)?;
        let small = self.space.join("small");
        super::small::make_files(&small, 10_000, usize::MAX)?;
        let config = self.space.join("node.toml");
        fs::write(&config, config_of(self.space)?)?;
        let config = config.to_str().context("a path in UTF-8")?;
        for (_, binary) in &self.binaries {
            let node = Node::start(&Ends::Loopback, binary, self.space, &[config])?;
            self.cost_of_identity(&node, "4 GiB in memory over TLS, 0 ms", &large, 1.02)?;
            self.cost_of_identity(&node, "10,000 files of 1 KiB over TLS, 0 ms", &small, 1.05)?;
        }
        Ok(())
    }

    fn cost_of_identity(&self, node: &Node, what: &str, source: &Path, asked: f64) -> Result<()> {
        heading(what);
        let copy = |user: &'static str, environment: &[(&str, std::path::PathBuf)]| {
            let pin = node.fingerprint.as_deref().context("a fingerprint")?;
            let mut command = node.client(&Ends::Loopback);
            // What is in a folder, and not the folder.
            let slash = if source.is_dir() { "/" } else { "" };
            command.args(["-q", "cp", "-r", "--tls-pin", pin]);
            command.arg(format!("{}{slash}", source.display()));
            command.arg(format!("farlines://{user}{}/landed{slash}", node.address));
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            let before = node.server.cpu()?;
            let time = if source.is_dir() {
                self.time_of_tree(&mut command, source)?
            } else {
                let elapsed = timed(&mut command)?;
                self.take_away(source)?;
                elapsed.as_secs_f64()
            };
            Ok(Cost { time, cpu: node.server.cpu()? - before })
        };
        let at = |name: &str| self.space.join(name);
        let shown = [("FARLINE_CERT", at("user.pem")), ("FARLINE_KEY", at("user.key"))];
        let said = [("FARLINE_PASSWORD", "secret".into())];
        let sides = vec![
            side(NOBODY, || copy("", &[])),
            side(BY_CERTIFICATE, || copy("beamline@", &shown)),
            side(BY_PASSWORD, || copy("alice@", &said)),
        ];
        let results: Results<Cost> = in_turns(self.runs, sides)?;
        let figures = |name: &str| -> Result<(f64, f64)> {
            Ok((results.median(name, |cost| cost.time)?, results.median(name, |cost| cost.cpu)?))
        };
        let (time, cpu) = figures(NOBODY)?;
        row(NOBODY, &format!("{time:.3} s, {cpu:.3} s of processors"), "");
        for name in [BY_CERTIFICATE, BY_PASSWORD] {
            let (its, its_cpu) = figures(name)?;
            let value = format!("x {:.3} of that, x {:.3}", its / time, its_cpu / cpu);
            row(name, &value, &format!("asked: at most x {asked}"));
        }
        Ok(())
    }
}

/// A node's file with two identities, each with every limit that there is.
fn config_of(folder: &Path) -> Result<String> {
    let openssl = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("openssl").current_dir(folder).args(arguments).output()?;
        ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let own = ["req", "-x509", "-subj", "/CN=user", "-keyout", "user.key", "-out", "user.pem"];
    openssl(&[&own[..], &key[..]].concat())?;
    let print = openssl(&["x509", "-in", "user.pem", "-noout", "-fingerprint", "-sha256"])?;
    let print = print.trim().rsplit('=').next().context("a fingerprint")?.replace(':', "");
    let limits = "paths = { '/' = 'write' }\nsessions = 64\nrate = '900Gbit/s'\n\
                  bytes_per_day = '1000TB'\nfiles_per_day = 1000000000\n";
    Ok(format!(
        "tls = true\n[[identity]]\nname = 'alice'\npassword = '{HASH}'\n{limits}\
         [[identity]]\nname = 'beamline'\ncertificates = ['sha256={}']\n{limits}",
        print.to_lowercase()
    ))
}
