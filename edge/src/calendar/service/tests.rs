//! A calendar whose writer panics: who waits is not told that nothing was done, and the service
//! ends.

use super::super::config::CalendarConfigFile;
use super::super::ledger::tests::panicking;
use super::super::writer::WriterJob;
use super::*;
use farline_core::calendar::{BookOrder, LinkId, TimeWindow};
use farline_core::units::Span;
use tokio::sync::oneshot;

#[tokio::test]
async fn a_writer_that_panics_ends_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = CalendarConfigFile {
        listen: "127.0.0.1:0".parse().ok(),
        state: Some(folder.path().to_owned()),
        ..CalendarConfigFile::default()
    };
    let config = config.build().expect("makes sense");
    let (listen, topology) = (config.listen, Arc::clone(&config.topology));
    let opened = waiting(move || {
        let mut opened = open(&config)?;
        opened.ledger = panicking(&config.state.join(DATABASE))?;
        Ok(opened)
    });
    let opened = opened.await.expect("opens");
    let service = Service::over(opened, listen, topology).await.expect("listens");
    let (reply, outcome) = oneshot::channel();
    let window = TimeWindow::lasting(now() + Span::from_secs(60), Span::from_secs(60));
    let order = BookOrder::Close { link: LinkId(0), window, reason: "work".to_owned() };
    let job = WriterJob { order, actor: "ada".to_owned(), key: None, status: 201, reply };
    assert!(service.shared.writer.send(job), "there is room");
    let running = service.run(std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    let error = ended.expect("it notices").expect_err("it fails");
    assert_eq!((error.fault, error.code), (Fault::Bug, ErrorCode::CalendarStore));
    assert!(error.message.contains("on purpose") && error.hint.is_some(), "{error}");
    assert!(outcome.await.is_err(), "who waits hears neither yes nor no");
}
