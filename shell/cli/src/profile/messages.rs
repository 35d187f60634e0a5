//! What a measurement of verbs is told by flags: which devices, which messages, how they travel.

use super::axes::{Axes, USUAL_RATE};
use crate::topic::RDMA;
use farline_core::profile::verbs::{QpService, Setup, VerbsGrid, VerbsMetric, measured};
use farline_core::profile::{Experiment, Form, PathPoint};
use farline_core::units::{Bytes, Error, ErrorCode, Fault, Span};
use std::net::IpAddr;

#[derive(clap::Args)]
pub(super) struct Messages {
    /// Two devices of this host [default: the only two]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "ADDR,ADDR", value_delimiter = ',')]
    ends: Vec<IpAddr>,
    /// Such as 64,1MiB [default: 64,2KiB,64KiB,1MiB]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "LIST", value_delimiter = ',')]
    message_size: Vec<Bytes>,
    /// How messages travel: rc, ud, read [default: rc]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<QpService>,
    /// one-way, both-ways, round-trip [default: one-way]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "LIST", value_delimiter = ',')]
    way: Vec<VerbsMetric>,
    /// How they connect: cm, exchange [default: cm]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "LIST", value_delimiter = ',')]
    connect: Vec<Setup>,
    /// Connections side by side [default: 1]
    #[arg(long, hide = true, help_heading = RDMA, value_name = "LIST", value_delimiter = ',')]
    queue_pairs: Vec<u8>,
    /// Leave the model to --resume FILE --simulate
    #[arg(long, hide = true, help_heading = RDMA)]
    without_model: bool,
}

impl Messages {
    /// Whether there is to be no model next to it.
    pub(super) fn without_model(&self) -> bool {
        self.without_model
    }

    /// The first flag that says something of such a measurement alone.
    pub(super) fn first(&self) -> Option<&'static str> {
        let given = [
            ("--ends", !self.ends.is_empty()),
            ("--message-size", !self.message_size.is_empty()),
            ("--transport", !self.transport.is_empty()),
            ("--way", !self.way.is_empty()),
            ("--connect", !self.connect.is_empty()),
            ("--without-model", self.without_model),
            ("--queue-pairs", !self.queue_pairs.is_empty()),
        ];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }

    /// The addresses of both ends, if they were given.
    pub(super) fn ends(&self) -> Result<Option<(IpAddr, IpAddr)>, Error> {
        match self.ends[..] {
            [] => Ok(None),
            [near, far] => Ok(Some((near, far))),
            _ => {
                Err(Error::new(Fault::You, ErrorCode::ProfileDevices, "a measurement has two ends")
                    .hint("--ends ADDRESS,ADDRESS names the near one and the far one"))
            }
        }
    }

    /// The grid of the flags: that of the preset, or a small one over the path as it is, with what
    /// was given in place of its own axes.
    pub(super) fn grid(
        &self,
        preset: Option<VerbsGrid>,
        axes: &Axes,
        form: Form,
    ) -> Result<VerbsGrid, Error> {
        let as_it_is = || vec![PathPoint::custom(USUAL_RATE, Span::ZERO)];
        // What has no name of its own is named after its rtt, and here is none.
        let named = |path: PathPoint| match path.name.as_str() {
            "0ns" => PathPoint { name: "as-it-is".to_owned(), ..path },
            _ => path,
        };
        let usual = || {
            ["64", "2KiB", "64KiB", "1MiB"].iter().filter_map(|size| size.parse().ok()).collect()
        };
        let mut grid =
            preset.unwrap_or_else(|| VerbsGrid::new("custom", form, as_it_is(), usual()));
        let paths = axes.paths()?;
        if !paths.is_empty() {
            grid.paths = paths;
        }
        grid.paths = grid.paths.into_iter().map(named).collect();
        if !self.message_size.is_empty() {
            grid.sizes_bytes.clone_from(&self.message_size);
        }
        if !self.transport.is_empty() {
            grid.transports.clone_from(&self.transport);
        }
        if !self.way.is_empty() {
            grid.ways.clone_from(&self.way);
        }
        if !self.connect.is_empty() {
            grid.setups.clone_from(&self.connect);
        }
        if !self.queue_pairs.is_empty() {
            grid.queue_pairs =
                self.queue_pairs.iter().map(|&pairs| u64::from(pairs.max(1))).collect();
        }
        let runs = axes.of_measured_verbs().map_err(|flag| {
            Error::new(
                Fault::You,
                ErrorCode::ProfileChannel,
                format!("a profile of RDMA has axes of its own: {flag} is not one of them"),
            )
            .hint(
                "it takes --message-size, --transport, --way, --connect, --queue-pairs, \
                    --rtt, --link, --seconds, --repetitions and --seed",
            )
        })?;
        grid.seed = runs.seed.unwrap_or(grid.seed);
        let sizes = (!self.message_size.is_empty() || grid.name == "custom")
            .then(|| grid.sizes_bytes.clone());
        let mut grid = measured(grid);
        if let Some(measured) = &mut grid.measured {
            measured.sizes_bytes = sizes.unwrap_or_else(|| measured.sizes_bytes.clone());
            measured.repetitions = runs.repetitions.unwrap_or(measured.repetitions).max(1);
            measured.most_s = runs.seconds.unwrap_or(measured.most_s);
        }
        grid.check()?;
        if grid.cells().is_empty() {
            return Err(Error::new(
                Fault::You,
                ErrorCode::ProfileChannel,
                "no message fits: a datagram is at most one packet of 2 KiB",
            )
            .hint("give --message-size 2KiB or less, or --transport rc"));
        }
        Ok(grid)
    }
}
