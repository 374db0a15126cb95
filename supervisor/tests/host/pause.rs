//! Pausing, from the supervisor's side: jobs with and without a process, whose worker or supervisor dies meanwhile.

use super::*;

impl Client {
    async fn pause(&mut self, jobs: Selection) -> Vec<JobRow> {
        match self.ask(Request::Pause { jobs }).await {
            Response::Paused { rows } => rows,
            other => panic!("{other:?}"),
        }
    }

    async fn unpause(&mut self, jobs: Selection) -> Vec<JobRow> {
        match self.ask(Request::Unpause { jobs }).await {
            Response::Unpaused { rows, starts: false } => rows,
            other => panic!("{other:?}"),
        }
    }

    async fn until(&mut self, job: &JobId, status: JobStatus) -> JobRow {
        let began = Instant::now();
        loop {
            let row = self.row(job).await;
            if row.status == status {
                return row;
            }
            assert!(began.elapsed() < PATIENCE, "{row:?} is not {status}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn these(jobs: &[&JobId]) -> Selection {
    Selection::These(jobs.iter().map(ToString::to_string).collect())
}

#[tokio::test(flavor = "current_thread")]
async fn a_job_that_does_not_run_is_paused_at_once_and_for_as_long_as_a_person_wants() {
    let mut bench = Bench::new(|settings| settings.max_workers = 1).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["crashes", "queued", "third"]).await;
    let first = bench.worker().await;
    let rows = client.pause(these(&[&jobs[1]])).await;
    assert_eq!(rows.iter().map(|row| (&row.id, row.status)).collect::<Vec<_>>(), [(&jobs[1], JobStatus::Paused)]);
    // It crashes, backs off, and is paused at that. The slot goes to the third.
    first.kill(Signal::SIGKILL);
    client.until(&jobs[0], JobStatus::Interrupted).await;
    assert_eq!(client.pause(these(&[&jobs[0]])).await[0].status, JobStatus::Paused);
    let third = bench.worker().await;
    assert_eq!(third.started.job, jobs[2]);
    let Bench { host, settings, folder, .. } = bench;
    drop(third);
    within(host.drain()).await;

    let (host, started) = start(&settings).await;
    let mut bench = Bench { host, settings, started, folder };
    let third = bench.worker().await;
    assert_eq!((&third.started.job, third.started.attempt), (&jobs[2], 2));
    third.finish().await;
    let idle = within(bench.host.idle()).await.expect("the supervisor lives");
    let mut paused = jobs[..2].to_vec();
    paused.sort();
    assert_eq!((idle.queued, idle.paused), (Vec::new(), paused));

    let mut client = bench.client().await;
    for (job, attempt, restarts) in [(&jobs[0], 2, 1), (&jobs[1], 1, 0)] {
        assert_eq!(client.unpause(these(&[job])).await.len(), 1);
        let worker = bench.worker().await;
        assert_eq!((&worker.started.job, worker.started.attempt), (job, attempt));
        worker.finish().await;
        assert_eq!(client.until(job, JobStatus::Completed).await.restarts, restarts);
    }
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_paused_job_is_cancelled_and_an_ended_one_is_not_paused() {
    let bench = Bench::new(|settings| settings.max_workers = 0).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["a", "b"]).await;
    assert_eq!(client.pause(Selection::All).await.len(), 2);
    // Said twice, it is written once.
    assert_eq!(client.pause(Selection::All).await.len(), 2);
    assert!(client.cancel(&jobs[0]).await < CANCEL_MAX);
    for jobs in [these(&[&jobs[0], &jobs[1]]), these(&[&jobs[0]])] {
        for request in [Request::Unpause { jobs: jobs.clone() }, Request::Pause { jobs }] {
            let Response::Refused { why, usage: true } = client.ask(request).await else { panic!("not refused") };
            assert!(why.contains("ended"), "{why}");
        }
    }
    assert_eq!(client.row(&jobs[1]).await.status, JobStatus::Paused, "all or none");
    assert_eq!(client.pause(Selection::All).await.len(), 1);
    assert_eq!(count(&log(&bench.settings, &jobs[0]).await, "Paused"), 1);
    assert!(matches!(
        client.ask(Request::Pause { jobs: these(&[&JobId::from_random([9; 5])]) }).await,
        Response::Refused { usage: true, .. }
    ));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_crashes_while_it_pauses_is_not_started_again() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    let row = client.pause(these(&[&job])).await.remove(0);
    assert_eq!(row.note, "pauses when its current call has ended");
    assert_eq!(next(&mut worker.reader).await, ToWorker::Pause);
    worker.kill(Signal::SIGKILL);
    client.until(&job, JobStatus::Paused).await;
    assert_eq!(client.unpause(these(&[&job])).await.len(), 1);
    let worker = bench.worker().await;
    assert_eq!(client.row(&job).await.restarts, 1);
    worker.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_worker_that_comes_back_is_told_what_a_person_said_meanwhile() {
    let mut bench = Bench::new(|_| {}).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let mut started = bench.worker().await.disconnect().await;
    for (request, word) in [
        (Request::Pause { jobs: these(&[&job]) }, ToWorker::Pause),
        (Request::Unpause { jobs: these(&[&job]) }, ToWorker::Unpause),
    ] {
        client.ask(request).await;
        let worker = Worker::hello(&bench.settings, started, true).await;
        assert_eq!(worker.word, Some(word));
        started = worker.disconnect().await;
    }
    Worker::hello(&bench.settings, started, true).await.finish().await;
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_supervisor_killed_while_a_worker_pauses_is_missed_by_nobody() {
    for back in [true, false] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = settings(folder.path());
        settings.orphan_grace = Duration::from_millis(if back { 5_000 } else { 200 });
        let (job, token) = (JobId::from_random([1; 5]), Secret::new("its token".into()));
        let mut child = sleeper();
        let pid = child.id();
        leave_behind(&settings, &job, process::mark(pid).expect("it lives"), &token, true).await;
        let (host, started) = start(&settings).await;
        let mut bench = Bench { host, settings, started, folder };
        let mut client = bench.client().await;
        if back {
            let left = Started { job: job.clone(), attempt: 1, token, pid };
            let mut worker = Worker::hello(&bench.settings, left, true).await;
            assert_eq!(worker.word, Some(ToWorker::Pause));
            // The call under way ends; then it goes.
            worker.record(replied(1)).await;
            worker.kill(Signal::SIGKILL);
        }
        client.until(&job, JobStatus::Paused).await;
        child.wait().expect("it ends");
        assert!(bench.started.try_recv().is_err(), "it is not started again");
        client.unpause(Selection::All).await;
        let worker = bench.worker().await;
        assert_eq!((worker.started.attempt, client.row(&job).await.restarts), (2, u32::from(!back)));
        worker.finish().await;
        bench.end().await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_word_that_cannot_be_written_changes_nothing() {
    let mut bench = Bench::new(|settings| settings.max_workers = 1).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["running", "queued"]).await;
    let mut worker = bench.worker().await;
    worker.record(injected()).await;
    for job in &jobs {
        let fault = disk::fault::inject(disk::fault::Fault {
            under: bench.settings.state_dir.join("runs").join(job.as_str()),
            operation: disk::fault::Operation::Write,
            skip: 0,
            times: 1,
            effect: disk::fault::Effect::Fail(nix::libc::EIO),
        });
        let refused = client.ask(Request::Pause { jobs: these(&[job]) }).await;
        drop(fault);
        let Response::Refused { why, usage: false } = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("1 of 1 jobs stay as they were: "), "{why}");
    }
    worker.finish().await;
    let worker = bench.worker().await;
    assert_eq!(worker.started.job, jobs[1]);
    worker.finish().await;
    bench.end().await;
}

/// For what was sent to be taken in by a supervisor that has nothing else to do.
const TAKEN_IN: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "current_thread")]
async fn words_about_one_job_hold_in_the_order_in_which_they_were_said() {
    let bench = Bench::new(|settings| settings.max_workers = 0).await;
    let mut client = bench.client().await;
    let job = client.submit(&["a"]).await.remove(0);
    let (reached, mut syncing) = mpsc::unbounded_channel();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let hold = move || {
        reached.send(()).expect("the test waits");
        gate.lock().expect("one thread at a time").recv_timeout(PATIENCE).expect("released");
    };
    let _slow_disk = disk::fault::inject(disk::fault::Fault {
        under: bench.settings.state_dir.join("runs").join(job.as_str()),
        operation: disk::fault::Operation::Sync,
        skip: 0,
        times: 2,
        effect: disk::fault::Effect::Call(Arc::new(hold)),
    });
    let say = async |request: fn(Selection) -> Request| {
        let mut client = bench.client().await;
        client.writer.send(&request(these(&[&job]))).await.expect("sent");
        tokio::time::sleep(TAKEN_IN).await;
        client
    };
    let mut first = say(|jobs| Request::Pause { jobs }).await;
    within(syncing.recv()).await.expect("the first is on its way to the disk");
    let mut second = say(|jobs| Request::Unpause { jobs }).await;
    release.send(()).expect("it waits");
    assert!(matches!(first.next().await, Response::Paused { .. }));
    within(syncing.recv()).await.expect("the second is on its way to the disk");
    let mut third = say(|jobs| Request::Pause { jobs }).await;
    release.send(()).expect("it waits");
    assert!(matches!(second.next().await, Response::Unpaused { .. }));
    assert!(matches!(third.next().await, Response::Paused { .. }));
    assert_eq!(client.row(&job).await.status, JobStatus::Paused);
    let events = log(&bench.settings, &job).await;
    assert_eq!((count(&events, "Paused"), count(&events, "Unpaused")), (2, 1));
    bench.end().await;
}

#[tokio::test(flavor = "current_thread")]
async fn unpausing_all_ends_the_pause_of_starts_after_many_crashes() {
    let mut bench = Bench::new(|settings| settings.max_workers = 5).await;
    let mut client = bench.client().await;
    let jobs = client.submit(&["a", "b", "c", "d", "e"]).await;
    for _ in &jobs {
        bench.worker().await.kill(Signal::SIGKILL);
    }
    for job in &jobs {
        client.until(job, JobStatus::Interrupted).await;
    }
    let later = client.submit(&["later"]).await.remove(0);
    assert!(client.row(&later).await.note.starts_with("starts are paused"));
    let answer = client.ask(Request::Unpause { jobs: Selection::All }).await;
    assert_eq!(answer, Response::Unpaused { rows: Vec::new(), starts: true });
    let worker = bench.worker().await;
    assert_eq!(worker.started.job, later);
    assert!(client.unpause(Selection::All).await.is_empty());
    bench.end().await;
}
