//! What is measured, and what reports of both ends make of it.

use super::super::between::{Device, MeasurementHosts};
use super::super::document::VerbsProfile;
use super::super::presets::{measured, preset, presets};
use super::*;
use crate::experiment::{Document, Form};
use crate::profile::document::ProfileKind;
use crate::report::ReportDocument;

fn profile(name: &str) -> VerbsProfile {
    VerbsProfile::new(
        measured(preset(name, Form::Quick).expect("its paths are known").expect("a preset")),
        "today",
    )
}

fn first(transport: QpService, way: VerbsMetric) -> VerbsJob {
    let mut profile = profile("icpp08-verbs");
    profile.grid.measured.as_mut().expect("measured").sizes_bytes = vec![Bytes(2_048)];
    (profile.grid.transports, profile.grid.ways) = (vec![transport], vec![way]);
    let profile = VerbsProfile::new(profile.grid, "today");
    told(&profile, &profile.next(1)[0])
}

/// What the ends are told of `job`.
fn told(profile: &VerbsProfile, job: &CellJob<VerbsCell>) -> VerbsJob {
    VerbsJob::of(&profile.grid, job).expect("it is measured")
}

/// Ends that saw a thousand messages of 2 KiB in a millisecond, each a packet.
fn ends() -> (End, End) {
    let near = End {
        done: 1_000,
        seconds: 1e-3,
        packets: Some((1_000, 40)),
        mtu_bytes: 4_096,
        ..End::default()
    };
    let far =
        End { packets: Some((40, 1_000)), mtu_bytes: 4_096, intact: Some(true), ..End::default() };
    (near, far)
}

#[test]
fn every_preset_measures_cells_until_each_has_its_runs() {
    for (name, _) in presets() {
        let mut profile = profile(name);
        let (_, cells) = profile.progress();
        assert!(cells > 0 && cells < 200, "{name}: {cells} cells");
        let mut ran = 0;
        while let Some(job) = profile.next(1).pop() {
            let told = told(&profile, &job);
            assert!(told.messages >= 4.min(told.depth) && told.depth <= 100, "{name}: {told:?}");
            assert!(told.messages * told.size_bytes.0 <= 32 << 20, "{name}: {told:?}");
            profile.record(
                &job,
                VerbsRun {
                    invalid: (ran % 3 == 0).then(|| "a doubt".to_owned()),
                    ..VerbsRun::default()
                },
            );
            ran += 1;
        }
        assert_eq!(profile.progress(), (cells, cells), "{name}");
        assert!(
            ran > cells * profile.grid.measured.as_ref().expect("measured").repetitions as usize,
            "the doubtful were done again"
        );
    }
}

#[test]
fn a_cell_whose_runs_prove_nothing_is_given_up() {
    let mut profile = profile("sc08-ib-stability");
    let place = profile.next(1)[0].place;
    let mut ran = 0;
    while let Some(job) = profile.next(1).pop().filter(|job| job.place == place) {
        profile
            .record(&job, VerbsRun { invalid: Some("a doubt".to_owned()), ..VerbsRun::default() });
        ran += 1;
    }
    assert_eq!(ran, 20);
    assert!(profile.cells[place].summary(ProfileKind::Measured).is_none());
}

#[test]
fn connections_count_acknowledged_datagrams_arrived_messages() {
    let (near, far) = ends();
    let run = first(QpService::Rc, VerbsMetric::OneWay).run(&near, &far);
    assert_eq!(
        (run.throughput_bps, run.invalid, run.packets),
        (Rate::from_bps(16_384_000_000), None, Some((1_000, 1_000)))
    );

    let far = End { arrived: 501, arrival_s: 1e-3, ..far };
    let run = first(QpService::Ud, VerbsMetric::OneWay).run(&near, &far);
    assert_eq!(
        (run.throughput_bps, run.sent_bps),
        (Rate::from_bps(8_192_000_000), Some(Rate::from_bps(16_384_000_000)))
    );
    assert_eq!((run.lost, run.invalid), (499, None));
}

#[test]
fn a_run_is_in_doubt_on_low_counts_bad_memory_or_a_break() {
    let job = first(QpService::Rc, VerbsMetric::OneWay);
    let doubt = |change: fn(&mut End, &mut End)| {
        let (mut near, mut far) = ends();
        change(&mut near, &mut far);
        job.run(&near, &far).invalid.unwrap_or_default()
    };
    assert_eq!(doubt(|_, _| {}), "");
    assert!(
        doubt(|_, far| far.packets = Some((0, 999)))
            .contains("far device counted 999 packets, and the messages have 1000")
    );
    assert!(doubt(|_, far| far.intact = Some(false)).contains("not what was sent"));
    assert!(doubt(|near, _| near.failure = Some("retries".to_owned())).contains("broke: retries"));
    assert!(doubt(|near, _| near.done = 0).contains("nothing arrived"));
    let (near, mut far) = ends();
    far.packets = Some((1_000, 0));
    assert_eq!(
        first(QpService::Read, VerbsMetric::OneWay)
            .run(&End { packets: Some((0, 1_000)), ..near }, &far)
            .invalid,
        None,
        "who reads receives"
    );
}

#[test]
fn under_cross_traffic_sizes_are_divided_and_results_scaled() {
    let mut profile = profile("sc08-ib-cross-traffic");
    let mut jobs = Vec::new();
    while let Some(job) = profile.next(1).pop() {
        let ((near, far), told) = (ends(), told(&profile, &job));
        profile.record(&job, told.run(&near, &far));
        jobs.push(told);
    }
    let most = jobs
        .iter()
        .filter_map(|job| job.bottleneck)
        .max_by_key(|bottleneck| bottleneck.cross_bps)
        .expect("other traffic");
    assert_eq!(most.cross_bps, Rate::from_bps(10_000_000));
    assert!(
        most.rate_bps < Rate::from_bps(25_000_000)
            && most.host_bps == Some(Rate::from_bps(18_700_000))
    );
    let job =
        jobs.iter().find(|job| job.size_bytes == Bytes((8 << 20) / 400)).expect("8 MiB, divided");
    let (near, far) = ends();
    let plain = VerbsJob { divided_by: 1, ..job.clone() }.run(&near, &far).throughput_bps;
    assert_eq!(job.run(&near, &far).throughput_bps, Rate::from_bps(plain.as_bps() * 400));
}

#[test]
fn a_profile_that_goes_on_keeps_when_and_between_what() {
    let device = |name: &str| Device {
        name: name.to_owned(),
        address: "10.9.1.1".to_owned(),
        software: true,
    };
    let hosts = |far: &str| MeasurementHosts {
        near: device("rxe_a"),
        far: device(far),
        host: Some("a".to_owned()),
        kernel: None,
        cpus: Some(2),
    };
    let mut profile = profile("sc08-ib-stability");
    profile.between = Some(hosts("rxe_b"));
    let old = serde_json::to_string(&profile).expect("JSON");
    assert!(!old.contains("resumptions"), "the field is absent in what never went on");
    let job = profile.next(1).pop().expect("a run");
    profile.record(&job, VerbsRun::default());
    let same = profile.goes_on_in(hosts("rxe_b"), "Tuesday");
    assert_eq!((same.changes().len(), same.resumptions[0].repetitions), (0, 1));
    let other = same.goes_on_in(hosts("mlx5_0"), "Wednesday");
    let said = "from repetition 2 on (Wednesday): far device mlx5_0 at 10.9.1.1 in place of rxe_b at \
                10.9.1.1";
    assert_eq!(other.changes(), [said]);
    assert_eq!(other.between, Some(hosts("rxe_b")), "the first runs stay where they were made");
    assert!(other.page(&[]).html().contains(said));
    let read = VerbsProfile::read(&serde_json::to_string(&other).expect("JSON")).expect("it");
    assert_eq!((read.resumptions.len(), read.next(1)), (2, other.next(1)));
}
