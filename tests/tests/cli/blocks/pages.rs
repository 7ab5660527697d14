//! What becomes of the blocks of each page.

/// A page, and what it takes for granted.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) path: &'static str,
    /// Runs before the page: files of the reader's own, and jobs that run.
    pub(super) before: &'static str,
    /// Starts the service where the page asks one and has no line for it; empty where it asks none.
    pub(super) serve: &'static str,
    /// Words of the page, what stands here in their place, and why.
    pub(super) instead: &'static [(&'static str, &'static str, &'static str)],
    /// Beginnings of lines that do not run here, and why. Options of our programs and targets of make are checked all the same.
    pub(super) except: &'static [(&'static str, &'static str)],
    /// Words of blocks that are not run as a shell's, and what checks them.
    pub(super) checked: &'static [(&'static str, Check)],
}

/// What checks a block.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// Commands for a shell that has the block in the file `block`.
    Run(&'static str),
    /// Another test, by its name.
    By(&'static str),
}

impl Page {
    pub(super) const NONE: Self = Self { path: "", before: "", serve: "", instead: &[], except: &[], checked: &[] };
}

/// Lines that run on no page.
pub(super) const EVERYWHERE: [(&str, &str); 6] = [
    ("helm ", CLUSTER),
    ("kubectl ", CLUSTER),
    ("sbatch ", CLUSTER),
    ("cargo install ", "builds the program, which is built here already"),
    ("make ", "builds or tests for minutes"),
    ("apt-get install ", "changes the machine; `debian_packages_install_start_upgrade_and_leave_nothing` installs ours in a copy of it"),
];

const SERVE: &str = "antiphase serve --state antiphase.redb --fabric examples/testbed/fabric.yaml";

/// A jobs document of the page, planned on the testbed.
const JOBS: Check = Check::Run("cp block jobs.yaml; antiphase plan --fabric examples/testbed/fabric.yaml --jobs jobs.yaml");

/// A hook on a model that one process trains alone.
const DDP: Check = Check::Run(
    r#"{ cat <<'BEFORE'
import tempfile, torch
at = "file://" + tempfile.mkdtemp() + "/meet"
torch.distributed.init_process_group("gloo", init_method=at, rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
BEFORE
cat block
echo 'model(torch.ones(1, 2)).sum().backward()'
echo 'assert model.module.weight.grad is not None'
} | PYTHONPATH=agent/gate/python python-with-torch"#,
);

const TRACES: &str = "the traces of others are not in the repository";
const MINUTES: &str = "takes longer than a test may, most of them minutes";
const CLUSTER: &str = "needs a cluster";

/// Every page with blocks that are more than text.
pub(super) const PAGES: &[Page] = &[
    Page { path: "README.md", ..Page::NONE },
    Page {
        path: "docs/network-engineer.md",
        before: r#"F=$REPOSITORY/crates/fabric/tests/fixtures
mkdir lldp
cp "$F/lldp/gpu-01.json" "$F/lldp/leaf1.json" lldp
cp "$F/sonic/leaf1.json" leaf1.json
cat >topology.yaml <<'END'
- topology: racks
  cluster_default: true
  tree:
    switches:
    - {switch: root, children: "rack[1-2]"}
    - {switch: rack1, nodes: "gpu-[1-8]"}
    - {switch: rack2, nodes: "gpu-[9-16]"}
END
antiphase fabric import slurm-yaml topology.yaml --assume-capacity host-leaf=200G,leaf-spine=400G*2 --out intended.yaml"#,
        serve: SERVE,
        checked: &[("[sflow]", Check::Run("antiphase-topology config check --config block"))],
        ..Page::NONE
    },
    Page {
        path: "docs/ml-engineer.md",
        except: &[("ANTIPHASE_JOB=bert-7 torchrun ", "needs four hosts with GPUs"), ("docker run ", "needs docker and the image of a job")],
        checked: &[
            ("pip install antiphase_gate-", Check::By("a_wheel_brings_its_library_and_holds")),
            ("model.register_comm_hook", DDP),
            ("schema: antiphase.jobs/v1", JOBS),
            (
                "for batch in data:",
                Check::Run(
                    "{ printf 'data = range(3)\\ncompute = print\\ncommunicate = print\\n'; cat block; } | PYTHONPATH=agent/gate/python python3 -",
                ),
            ),
        ],
        ..Page::NONE
    },
    Page {
        path: "docs/scheduler-author.md",
        instead: &[(
            "python3 examples/themis_loop.py",
            "python3 examples/themis_loop.py --url http://127.0.0.1:7480",
            "the service has another port",
        )],
        checked: &[(
            "answer = client.evaluate(",
            // What stands around these lines in a scheduler.
            Check::Run(
                r#"{ cat <<'BEFORE'
from types import SimpleNamespace
from antiphase import Candidate, Client, JobHosts, JobSpec, Model
client = Client("http://127.0.0.1:7480")
winners = [SimpleNamespace(name="w", spec=lambda hosts: JobSpec(id="w", model=Model(name="vgg16"), hosts=hosts))]
hosts = {"w": ["h2", "h6"]}
candidates = [Candidate(id="x", placements=[JobHosts(job="w", hosts=hosts["w"])])]
FIELDS, lease_ms = ["ranked.id", "plan_version"], 60_000
BEFORE
cat block
echo 'client.release(["w"])'
} | PYTHONPATH=clients/python python3 -W error -"#,
            ),
        )],
        ..Page::NONE
    },
    Page {
        path: "docs/operator.md",
        serve: SERVE,
        instead: &[
            (
                "config check --config /etc/antiphase/antiphase-topology.toml",
                "config check --config topology/server/antiphase-topology.toml",
                "the file of the package",
            ),
            (
                "antiphase-agent config check",
                "antiphase-agent --config agent/daemon/antiphase-agent.toml config check",
                "the file of the package",
            ),
        ],
        except: &[
            ("cp -r /usr/share/doc/", "the package brings the examples, which are beside the reader here"),
            ("export ANTIPHASE_SERVER=https:", "the service here has no certificates; `secured.rs` has one that does"),
            ("antiphase doctor", "says what is wrong with this machine; `doctor.rs` tests it"),
        ],
        ..Page::NONE
    },
    Page {
        path: "docs/operating.md",
        before: r#"cp examples/testbed/fabric.yaml fabric.yaml
cp examples/two-jobs.json scenario.json
curl -s -H 'content-type: application/json' -d '{"jobs": [{"id": "a", "model": {"name": "vgg16"}, "hosts": ["h1", "h5"]}]}' http://127.0.0.1:7480/v1alpha1/commit"#,
        serve: SERVE,
        ..Page::NONE
    },
    Page {
        path: "docs/api.md",
        serve: SERVE,
        // The answer of the request before it.
        checked: &[("{\n    \"", Check::Run("python3 -m json.tool --sort-keys answer.json | diff - block"))],
        ..Page::NONE
    },
    Page { path: "docs/scheduler.md", ..Page::NONE },
    Page {
        path: "docs/agent.md",
        before: r#"printf 'host = "h1"\npage_dir = "%s/pages"\n[metrics]\nlisten = "127.0.0.1:0"\n' "$HERE" >agent.toml"#,
        instead: &[("/etc/antiphase/antiphase-agent.toml", "agent.toml", "the file of the package has the machine's own folders")],
        except: &[("export LD_PRELOAD=", "is for a job over NCCL: every program of this shell would load it")],
        ..Page::NONE
    },
    Page {
        path: "docs/kubernetes.md",
        before: "antiphase-topology pki init --dir pki --host topology.example\ncp examples/testbed/fabric.yaml fabric.yaml",
        instead: &[("kubectl apply --server-side -f -", "grep -q '^kind: Node'", CLUSTER)],
        checked: &[
            // The manifests in `integrations` are tried on the schemas of Kubernetes; the page has parts of them.
            ("schedulingGates:", Check::Run(PARTS_OF_JOB)),
            ("[extender]", Check::Run("antiphase-topology config check --config block")),
            ("filterVerb: filter", Check::Run(PARTS_OF_SCHEDULER)),
            ("extender.predicateVerb", Check::Run(VERBS_OF_VOLCANO)),
        ],
        ..Page::NONE
    },
    Page {
        path: "docs/slurm.md",
        before: "mkdir slurm etc",
        serve: SERVE,
        instead: &[
            ("cd /var/lib/antiphase-slurm", "cd slurm", "the folder of the machine"),
            ("/etc/slurm/", "$HERE/etc/", "the folder of the machine"),
            ("scontrol reconfigure", "test -s \"$HERE/etc/topology.conf\"", CLUSTER),
        ],
        checked: &[
            ("install -D -t /usr/lib/antiphase", Check::By("what_the_page_installs_runs_as_slurmctld_starts_it")),
            ("PrologSlurmctld=", Check::By("a_job_of_slurm_is_committed_while_it_runs_and_runs_without_the_service_too")),
        ],
        ..Page::NONE
    },
    Page {
        path: "docs/lab.md",
        except: &[
            ("antiphase lab run ", "needs root and minutes; `scripts/demo.sh` and the tests of the lab play cases"),
            ("antiphase lab live ", "needs root, and goes on until somebody ends it"),
            ("antiphase lab up ", "needs root"),
            ("antiphase lab compare ", "needs what `lab run` measured"),
            ("antiphase lab down", "would end labs of others on this machine"),
        ],
        ..Page::NONE
    },
    Page {
        path: "docs/policies.md",
        before: r#"D=$REPOSITORY/tests/tests/cli/documents
cp "$D/trace.csv" "$D/groups.csv" "$D/growing.csv" "$D/round.json" .
printf 'at_s,until_s,kind,name,factor\n10,20,host,h1,\n' >faults.csv"#,
        except: &[
            ("antiphase reproduce muri --traces ", TRACES),
            ("antiphase reproduce sia --traces ", TRACES),
            ("antiphase sim run --trace workload-1.csv ", TRACES),
            ("antiphase reproduce pollux ", TRACES),
            ("antiphase reproduce deepshare ", TRACES),
            ("antiphase reproduce gandiva ", MINUTES),
            ("antiphase reproduce sharing ", MINUTES),
            ("antiphase reproduce sia --network", MINUTES),
            ("antiphase reproduce harmony ", MINUTES),
            ("antiphase reproduce cassini ", MINUTES),
            ("antiphase learn evaluate", MINUTES),
        ],
        checked: &[(
            "type: dgx-ext",
            // A part of a fabric: the rest is one switch.
            Check::Run(
                r#"{ printf 'schema: antiphase.fabric/v1\ndefaults: {capacity: 50G}\nswitches: [{name: s, tier: 1}]\n'
cat block
printf 'cables: [{ends: [h1, s]}, {ends: [h2, s]}, {ends: [h3, s]}, {ends: [h4, s]}]\n'; } >typed.yaml
antiphase fabric show typed.yaml | grep dgx-ext"#,
            ),
        )],
        ..Page::NONE
    },
    Page {
        path: "docs/profiles.md",
        // A port that carries 4 Gbit/s for 120 of every 300 ms, in steps of 5 ms.
        before: r#"cp examples/testbed/fabric.yaml .
printf 'schema: antiphase.jobs/v1\njobs:\n- {id: bert, profile_file: bert.json, hosts: [h1, h2]}\n' >jobs.yaml
gzip -c "$REPOSITORY/tests/tests/cli/traces/pytorch-2.11-nccl-2.28-h100.json" >trace.json.gz
awk 'BEGIN { print "t_ns,tx_bytes,rx_bytes"; for (n = 0; n < 4000; n++) { printf "%.0f,%.0f,0\n", n * 5000000, sent; if (n % 60 < 24) sent += 2500000 } }' >counters.csv"#,
        checked: &[
            // The page shows a recording that is not in the repository.
            (
                "antiphase profile learn counters.csv",
                Check::Run("antiphase profile learn counters.csv | grep '^job: 300[.]000 ms an iteration'"),
            ),
            ("id: bert, profile_file", Check::Run("cmp block jobs.yaml")),
        ],
        ..Page::NONE
    },
    Page {
        path: "clients/python/README.md",
        serve: SERVE,
        checked: &[("client = Client(", Check::Run("PYTHONPATH=clients/python python3 -W error block"))],
        ..Page::NONE
    },
    Page {
        path: "agent/gate/python/README.md",
        checked: &[
            (
                "loss = forward_and_backward(batch)",
                Check::Run(
                    r#"{ cat <<'BEFORE'
from types import SimpleNamespace
batches, forward_and_backward, optimizer = range(3), float, SimpleNamespace(step=print)
BEFORE
cat block; } | PYTHONPATH=agent/gate/python python3 -"#,
                ),
            ),
            (
                "all_reduce(gradients)",
                Check::Run(
                    "{ printf 'import antiphase_gate\\nall_reduce, gradients = print, []\\n'; cat block; } | PYTHONPATH=agent/gate/python python3 -",
                ),
            ),
            ("model.register_comm_hook", DDP),
            // It needs a GPU: `scripts/gpu.sh` has such a job. Here its names are those of the package.
            (
                "gate.step_in_stream(",
                Check::Run(
                    r#"python3 -m py_compile block
printf 'import antiphase_gate as a\ng = a.default_gate()\ng.step_in_stream, g.done_in_stream, g.stream_refusal\n' |
PYTHONPATH=agent/gate/python python3 -"#,
                ),
            ),
            ("optimizer_hook()  ", OPTIMIZER),
        ],
        ..Page::NONE
    },
    Page {
        path: "examples/two-hosts/README.md",
        except: &[("sudo ", "needs root, and goes on until somebody ends it")],
        checked: &[
            ("mkdir -m 0700 /tmp/antiphase-h1", Check::By(TWO_HOSTS)),
            ("python3 train.py --port 29500", Check::By(TWO_HOSTS)),
            ("antiphase gate status --dir", Check::By(TWO_HOSTS)),
        ],
        ..Page::NONE
    },
    Page { path: "CONTRIBUTING.md", ..Page::NONE },
    Page {
        path: "docs/adr/0001-pure-crates-are-no-std.md",
        checked: &[("#![forbid(unsafe_code)]", Check::By("pure_crates_are_no_std_and_forbid_unsafe_code"))],
        ..Page::NONE
    },
];

const TWO_HOSTS: &str = "the_example_of_two_hosts_is_held_as_its_readme_says_and_outlives_its_service";

/// The hook is for PyTorch 2.
const OPTIMIZER: Check = Check::Run(
    r#"{ cat <<'BEFORE'
import sys, torch
if int(torch.__version__.split(".")[0]) < 2:
    print("skipped: this torch has no global optimizer hooks (before 2.0), so a block of Python was not run")
    sys.exit()
BEFORE
cat block; } | PYTHONPATH=agent/gate/python python-with-torch"#,
);

/// Each line of the block is in the manifest, whose form may be longer.
const PARTS_OF_JOB: &str = r#"tr -d ' {},' <integrations/kubernetes/job.yaml >whole
tr -d ' ' <block | sed 's/^[a-z]*:{\(.*\)}$/\1/' | tr ',' '\n' | tr -d '{}' | while IFS= read -r part; do grep -qF -- "$part" whole; done"#;
const PARTS_OF_SCHEDULER: &str = r#"tr -d ' -' <integrations/kubernetes/scheduler.yaml >whole
grep -v -e urlPrefix -e managedResources block | tr -d ' -' | while IFS= read -r line; do grep -qxF -- "$line" whole; done
grep -oE '[{].*[}]' block | tr -d ' ' | while IFS= read -r line; do grep -qF -- "$line" whole; done"#;
/// Each verb of the block is a path of the service.
const VERBS_OF_VOLCANO: &str = r#"sed -n 's/.*Verb: //p' block >verbs
test "$(wc -l <verbs)" = 4
while IFS= read -r verb; do grep -qF "\"/extender/volcano/$verb\"" topology/server/src/http/routes/extender.rs; done <verbs"#;
