//! Readers of traces: what they read, what they refuse, and that nothing else happens.

use antiphase_sim::trace::{Format, LingjunWorkers, Setup, Trace, TraceError, TraceJob, read, read_lingjun, run};
use policy::{
    muri::Timing,
    schedule::{Cluster, Rule},
};
use proptest::prelude::*;

const ANTIPHASE: &str = "\
job_id,submit_s,gpus,iterations,iteration_ms,up_ms,load_ms,model,restart_s,priority
a,0,8,1000,200,60,40,,3,guaranteed
b,12.5,2,500,,,,vgg16,,opportunistic
c,30,1,7.5,100,,,,,
";

const MURI: &str = "\
job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
0,8,0,1000,bert,192000,192,0.5,167,59,0
1,8,100000,10,dqn,5090,509,435,8,0.5,1
";

const PHILLY: &str = r#"[
{"status": "Pass", "vc": "v", "jobid": "app_1", "user": "u", "submitted_time": "2017-10-07 01:11:39", "attempts": [
  {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 01:14:30", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]}]},
{"status": "Killed", "jobid": "app_2", "submitted_time": "2017-10-07 01:12:00", "attempts": []},
{"status": "Failed", "jobid": "app_3", "submitted_time": "2017-10-07 01:12:39", "attempts": [
  {"start_time": "2017-10-07 02:00:00", "end_time": null, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-07 03:00:00", "end_time": "2017-10-07 04:00:00", "detail": []}]}
]
"#;

const HELIOS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,u,v,8,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
2,u,v,0,16,1,COMPLETED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
3,u,v,2.0,16,1,FAILED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:45:40,249,0
";

const ALIBABA: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,100,600,150
p1,6000,12288,1,460,,BE,Running,400,500,400
p2,6000,12288,0,0,,BE,Running,500,600,500
p3,6000,12288,2,1000,,LS,Pending,500,600,
";

const LINGJUN: &str = "\
job_name,kind,model,priority,gmt_job_submitted,gmt_job_running,gmt_job_finished,gmt_job_stopped
j1,PyTorchJob,gpt,5,2023-08-07 09:00:00,2023-08-07 09:05:00,2023-08-07 10:05:00,
j2,PyTorchJob,,5,2023/8/7 9:05,2023/8/7 9:06,,2023/8/7 9:16
j3,PyTorchJob,gpt,5,2023-08-07 09:00:00,,,
";

const WORKERS: &str = "\
worker_name,job_name,replica_type,host_ip,RES
w1,j1,Master,ip1,\"{\"\"cpu\"\": 64, \"\"nvidia.com/gpu\"\": 8}\"
w2,j1,Worker,ip2,\"{\"\"nvidia.com/gpu\"\": \"\"8\"\"}\"
w3,j2,Worker,ip2,\"{\"\"nvidia.com/gpu\"\": 2}\"
w4,j2,Worker,ip3,
";

const SIA: &str = "\
name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,8,2048
bert-1,110.5,bert,12,384
";

const FORMATS: [(Format, &str); 6] = [
    (Format::Antiphase, ANTIPHASE),
    (Format::Muri, MURI),
    (Format::Philly, PHILLY),
    (Format::Helios, HELIOS),
    (Format::AlibabaGpu2023, ALIBABA),
    (Format::Sia, SIA),
];

/// What of a job all formats have.
fn brief(trace: &Trace) -> Vec<(&str, u64, u32, f64, f64, bool)> {
    let of = |job: &'_ TraceJob| (job.gpus, job.submitted_s, job.declared_s, job.opportunistic);
    let brief = trace.jobs.iter().map(|job| (&job.id[..], job.line, of(job)));
    brief.map(|(id, line, (gpus, at, ran, opportunistic))| (id, line, gpus, at, ran, opportunistic)).collect()
}

#[test]
fn our_own_format_has_times_or_models() {
    let trace = read(Format::Antiphase, ANTIPHASE).unwrap();
    assert_eq!(trace.jobs.len(), 3);
    let [a, b, c] = [0, 1, 2].map(|at| &trace.jobs[at]);
    let profile = |job: &TraceJob| trace.profiles[usize::from(job.profile)];
    assert_eq!((a.declared_s, a.up_ms, a.opportunistic), (200.0, Some(60.0), false));
    // Of 200 ms it sends for 60 and loads for 40, so it computes for 100.
    let stages = profile(a).stages;
    assert!([stages.load_s - 0.04, stages.gpu_s - 0.1, stages.net_s - 0.06].iter().all(|d| d.abs() < 1e-12), "{stages:?}");
    assert_eq!((profile(a).restart_s, profile(b).restart_s, profile(c).restart_s), (3.0, 10.0, 10.0));
    // VGG16 on two servers of the CASSINI paper (section 2.2): an iteration of 255 ms of which 141 ms are Down; the zoo comes to 141.1.
    assert_eq!((b.iteration_ms, b.up_ms, b.model.as_deref(), b.opportunistic), (255.0, Some(113.9), Some("vgg16"), true));
    // Its phases are kept for a fabric: 113.9 ms of an all-reduce among both.
    let traffic = &trace.traffic[usize::from(b.traffic.unwrap())];
    assert_eq!((traffic.period.0, traffic.phases.iter().map(|phase| phase.end.0 - phase.start.0).sum()), (255_000_000, 113_900_000_u64));
    assert_eq!((a.traffic, c.traffic), (None, None));
    assert_eq!((c.up_ms, c.model.as_deref()), (Some(0.0), None));
}

#[test]
fn logs_of_others_are_jobs_that_ran_for_a_time() {
    // The last attempt had four GPUs; 74 s and 60 s of running. The second never ran, and of the third an attempt has no end, and another
    // one no GPUs.
    let philly = read(Format::Philly, PHILLY).unwrap();
    assert_eq!(brief(&philly), [("app_1", 2, 4, 0.0, 134.0, false), ("app_3", 6, 1, 60.0, 3_600.0, false)]);
    let helios = read(Format::Helios, HELIOS).unwrap();
    assert_eq!(brief(&helios), [("1", 2, 8, 0.0, 36_848.0, false), ("3", 4, 2, 30.0, 249.0, false)]);
    let alibaba = read(Format::AlibabaGpu2023, ALIBABA).unwrap();
    assert_eq!(brief(&alibaba), [("p0", 2, 1, 0.0, 450.0, false), ("p1", 3, 1, 300.0, 100.0, true)]);
    assert_eq!((philly.left_out, helios.left_out, alibaba.left_out), (1, 1, 2));
    let workers = LingjunWorkers::read(WORKERS).unwrap();
    let lingjun = read_lingjun(LINGJUN, &workers).unwrap();
    assert_eq!(brief(&lingjun), [("j1", 2, 16, 0.0, 3_600.0, false), ("j2", 3, 2, 300.0, 600.0, false)]);
    assert_eq!((lingjun.jobs[0].model.as_deref(), lingjun.jobs[1].model.as_deref(), lingjun.left_out), (Some("gpt"), None, 1));
    // 3,178 iterations of 45.75 + 0.181 * 256 ms and 51.5 ms of sending.
    let sia = read(Format::Sia, SIA).unwrap();
    assert!((sia.jobs[0].declared_s - 3_178.0 * (45.75 + 0.181 * 256.0 + 51.5) / 1e3).abs() < 1e-6);
    assert_eq!((sia.jobs[0].submitted_s, sia.jobs[1].gpus, sia.jobs[1].model.as_deref()), (107.0, 12, Some("bert")));
}

#[test]
fn what_was_read_can_be_played() {
    let workers = LingjunWorkers::read(WORKERS).unwrap();
    let traces = FORMATS.map(|(format, text)| read(format, text).unwrap());
    for trace in traces.iter().chain([&read_lingjun(LINGJUN, &workers).unwrap()]) {
        let setup =
            Setup { cluster: Cluster { hosts: 2, gpus_per_host: 8 }, rule: Rule::Srtf, timing: Timing::Paper, network: None, faults: None };
        let outcome = run(trace, &setup).unwrap();
        // Nobody waits for long: who starts pays a restart, and then runs as long as it did.
        assert!(outcome.jct_s.iter().zip(&trace.jobs).all(|(jct, job)| *jct >= job.declared_s), "{outcome:?}");
    }
}

#[test]
fn errors_name_line_column_and_value() {
    let cases = [
        (Format::Antiphase, ANTIPHASE.replace("12.5,2", "12.5,0"), "line 3: gpus \"0\" must be a whole number above 0"),
        (Format::Antiphase, ANTIPHASE.replace("vgg16", "vgg17"), "line 3: unknown model \"vgg17\""),
        (Format::Antiphase, ANTIPHASE.replace("500,,", "500,100,"), "line 3: model stands beside iteration_ms; give one of them"),
        (
            Format::Antiphase,
            ANTIPHASE.replace("60,40", "60,150"),
            "line 2: load_ms \"150\" must be a time in milliseconds within the iteration",
        ),
        (Format::Antiphase, ANTIPHASE.replace("opportunistic", "1"), "line 3: priority \"1\" must be guaranteed or opportunistic"),
        (
            Format::Antiphase,
            ANTIPHASE.replace("7.5,100", "7.5,"),
            "line 4: iteration_ms \"\" must be a time in milliseconds above 0 and at most 3.6e6, or a model",
        ),
        (Format::Antiphase, ANTIPHASE.replace("gpus,", "gpu,"), "line 1: no column \"gpus\""),
        (Format::Antiphase, ANTIPHASE.replace("load_ms", "up_ms"), "line 1: column \"up_ms\" stands twice"),
        (
            Format::Antiphase,
            ANTIPHASE.replace("1000,200", "1e15,200"),
            "line 2: 1000000000000000 iterations of 200 ms take longer than 3200000000 s (a hundred years)",
        ),
        (Format::Philly, PHILLY.replace("01:13:30", "noon"), "line 2: start_time \"2017-10-07 noon\""),
        (Format::Philly, PHILLY.replace("\"app_2\"", "2"), "line 5: invalid type: integer `2`, expected a string"),
        (Format::Philly, PHILLY.replace("app_3", "app_1"), "line 6: job id \"app_1\" is that of line 2 already"),
        (Format::Philly, PHILLY.trim_end().trim_end_matches(']').to_owned(), "line 9: no comma and no end of the array"),
        (
            Format::Philly,
            PHILLY.replace("]},\n{\"status\": \"Failed\"", "]}\n{\"status\": \"Failed\""),
            "line 6: no comma and no end of the array",
        ),
        (Format::Philly, "{}".to_owned(), "line 1: not an array of jobs"),
        (Format::Philly, "[{\"jobid\": \"a\"},]".to_owned(), "line 1: nothing behind a comma"),
        (Format::Philly, "[]\n[]".to_owned(), "line 2: text behind the array"),
        (Format::Helios, HELIOS.replace("2020-06-09 18:41:31,", "soon,"), "line 4: submit_time \"soon\" must be a time like"),
        (Format::Helios, HELIOS.replace("2.0,", "2.5,"), "line 4: gpu_num \"2.5\" must be a whole number"),
        (
            Format::AlibabaGpu2023,
            ALIBABA.replace("400,500,400", "400,-5,400"),
            "line 3: deletion_time \"-5\" must be a time in seconds from 0 to 3.2e9",
        ),
        (Format::Sia, SIA.replace("2048", "2000"), "line 2: batch_size \"2000\" must be a batch whose iterations"),
        (Format::Sia, SIA.replace("bert,", "ncf,"), "line 3: application \"ncf\" must be"),
    ];
    for (format, text, expected) in cases {
        let said = read(format, &text).unwrap_err().to_string();
        assert!(said.starts_with(expected), "{format:?}: {said}");
    }
    let bad = WORKERS.replace("\"\"nvidia.com/gpu\"\": 2", "\"\"nvidia.com/gpu\"\": 0.5");
    assert!(LingjunWorkers::read(&bad).unwrap_err().to_string().starts_with("line 4: RES "));
}

#[test]
fn models_of_very_many_ranks_are_refused_before_they_are_made() {
    // 400 sizes of one model, of which each makes groups of all its ranks.
    let rows: String = (0..400).map(|n| format!("{n},0,{},1,vgg16\n", 4_096 - n)).collect();
    let said = read(Format::Antiphase, &format!("job_id,submit_s,gpus,iterations,model\n{rows}")).unwrap_err().to_string();
    assert!(said.ends_with("the models up to here have more than 1048576 ranks and phases together"), "{said}");
}

#[test]
fn lines_are_those_of_an_editor() {
    let bad = HELIOS.replace("36848", "long");
    let gap = bad.replacen('\n', "\n\n\n", 1);
    for (text, line) in [(bad.replace('\n', "\r\n"), 2), (gap.replace('\n', "\r\n"), 4), (gap, 4)] {
        let said = read(Format::Helios, &text).unwrap_err().to_string();
        assert!(said.starts_with(&format!("line {line}: duration \"long\"")), "{text:?}: {said}");
    }
}

/// A text with some bytes replaced, taken out or put in, as UTF-8.
fn broken(text: &str, changes: &[(usize, u8, u8)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for &(at, how, byte) in changes {
        let at = at % bytes.len().max(1);
        match how % 3 {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, byte),
        }
        if bytes.is_empty() {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn one_line(result: Result<Trace, TraceError>) -> Result<(), TestCaseError> {
    match result {
        Ok(trace) => {
            let sound = |job: &TraceJob| {
                job.gpus > 0
                    && (0.0..=3.2e9).contains(&job.submitted_s)
                    && job.iterations * job.iteration_ms <= 3.2e12
                    && job.iterations > 0.0
                    && job.iteration_ms > 0.0
                    && job.up_ms.is_none_or(|up| (0.0..=3.6e6).contains(&up))
                    && usize::from(job.profile) < trace.profiles.len()
            };
            prop_assert!(!trace.jobs.is_empty() && trace.jobs.iter().all(sound), "{trace:?}");
        }
        Err(e) => {
            let said = e.to_string();
            prop_assert!(!said.chars().any(char::is_control) && said.starts_with("line "), "{said:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn whatever_a_file_holds_is_a_trace_or_one_line(
        which in 0..FORMATS.len(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), prop_oneof![any::<u8>(), prop::sample::select(b"0.9e-,\"\r\n[]{}: ".to_vec())]), 1..6),
    ) {
        let (format, text) = FORMATS[which];
        one_line(read(format, &broken(text, &changes)))?;
        let workers = LingjunWorkers::read(WORKERS).unwrap();
        one_line(read_lingjun(&broken(LINGJUN, &changes), &workers))?;
        if let Err(e) = LingjunWorkers::read(&broken(WORKERS, &changes)) {
            prop_assert!(e.to_string().starts_with("line "), "{e}");
        }
    }
}
