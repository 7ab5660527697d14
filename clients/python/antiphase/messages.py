"""Messages of the service, generated from proto/schema.json by generate.py: do not edit.

Every field has a default. Names, units and meanings are those of proto/antiphase/v1alpha1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Optional, Union

from .message import Message

AgentState = Literal["unspecified", "connected", "lost", "quarantined"]
"""How an agent does. unspecified: stands in no answer. connected: has a session. lost: no session; its pages live until the plan
expires. quarantined: its clock bound is worse than the slack of a job that it leads."""


Apart = Literal["unspecified", "shifts", "turns", "free"]
"""What keeps jobs apart that share a link and could exceed it. unspecified: nothing has to: one job, or jobs that never exceed
it. shifts: their slots, as far as the score says. turns: they take turns. free: nothing: their group was let go, so they run
as they come."""


Attribution = Literal["unspecified", "queue_pairs", "alone", "shared"]
"""How it is known whose packets a port counted. unspecified: nothing was counted yet. queue_pairs: queue pairs on the port were
of this job alone. alone: by placement: of the jobs that send, this one alone has ranks on the host. shared: several jobs used
the port; what it counted was split by what each sends on average as planned."""


JobState = Literal["unspecified", "committed", "held", "free", "drifting", "open"]
"""How a committed job does. unspecified: stands in no answer. committed: no report of its gate yet, or none of late. held: its
gate holds it to its slot or to its turns. free: runs as it comes: nobody holds it. drifting: further from its slot than the
slack. open: its gate fails open."""


Mode = Literal["unspecified", "exact", "cassini"]
"""Rules by which the solver finds shifts. unspecified: not said: `exact`. exact: continuous time, loops solved together, the
optimum proven where that can be done. cassini: the rules of the CASSINI paper: steps of 5 degrees, each link alone, loops
refused."""


Objective = Literal["unspecified", "score", "time"]
"""What candidates are ranked by. unspecified: not said: `score`. score: the highest mean score of links comes first. time: the
shortest predicted iterations come first: the mean over jobs, weighted by GPUs."""


Outcome = Literal["unspecified", "solved", "loop", "unsolved"]
"""What became of a candidate. unspecified: stands in no answer. solved: shifts were found; they may all be 0. loop: cassini
mode: the affinity graph has a loop. unsolved: the solver refused a link, and `reason` says why."""


RunReport = Literal["unspecified", "started", "finished", "stopped"]
"""What became of an order. unspecified: refused. started: it runs; repeated, it renews the job's lease. finished: it ran to its
end. stopped: it stopped, as it was told or by itself, and holds no GPU any more."""


Severity = Literal["unspecified", "info", "warning", "error"]
"""How much an event matters. unspecified: stands in no answer. info: all is as it should be. warning: somebody may want to look.
error: somebody has to look."""


SubmissionState = Literal["unspecified", "queued", "starting", "running", "stopping", "finished", "withdrawn", "failed"]
"""What became of a submitted job. unspecified: stands in no answer. queued: it waits for GPUs. starting: the executor was told
to start it. running: the executor started it. stopping: the executor was told to stop it; it holds its GPUs until that is
done. finished: it ran to its end. withdrawn: somebody took it back. failed: it was started in vain too often."""


TurnActivity = Literal["unspecified", "away", "ahead", "waiting", "sending"]
"""What a job that takes turns does. unspecified: stands in no answer. away: computes, or nobody knows. ahead: computes, and has
the permission for its next start. waiting: is ready, and waits for its turn. sending: has the turn."""


TurnGroupState = Literal["unspecified", "held", "tried_free", "let_go", "tried_held"]
"""What a group of jobs that take turns does. unspecified: stands in no answer. held: its jobs take turns. tried_free: takes
turns, and runs free for a short stretch, to compare. let_go: runs free: turns were found to be worth nothing. tried_held: was
let go, and takes turns for a short stretch, to compare."""


@dataclass(frozen=True, kw_only=True)
class Agent(Message):
    """The agent of one host."""

    clock_bound_ns: Optional[int] = None
    """Bound of the error of its clock offset; absent before the first estimate and without a session."""
    clock_rtt_ns: Optional[int] = None
    """Round trip of its best clock sample; absent as `clock_bound_ns`."""
    host: str = ""
    """Its host."""
    jobs: list[str] = field(default_factory=list)
    """Jobs with a rank on its host, by name."""
    last_seen_ns: int = 0
    """When it was heard last, in fabric time."""
    plan_version: int = 0
    """Version of the plan that it acknowledged; 0: none."""
    ports: list[str] = field(default_factory=list)
    """Ports of its host that it counts."""
    state: AgentState = "unspecified"
    """How it does."""
    trouble: str = ""
    """What is wrong with its name, in a sentence: the fabric has no such host, or two agents take it in turn. Empty: nothing."""
    version: str = ""
    """Version of its program."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class AuditEntry(Message):
    """A change that somebody asked for."""

    at_ns: int = 0
    """When it was made, in fabric time."""
    by: str = ""
    """The common name of a certificate and its role; without certificates the user and "on this machine", or "this machine"
    where the kernel tells no user; or "the configuration"."""
    kind: str = ""
    """committed, released, fabric or submitted; job_withdrawn, job_preempt or withdrawing of a job that was withdrawn."""
    message: str = ""
    """What was changed, in one line."""
    number: int = 0
    """Counts the changes that somebody asked for, over restarts."""
    plan_version: int = 0
    """The version of the plan from then on."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Candidate(Message):
    """One placement of jobs to judge."""

    id: str = ""
    """Its name, unique in the request, of at most 253 bytes."""
    placements: list[JobHosts] = field(default_factory=list)
    """The jobs that stand elsewhere, or nowhere else yet."""
    NESTED: ClassVar[dict[str, str]] = {"placements": "JobHosts"}


@dataclass(frozen=True, kw_only=True)
class CommitRequest(Message):
    """Jobs to commit: all of them, or none."""

    explain: bool = False
    """Say why the plan is as it is for these jobs, as `evaluate` would of all committed jobs where they stand."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    idempotency_key: str = ""
    """Repeating a commit with the same key within the day answers as the first did."""
    if_plan_version: Optional[int] = None
    """Refuse unless the plan is at this version: a decision made on an old snapshot must not be committed blindly."""
    jobs: list[JobSpec] = field(default_factory=list)
    """The jobs with their hosts. One that is committed already is replaced; one that stays as it is has its lease renewed."""
    lease_ms: int = 0
    """How long the jobs stay without a renewal, in milliseconds; 0 = until released. A report of the job's agent renews it that
    counts iterations of the job."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class CommitResponse(Message):
    """The plan after a commit."""

    explanation: list[str] = field(default_factory=list)
    """Why the plan is as it is for these jobs, in sentences; empty unless asked for."""
    moved: list[str] = field(default_factory=list)
    """Running jobs whose slot moved."""
    plan_version: int = 0
    """Version of the plan from then on."""
    score: float = 0.0
    """Mean score of those links, in the components that the commit touched, that can be above capacity; 1 where there is none."""
    slots: list[Slot] = field(default_factory=list)
    """The slots of the jobs in the components that the commit touched."""
    warnings: list[str] = field(default_factory=list)
    """What may be a mistake: hosts on which these jobs and others use more GPUs than there are, and hosts that lead these jobs
    and have no agent."""
    NESTED: ClassVar[dict[str, str]] = {"slots": "Slot"}


@dataclass(frozen=True, kw_only=True)
class Congestion(Message):
    """Marks at the receivers of a job and CNPs at its senders, as the ports of its hosts count them. A number that no port
    counts is absent."""

    attribution: Attribution = "unspecified"
    """The weakest way by which any of the numbers is known to be of this job."""
    cnps_handled: Optional[int] = None
    """CNPs that its hosts obeyed, as senders."""
    cnps_ignored: Optional[int] = None
    """CNPs that its hosts got and ignored: rate control is off there."""
    cnps_sent: Optional[int] = None
    """CNPs that its hosts sent, as receivers of marked packets."""
    marked: Optional[int] = None
    """Packets that came in with an ECN mark."""
    marked_host: str = ""
    """The host at which most marks came in; empty: none came."""
    received: Optional[int] = None
    """Packets that came in at the ports that count marks, marked or not."""
    since_ns: int = 0
    """Since when, in fabric time: since the job stands where it does, or the service started if that was later."""
    slowed_host: str = ""
    """The host that obeyed most CNPs; empty: there were none."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class CounterSeries(Message):
    """Increments per step, parallel to the series' `at_ms`. A counter that the host lacks has no series: absent is not 0."""

    delta: list[int] = field(default_factory=list)
    """By how much the counter grew in each step."""
    name: str = ""
    """Name of the counter, such as `tx_bytes`."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Demand(Message):
    """What one job asks of one link, over one period from its own start."""

    job: str = ""
    """Name of the job."""
    period_ns: int = 0
    """Length of the period: from one due start of the job to the next."""
    phases: list[Phase] = field(default_factory=list)
    """When the job sends, and at which rate; between phases it sends nothing."""
    shift_ns: int = 0
    """The offset of the job's slot: how much later than multiples of the period its period begins."""
    NESTED: ClassVar[dict[str, str]] = {"phases": "Phase"}


@dataclass(frozen=True, kw_only=True)
class Difference(Message):
    """A difference between the fabric and what was seen, as `antiphase fabric diff` names it."""

    kind: str = ""
    """"missing node", "extra node", "other kind", "missing cable", "extra cable", "moved cable", "capacity" or "one way"."""
    place: str = ""
    """Which node or cable it is about, as `antiphase fabric diff` writes it."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(Message):
    """Candidates to rank, and by what."""

    candidates: list[Candidate] = field(default_factory=list)
    """None: the committed jobs and `jobs` where they stand."""
    explain: bool = False
    """Add sentences that say why each candidate is as it is."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as paths of a google.protobuf.FieldMask that also lead through lists, such as
    "ranked.mean_score". None, or "*": all. In JSON also one text with commas, and in HTTP a key of the query."""
    jobs: list[JobSpec] = field(default_factory=list)
    """Jobs that are not committed yet; a committed job may be named by candidates without being repeated here."""
    mode: Mode = "unspecified"
    """Rules of the solver."""
    objective: Objective = "unspecified"
    """What the candidates are ranked by."""
    predict: bool = False
    """Predict iteration times even where the objective does not need them: as the jobs come, by turns and by slots. `explain`
    then says who takes turns with whom, and why."""
    NESTED: ClassVar[dict[str, str]] = {"candidates": "Candidate", "jobs": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class EvaluateResponse(Message):
    """The candidates, ranked."""

    elapsed_us: int = 0
    """How long the evaluation took, without its wait for others, in microseconds."""
    fabric_version: int = 0
    """Version of the fabric that was used."""
    plan_version: int = 0
    """Version of the plan that was used: a commit of a candidate names it as `if_plan_version`."""
    ranked: list[Evaluation] = field(default_factory=list)
    """Best first."""
    NESTED: ClassVar[dict[str, str]] = {"ranked": "Evaluation"}


@dataclass(frozen=True, kw_only=True)
class Evaluation(Message):
    """One candidate, judged."""

    bound_gap: float = 0.0
    """How much better the mean score can be at most; 0 where it is proven."""
    explanation: list[str] = field(default_factory=list)
    """Why, in sentences; empty unless the request has `explain`, at most 500."""
    id: str = ""
    """Its name; `as placed` where the request has no candidates."""
    index: int = 0
    """Place in the request's list."""
    links: list[LinkScore] = field(default_factory=list)
    """Links that can be above capacity, the lowest score first; at most 500."""
    mean_score: Optional[float] = None
    """Mean over links with two or more jobs; absent unless solved."""
    outcome: Outcome = "unspecified"
    """What became of it."""
    overlap_by_slots: Optional[float] = None
    """The share of time above capacity, as `overlap_free`, by slots."""
    overlap_by_turns: Optional[float] = None
    """The share of time above capacity, as `overlap_free`, by turns."""
    overlap_free: Optional[float] = None
    """Of the time in which shared links are in use, the share in which they are above capacity, as the jobs come. Absent as
    `time_free`."""
    proven: bool = False
    """Whether it is proven that no shifts give a better mean score."""
    reason: str = ""
    """Why, when not solved."""
    shared_links: int = 0
    """How many links have two or more jobs."""
    shifts: list[JobShift] = field(default_factory=list)
    """What it means for each job, also for those that it does not move; empty unless solved."""
    time_all_held: Optional[float] = None
    """Iteration over period, as `time_solo`, with all jobs held to slots; absent where slots are neither the control nor
    compared."""
    time_by_slots: Optional[float] = None
    """Iteration over period, as `time_free`, by slots."""
    time_by_turns: Optional[float] = None
    """Iteration over period, as `time_free`, by turns."""
    time_contended: Optional[float] = None
    """Iteration over period, as `time_solo`, beside the other jobs with nobody kept apart."""
    time_free: Optional[float] = None
    """Iteration over period, as `time_solo`, if the jobs run as they come. It and the fields `time_by_...` and `overlap_...` are
    of the same runs, and absent unless the request has `predict`."""
    time_interleaved: Optional[float] = None
    """Iteration over period, as `time_solo`, under the service's control: those are kept apart who gain by it."""
    time_solo: Optional[float] = None
    """An iteration of each job alone in this placement, over its declared period: the mean over jobs, weighted by GPUs. Absent
    where nothing was predicted."""
    zero_shift_mean_score: Optional[float] = None
    """The mean score if nobody were shifted; absent unless solved."""
    NESTED: ClassVar[dict[str, str]] = {"links": "LinkScore", "shifts": "JobShift"}


@dataclass(frozen=True, kw_only=True)
class Event(Message):
    """Something that happened."""

    at_ns: int = 0
    """When it happened, in fabric time."""
    by: str = ""
    """Who asked for it: the common name of a certificate and its role; without certificates the user and "on this machine", or
    "this machine" where the kernel tells no user; or "the configuration". Empty: nobody did, it happened."""
    host: str = ""
    """The host that it is about; empty: none."""
    job: str = ""
    """The job that it is about; empty: none, or several."""
    kind: str = ""
    """One word of kind, such as committed, released, moved, drift, lost, quarantined, expired."""
    message: str = ""
    """What happened, in one line."""
    order: Optional[Order] = None
    """With the kinds job_start, job_preempt and job_move."""
    plan_version: int = 0
    """Version of the plan then; 0 where the event is not about the plan."""
    sequence: int = 0
    """Its number. Numbers rise, over restarts too; a reader that missed events sees a gap."""
    severity: Severity = "unspecified"
    """How much it matters."""
    NESTED: ClassVar[dict[str, str]] = {"order": "Order"}


@dataclass(frozen=True, kw_only=True)
class Exporter(Message):
    """A switch, or host, that the configuration names as an exporter of sFlow."""

    address: str = ""
    """The agent address in its datagrams."""
    age_ms: Optional[int] = None
    """Since its last datagram, in milliseconds; absent where none came."""
    datagrams: int = 0
    """Datagrams that were taken from it since the service started."""
    interfaces: int = 0
    """Interfaces whose counters it sends and that have a name."""
    links: int = 0
    """Directed links that it observes now."""
    node: str = ""
    """Its name in the fabric."""
    notes: list[str] = field(default_factory=list)
    """What is not as fabric and configuration have it, in sentences; at most nine."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetFabricRequest(Message):
    """How much to say of the fabric."""

    summary: bool = False
    """Only the counts, not the document."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetFabricResponse(Message):
    """The fabric in force."""

    fabric: str = ""
    """Its document (antiphase.fabric/v1, YAML); empty if the request has `summary`."""
    fabric_version: int = 0
    """Counts the fabrics that were set."""
    hosts: int = 0
    """How many hosts it has."""
    links: int = 0
    """How many directed links it has: two for each cable."""
    switches: int = 0
    """How many switches it has."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetObservedRequest(Message):
    """How much to say of what agents see."""

    summary: bool = False
    """Only the counts and the differences, not the document."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetObservedResponse(Message):
    """What agents see of the cabling, and how it differs from the fabric."""

    confirmed: int = 0
    """Cables that were seen and are in the fabric."""
    differences: list[Difference] = field(default_factory=list)
    """The differences; at most 1,000."""
    fabric: str = ""
    """The fabric with what was seen (antiphase.fabric/v1, YAML): cables that were seen where they should be are `observed`, with
    the capacity that was negotiated where nobody stated one, and what nobody stated comes last."""
    fabric_version: int = 0
    """Of the fabric that it was compared with; 0: none is set."""
    findings: list[str] = field(default_factory=list)
    """What was odd about what systems told, in sentences; at most 1,000."""
    seen: int = 0
    """Cables that were seen."""
    systems: int = 0
    """Systems that told what they see."""
    total: int = 0
    """How many differences there are, also those that are not among `differences`."""
    unseen: int = 0
    """Cables of the fabric that no system could have seen."""
    NESTED: ClassVar[dict[str, str]] = {"differences": "Difference"}


@dataclass(frozen=True, kw_only=True)
class GetPlanRequest(Message):
    """Asks for the whole plan; there is nothing to choose."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetTelemetryRequest(Message):
    """Of whom to tell counters and iteration times, and how far back."""

    all_hosts: bool = False
    """All hosts that the service holds samples of."""
    hosts: list[str] = field(default_factory=list)
    """Hosts of whose ports counters are wanted; empty: none."""
    jobs: list[str] = field(default_factory=list)
    """Jobs whose iterations are wanted; where neither jobs nor hosts are named, all jobs."""
    seconds: int = 0
    """Seconds back from now; 0: the default of 300. At most 600 are held."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class GetTelemetryResponse(Message):
    """Counters of ports and iteration times of jobs, at most ten minutes of each."""

    hosts: list[HostSeries] = field(default_factory=list)
    """One series for each port of the hosts: at most 512, which have 2^20 values together at most. Of all hosts each has one
    before one has two."""
    jobs: list[JobSeries] = field(default_factory=list)
    """One series for each job; at most 512."""
    jobs_total: int = 0
    """Jobs of those asked for that the service holds samples of; as with ports."""
    ports_total: int = 0
    """Ports of the hosts that the service holds samples of; if that is more than `hosts` has, the answer had no room for the
    others."""
    NESTED: ClassVar[dict[str, str]] = {"hosts": "HostSeries", "jobs": "JobSeries"}


@dataclass(frozen=True, kw_only=True)
class HostGpus(Message):
    """GPUs of one host."""

    gpus: list[int] = field(default_factory=list)
    """Which of its GPUs, from 0. The ranks of a job stand in the order of its hosts, and on each host in that of its GPUs."""
    host: str = ""
    """Name of the host."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class HostSeries(Message):
    """One value per step; NaN-free: a step without a sample is absent from `at_ms`."""

    at_ms: list[int] = field(default_factory=list)
    """Begin of each step of one second, in milliseconds since the Unix epoch."""
    counters: list[CounterSeries] = field(default_factory=list)
    """The counters that the port has, by name."""
    host: str = ""
    """Name of the host."""
    port: str = ""
    """Name of the port."""
    NESTED: ClassVar[dict[str, str]] = {"counters": "CounterSeries"}


@dataclass(frozen=True, kw_only=True)
class Job(Message):
    """A committed job: where it stands, its slot, and how it does."""

    congestion: Optional[Congestion] = None
    """ECN marks that came in at its hosts, and the CNPs that follow from marks. Absent where no port of its hosts counts any of
    them, and of a job with one host, which sends nothing."""
    declared_period_ns: Optional[int] = None
    """Where the job took turns and was measured to be another than declared: then it is planned with what was measured,
    `solo_period_ns` is that, and this is what was declared. Else absent."""
    fail_opens: Optional[int] = None
    """Starts that went because the plan could not be trusted, of the same time as `iterations`."""
    gpus: int = 0
    """GPUs that it uses on all its hosts together."""
    hold: str = ""
    """As committed: "auto", "phases" or "never"."""
    hold_ended: str = ""
    """Why it is not held to a slot any more, in one line; empty where that is not so."""
    hosts: list[str] = field(default_factory=list)
    """Its hosts in rank order."""
    id: str = ""
    """Its name."""
    iteration_mean_ns: Optional[int] = None
    """An iteration as its gate saw it: the mean of its last ones, 64 at most, since its slot last changed, without pauses. It is
    what predicted iterations are compared with. Absent as `iteration_ns`, below two iterations, and where the agent does not
    measure it."""
    iteration_ns: Optional[int] = None
    """An iteration as its gate saw it: the median of its last report. Absent before the first one, and once it is old."""
    iterations: Optional[int] = None
    """Starts since the commit, or since the service started if that was later. Absent before the first report of its gate."""
    learn: str = ""
    """Of a job that is to be learned: "learning" until its agent has told, and `solo_period_ns` is 0 then; "learned". Else
    empty."""
    lease_expires_ns: int = 0
    """When its lease runs out unless somebody renews it, in fabric time; 0: no lease."""
    measured_up_ns: Optional[int] = None
    """What it sends in an iteration, where it is planned with that because it was measured."""
    observed_period_ns: Optional[int] = None
    """A period observed from byte counters; absent when none was found."""
    period_mismatch_ns: Optional[int] = None
    """The learned period, while it is further from the expected one than 5 %; absent otherwise."""
    phase_error_ns: Optional[int] = None
    """Start minus slot, signed: positive is late. The median of the last report of its gate; absent as `iteration_ns`, and where
    no start had a slot."""
    predicted_all_held_ns: Optional[int] = None
    """An iteration as predicted if all of them were held to slots. Told where slots are the control; else absent."""
    predicted_contended_ns: Optional[int] = None
    """An iteration as the fluid model predicts it if nobody of those that it meets were kept apart. Absent where it meets
    nobody."""
    predicted_free_ns: Optional[int] = None
    """An iteration as predicted if the jobs run as they come, begun anywhere. Told where the service only observes and the job
    meets others; else absent."""
    predicted_interleaved_ns: Optional[int] = None
    """Predicted as it is: exactly those are held whose slots say so."""
    predicted_turns_ns: Optional[int] = None
    """An iteration as predicted by turns, of the same runs as `predicted_free_ns`; absent as that."""
    shared_links: list[str] = field(default_factory=list)
    """Links that it shares with others; at most 100."""
    slips: Optional[int] = None
    """Starts so late that they waited for the next slot, of the same time as `iterations`."""
    slot: Optional[Slot] = None
    """When its iterations may start."""
    solo_period_ns: int = 0
    """One iteration alone as the job is planned, before headroom: as declared, or as measured."""
    state: JobState = "unspecified"
    """How it does."""
    NESTED: ClassVar[dict[str, str]] = {"congestion": "Congestion", "slot": "Slot"}


@dataclass(frozen=True, kw_only=True)
class JobHosts(Message):
    """The hosts of one job."""

    hosts: list[str] = field(default_factory=list)
    """In rank order, each with the job's GPUs per host."""
    job: str = ""
    """Name of the job."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobSeries(Message):
    """What the gate of one job told. One value per step: that of the last report in it; a step without a report is absent from
    `at_ms`."""

    at_ms: list[int] = field(default_factory=list)
    """Begin of each step of one second, in milliseconds since the Unix epoch."""
    iteration_ns: list[int] = field(default_factory=list)
    """Median iteration in each step, parallel to `at_ms`."""
    job: str = ""
    """Name of the job."""
    phase_error_ns: list[int] = field(default_factory=list)
    """Median start minus slot in each step, parallel to `at_ms`; positive is late."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobShift(Message):
    """What a candidate means for one job."""

    all_held_ns: Optional[int] = None
    """A predicted iteration with all jobs held to slots; absent where slots are neither the control nor compared."""
    by_slots_ns: Optional[int] = None
    """A predicted iteration by slots, of the same runs as `free_ns`; absent as that."""
    by_turns_ns: Optional[int] = None
    """A predicted iteration by turns, of the same runs as `free_ns`; absent as that."""
    contended_ns: Optional[int] = None
    """A predicted iteration beside the others, with nobody kept apart; absent where nothing was predicted."""
    free_ns: Optional[int] = None
    """A predicted iteration if the jobs run as they come. It, `by_turns_ns` and `by_slots_ns` are of the same runs, and absent
    unless the request has `predict`."""
    hold: bool = False
    """Whether holding the job to its slot is predicted to help."""
    interleaved_ns: Optional[int] = None
    """When exactly the jobs with `hold` are held, or those with `turns` take turns."""
    job: str = ""
    """Name of the job."""
    period_ns: int = 0
    """One iteration alone, before headroom."""
    shift_ns: int = 0
    """The one delay of its iterations, on all links alike."""
    slack_ns: int = 0
    """How far the job may drift, either way, before a score falls."""
    solo_ns: Optional[int] = None
    """A predicted iteration alone in this placement; absent where nothing was predicted."""
    turns: bool = False
    """Whether the job takes turns with others."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class JobSpec(Message):
    """One job of a jobs document (antiphase.jobs/v1): the same keys. Exactly one of `model` and `profile`."""

    hold: Optional[str] = None
    """Whether gates may delay its starts: "auto", the default; "phases", the same, and the job asks for its turn before each Up
    phase; or "never"."""
    hosts: list[str] = field(default_factory=list)
    """In rank order, each with the job's GPUs per host. Empty: not placed."""
    id: str = ""
    """Name of the job: 1 to 253 of `A-Z a-z 0-9 . _ -`, without a dot at its begin."""
    learn: bool = False
    """The job's agent learns how it communicates, and what it learns replaces the model or the profile, which may be absent
    then: until the agent has told, the job runs free and is planned as if it sent nothing. It counts as a ring over its
    hosts."""
    model: Optional[Model] = None
    """The model of which the profile is synthesised."""
    profile: Optional[dict[str, Any]] = None
    """A profile document (antiphase.profile/v1) as its JSON text; in HTTP/JSON the document itself stands here."""
    NESTED: ClassVar[dict[str, str]] = {"model": "Model"}


@dataclass(frozen=True, kw_only=True)
class Link(Message):
    """A directed link: what its jobs ask of it, and what it carries."""

    apart: Apart = "unspecified"
    """What keeps its jobs apart."""
    capacity_mbps: int = 0
    """The rate that it can carry, in Mbit/s; 0 where nobody stated it."""
    demands: list[Demand] = field(default_factory=list)
    """What each job asks of it; empty unless the request has `demands`."""
    from_node: str = ""
    """The node that sends."""
    from_tier: int = 0
    """How many switches stand between the node that sends and a host, that node counted too: 0 is a host, 1 a leaf."""
    id: str = ""
    """Its name in the fabric: `leaf1->spine1`, or `leaf1:eth2->spine1` with the sending port where cables run in parallel."""
    jobs: list[str] = field(default_factory=list)
    """Jobs that use it, by name."""
    mean_demand_ratio: float = 0.0
    """What its jobs send on average as they are planned, over capacity."""
    measured_ratio: Optional[float] = None
    """What the host at its end sent or received in the last ten seconds, over the capacity of all links of that host in this
    direction. Absent where no agent counts bytes."""
    observed_age_ms: Optional[int] = None
    """How old the counters of `observed_mbps` are, in milliseconds."""
    observed_excess_ratio: Optional[float] = None
    """`observed_ratio` less `mean_demand_ratio`: above 0 where the link carries more than its jobs are planned to send."""
    observed_mbps: Optional[int] = None
    """What the link carried by the last counters of the switch, or host, at one of its ends (sFlow): the mean over one interval
    of them, of whatever it carried. Absent where nobody exports counters of it, and once they are older than three intervals."""
    observed_ratio: Optional[float] = None
    """What the link carried, as `observed_mbps`, over capacity; absent where the capacity is not stated either."""
    peak_demand_ratio: float = 0.0
    """Sum of the jobs' highest demands over capacity."""
    score: Optional[float] = None
    """As its jobs are kept apart now: with their slots, and without where their group was let go. What turns do no score says.
    Links with two or more jobs only."""
    to_node: str = ""
    """The node that receives."""
    to_tier: int = 0
    """How many switches stand between the node that receives and a host, that node counted too: 0 is a host, 1 a leaf."""
    zero_shift_score: Optional[float] = None
    """Its score if nobody were shifted; of links with two or more jobs only."""
    NESTED: ClassVar[dict[str, str]] = {"demands": "Demand"}


@dataclass(frozen=True, kw_only=True)
class LinkScore(Message):
    """The score of one link."""

    capacity_mbps: int = 0
    """The rate that it can carry, in Mbit/s."""
    jobs: list[str] = field(default_factory=list)
    """Jobs that use it."""
    link: str = ""
    """Its name, as `Link.id`."""
    score: float = 0.0
    """1 minus the mean excess of demand over capacity, over capacity. 1: never above capacity; it may be negative."""
    zero_shift_score: float = 0.0
    """The score if nobody were shifted."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAgentsRequest(Message):
    """Asks for all agents; there is nothing to choose."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAgentsResponse(Message):
    """All agents."""

    agents: list[Agent] = field(default_factory=list)
    """The agents, by host."""
    NESTED: ClassVar[dict[str, str]] = {"agents": "Agent"}


@dataclass(frozen=True, kw_only=True)
class ListAuditRequest(Message):
    """Which entries of the trail of changes to list."""

    after: int = 0
    """Only entries after this number; 0: the last ones."""
    limit: int = 0
    """Most entries; 0: the default of 100. At most 1,000."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListAuditResponse(Message):
    """Entries of the trail of changes."""

    entries: list[AuditEntry] = field(default_factory=list)
    """In the order of their numbers. At most 10,000 are kept: one more pushes out the oldest of whoever has most of them."""
    NESTED: ClassVar[dict[str, str]] = {"entries": "AuditEntry"}


@dataclass(frozen=True, kw_only=True)
class ListEventsRequest(Message):
    """Which events to list."""

    after: int = 0
    """Only events after this sequence number; 0: the newest ones."""
    limit: int = 0
    """Most events; 0: the default of 100. At most 1,000."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListEventsResponse(Message):
    """Events."""

    events: list[Event] = field(default_factory=list)
    """The events, oldest first."""
    oldest: int = 0
    """The oldest sequence number that is still held."""
    NESTED: ClassVar[dict[str, str]] = {"events": "Event"}


@dataclass(frozen=True, kw_only=True)
class ListExportersRequest(Message):
    """Asks for all exporters; there is nothing to choose."""

    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListExportersResponse(Message):
    """Exporters of sFlow, and what became of their datagrams."""

    exporters: list[Exporter] = field(default_factory=list)
    """Those that the configuration names, by node."""
    flow_samples: int = 0
    """They are counted and not read."""
    listen: str = ""
    """Where datagrams are taken, UDP; empty: the configuration has no [sflow]."""
    observed_links: int = 0
    """Directed links whose load is observed now."""
    refused: int = 0
    """Of others, from elsewhere, too many, or that cannot be read."""
    taken: int = 0
    """Datagrams since the start."""
    unknown: list[UnknownExporter] = field(default_factory=list)
    """The last 32 that it does not name."""
    NESTED: ClassVar[dict[str, str]] = {"exporters": "Exporter", "unknown": "UnknownExporter"}


@dataclass(frozen=True, kw_only=True)
class ListJobsRequest(Message):
    """Which committed jobs to list."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Names of jobs; empty: all jobs."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListJobsResponse(Message):
    """Committed jobs."""

    jobs: list[Job] = field(default_factory=list)
    """All jobs by name, or those that were named in the order of the request."""
    outlook: str = ""
    """Where the service only observes: what turns would bring, and how to have them, in one line; else empty."""
    plan_version: int = 0
    """Version of the plan in which they stand."""
    warnings: list[str] = field(default_factory=list)
    """What nothing else says of these jobs: a line for each host that leads some of them and whose agent is not connected, so
    that they are neither held nor measured, and for each job that takes turns and is far from what it is planned with."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "Job"}


@dataclass(frozen=True, kw_only=True)
class ListLinksRequest(Message):
    """Which links to list, and how much to say of each."""

    demands: bool = False
    """Add the demand of each job on each link."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Only links that one of these jobs uses; empty: of all jobs."""
    limit: int = 0
    """Most links; 0: the default of 100. At most 10,000."""
    links: list[str] = field(default_factory=list)
    """Only these links, without those that carry no job; empty: the worst ones."""
    measured: bool = False
    """Only links with a measured load."""
    observed: bool = False
    """Only links whose load is observed, with and without demand, the fullest first."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListLinksResponse(Message):
    """Links, worst first."""

    links: list[Link] = field(default_factory=list)
    """The worst first; links that were named in the order of the request; with `observed` the fullest first."""
    plan_version: int = 0
    """Version of the plan of which the scores are."""
    total: int = 0
    """Links with demand, of the jobs that were named, whether or not they are among `links`; if asked for those only, links
    whose load is observed."""
    NESTED: ClassVar[dict[str, str]] = {"links": "Link"}


@dataclass(frozen=True, kw_only=True)
class ListSubmissionsRequest(Message):
    """Which submitted jobs to list."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Names of jobs; empty: all jobs."""
    live: bool = False
    """Only those that are not over."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListSubmissionsResponse(Message):
    """Submitted jobs, and the GPUs of the scheduler."""

    gpus: int = 0
    """GPUs of the hosts on which the scheduler may start jobs."""
    gpus_held: int = 0
    """GPUs of these hosts that its jobs hold."""
    policy: str = ""
    """The scheduler's policy, such as `srtf`."""
    submissions: list[Submission] = field(default_factory=list)
    """In order of submission."""
    NESTED: ClassVar[dict[str, str]] = {"submissions": "Submission"}


@dataclass(frozen=True, kw_only=True)
class ListTurnsRequest(Message):
    """Which groups to list."""

    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Only the groups of these jobs; empty: all groups, those first that were let go or are being tried, then the largest."""
    limit: int = 0
    """Most groups; 0: the default of 100."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ListTurnsResponse(Message):
    """Groups of jobs that take turns."""

    at_ns: int = 0
    """Fabric time of the answer: times within it are to be compared with this."""
    groups: list[TurnGroup] = field(default_factory=list)
    """Those first that were let go or are being tried, then the largest."""
    plan_version: int = 0
    """Version of the plan of which the predictions are."""
    total: int = 0
    """Groups, whether or not they are among `groups`."""
    NESTED: ClassVar[dict[str, str]] = {"groups": "TurnGroup"}


@dataclass(frozen=True, kw_only=True)
class Model(Message):
    """Synthesise the profile of this model; what is absent comes from the model's reference."""

    batch: Optional[int] = None
    """Samples of one iteration for each data-parallel rank."""
    cp: Optional[int] = None
    """Degree of context parallelism: ranks that split one sequence."""
    dp: Optional[int] = None
    """Degree of data parallelism: replicas of the model."""
    ep: Optional[int] = None
    """Degree of expert parallelism: ranks that hold different experts. It divides `dp`."""
    gpu_gflops: Optional[int] = None
    """Sustained speed of one GPU in GFLOP/s."""
    gpus_per_host: Optional[int] = None
    """GPUs, and so ranks, on each host; the last host may have fewer. Absent: 1."""
    micro_batches: Optional[int] = None
    """Micro-batches of one iteration. Absent, and with another split than the reference: two for each stage of a pipeline, else
    1."""
    name: str = ""
    """Name of the model, as `antiphase profile zoo` lists it."""
    nic: Optional[str] = None
    """Line rate of one NIC, such as `50G`. Absent: that of the NICs of the job's slowest host."""
    nics_per_host: Optional[int] = None
    """NICs that the job uses on each host. Absent: as many as the host with fewest has, and at most `gpus_per_host`; slower ones
    (management ports) do not count."""
    pp: Optional[int] = None
    """Degree of pipeline parallelism: stages of one replica."""
    ranks: Optional[int] = None
    """Ranks of the job. Absent: hosts times `gpus_per_host`."""
    strategy: Optional[str] = None
    """How the model is split: `dp`, `fsdp`, `pp`, `tp`, `ep` or `hybrid`."""
    tp: Optional[int] = None
    """Degree of tensor parallelism: ranks that split the tensors of a layer."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Order(Message):
    """What the executor is told to do."""

    attempt: int = 0
    """Which start of the job."""
    place: list[HostGpus] = field(default_factory=list)
    """Where it is to stand, or stands."""
    until_ns: int = 0
    """When it has to be done: then the place is given back."""
    NESTED: ClassVar[dict[str, str]] = {"place": "HostGpus"}


@dataclass(frozen=True, kw_only=True)
class Phase(Message):
    """A span of a period with one rate."""

    end_ns: int = 0
    """End of the span, from the begin of the period."""
    rate_mbps: int = 0
    """The rate, in Mbit/s."""
    start_ns: int = 0
    """Begin of the span, from the begin of the period."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Plan(Message):
    """All slots of one version of the plan."""

    plan_version: int = 0
    """Counts the changes of the plan; 0 before the first."""
    slots: list[Slot] = field(default_factory=list)
    """One slot for each committed job, by name."""
    NESTED: ClassVar[dict[str, str]] = {"slots": "Slot"}


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest(Message):
    """Jobs to forget."""

    explain: bool = False
    """Say how the plan is now for the jobs that shared links with these."""
    fields: Union[list[str], str] = field(default_factory=list)
    """Only these fields of the answer, as in EvaluateRequest."""
    jobs: list[str] = field(default_factory=list)
    """Names of the jobs."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ReleaseResponse(Message):
    """The plan after a release."""

    explanation: list[str] = field(default_factory=list)
    """How the plan is now for jobs that shared links with these, in sentences; empty unless asked for, and where they shared no
    link with anybody."""
    plan_version: int = 0
    """Version of the plan from then on."""
    unknown: list[str] = field(default_factory=list)
    """Names of the request of which no job was committed."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Message):
    """What the executor tells of a start."""

    attempt: int = 0
    """Which start of the job, as its order says."""
    job: str = ""
    """Name of the job."""
    report: RunReport = "unspecified"
    """What became of the start."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SetFabricRequest(Message):
    """A fabric to take the place of the one in force."""

    fabric: str = ""
    """antiphase.fabric/v1 (YAML)."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SetFabricResponse(Message):
    """Versions after another fabric was set."""

    fabric_version: int = 0
    """Counts the fabrics that were set."""
    plan_version: int = 0
    """Version of the plan from then on."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Slot(Message):
    """When a job may start its iterations. Fabric time is nanoseconds since the Unix epoch on the service's clock."""

    expires_ns: int = 0
    """The plan must not be trusted from this fabric time on; 0: no agent was told of it yet."""
    hold: bool = False
    """False: run as it comes; the page says so and the gate lets everything pass. Each job for itself: of jobs that meet, some
    may be held and others not."""
    hold_max_ns: int = 0
    """Longest time that a start may be held; at most the period."""
    job: str = ""
    """Name of the job."""
    leader_host: str = ""
    """The host whose leader rank waits."""
    offset_ns: int = 0
    """A start is due whenever fabric time modulo the period equals this. Below the period."""
    period_ns: int = 0
    """From one due start to the next: the job's iteration alone, with headroom."""
    plan_version: int = 0
    """Plan version in which this slot was last changed."""
    slack_ns: int = 0
    """How far the job may drift before a score falls."""
    tolerance_ns: int = 0
    """How late a start may be and still go at once."""
    turns: bool = False
    """The job takes turns with others instead of keeping to slots; `hold` and the fields of the slot are not looked at then."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SolveRequest(Message):
    """A scenario, and how to solve it."""

    mode: Mode = "unspecified"
    """Rules of the solver."""
    robust_ticks: Optional[int] = None
    """Robust mode: allow for this much drift, in the scenario's ticks."""
    scenario: str = ""
    """A scenario document, antiphase.scenario/v1 (JSON)."""
    shifts: dict[str, int] = field(default_factory=dict)
    """Only evaluate these shifts, in ticks, by job id."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class SolveResponse(Message):
    """What the solver found."""

    solution: str = ""
    """A solution document, antiphase.solution/v1 (JSON)."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class Submission(Message):
    """A job that was submitted, and what became of it."""

    attempt: int = 0
    """Counts its starts; reports name it."""
    failures: int = 0
    """Starts that came to nothing."""
    gpus: int = 0
    """GPUs that it needs."""
    job: str = ""
    """Name of the job."""
    lease_ms: int = 0
    """How long it keeps its GPUs while the executor says nothing of it, in milliseconds; 0: no lease."""
    left_ns: int = 0
    """How long it still takes alone, as declared; 0 of a job that runs on beyond that."""
    opportunistic: bool = False
    """Whether it runs on what others leave, and is the first to be stopped."""
    place: list[HostGpus] = field(default_factory=list)
    """The GPUs that it holds, the host of rank 0 first."""
    planned: bool = False
    """Whether it has a place in the plan; a job that runs free has none."""
    ran_ns: int = 0
    """How long it has run, all its starts together."""
    since_ns: int = 0
    """When it came into its state."""
    state: SubmissionState = "unspecified"
    """What became of it."""
    submitted_ns: int = 0
    """When it was submitted, in fabric time."""
    why: str = ""
    """Why it is in its state; of a job in the queue, what it waits for."""
    NESTED: ClassVar[dict[str, str]] = {"place": "HostGpus"}


@dataclass(frozen=True, kw_only=True)
class SubmitRequest(Message):
    """A job for the service's scheduler."""

    duration_s: Optional[int] = None
    """How long it takes alone, in seconds, in place of `iterations`."""
    gpus: int = 0
    """GPUs that it needs, all or none."""
    iteration_ms: Optional[int] = None
    """How long an iteration takes alone, in milliseconds. Absent: as the profile says."""
    iterations: Optional[int] = None
    """Iterations that it runs. Either these are told or `duration_s`."""
    job: Optional[JobSpec] = None
    """The job, without hosts. Without a model or a profile it holds GPUs and has no place in the plan: nobody knows how it
    communicates."""
    lease_ms: int = 0
    """How long it keeps its GPUs while the executor says nothing of it, in milliseconds; at least 1,000; 0 = until it is
    reported to have ended."""
    priority: Optional[str] = None
    """"guaranteed", the default; "opportunistic": it runs on what others leave, and is the first to be stopped."""
    NESTED: ClassVar[dict[str, str]] = {"job": "JobSpec"}


@dataclass(frozen=True, kw_only=True)
class TurnGroup(Message):
    """Jobs that take turns, directly or through others. Jobs of different groups never wait for each other."""

    jobs: list[TurnJob] = field(default_factory=list)
    """In the order in which those go that are ready at the same time."""
    reason: str = ""
    """Why, in words."""
    state: TurnGroupState = "unspecified"
    """What it does now."""
    verdict: Optional[TurnVerdict] = None
    """What the last comparison came to; absent before the first."""
    NESTED: ClassVar[dict[str, str]] = {"jobs": "TurnJob", "verdict": "TurnVerdict"}


@dataclass(frozen=True, kw_only=True)
class TurnJob(Message):
    """One job of a group that takes turns."""

    activity: TurnActivity = "unspecified"
    """What it does now."""
    ahead: int = 0
    """Permissions that were given before the job asked."""
    bound: int = 0
    """Starts that went because they had waited for as long as an iteration takes."""
    expected_end_ns: Optional[int] = None
    """Of a job that sends: when it is expected to have sent everything."""
    free: Optional[TurnTimes] = None
    """Its last iterations while its group ran free; absent where there were none."""
    has_no_ends: bool = False
    """Nobody tells the ends of its starts, so it takes no turns."""
    held: Optional[TurnTimes] = None
    """Its last iterations by turns; absent where there were none."""
    job: str = ""
    """Its name."""
    last_starts: list[TurnStart] = field(default_factory=list)
    """The last ones, oldest first: what to draw who waited for whom from."""
    predicted_free_ns: Optional[int] = None
    """An iteration as predicted with nobody kept apart; absent as `predicted_held_ns`."""
    predicted_held_ns: Optional[int] = None
    """An iteration as predicted by turns; absent where the job meets nobody."""
    since_ns: Optional[int] = None
    """Of a job that waits or sends: since when."""
    starts: int = 0
    """Starts since the job came."""
    until_ns: Optional[int] = None
    """Of a job that waits: it goes then at the latest. Of one that sends: it keeps nobody waiting for longer."""
    waited: int = 0
    """Starts that asked for a turn and did not go at once."""
    waits_for: list[str] = field(default_factory=list)
    """Of a job that waits: those that send in its way, or else those that came before it."""
    NESTED: ClassVar[dict[str, str]] = {"free": "TurnTimes", "held": "TurnTimes", "last_starts": "TurnStart"}


@dataclass(frozen=True, kw_only=True)
class TurnStart(Message):
    """A start of a job that takes turns, in fabric time."""

    began_ns: Optional[int] = None
    """When it began to send; absent while it waits."""
    ended_ns: Optional[int] = None
    """When it had sent everything; absent while it sends, and where nobody told."""
    ready_ns: int = 0
    """When it was ready."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class TurnTimes(Message):
    """What at most the last 128 iterations of one kind took, from one start to the next. A pause, such as a checkpoint, is no
    iteration."""

    iterations: int = 0
    """How many iterations these are."""
    mean_ns: int = 0
    """Mean of the iterations."""
    mean_wait_ns: int = 0
    """How long an iteration waited, in the mean."""
    p50_ns: int = 0
    """Median of the iterations."""
    p99_ns: int = 0
    """The length that 99 of 100 iterations do not exceed."""
    spread_ns: list[int] = field(default_factory=list)
    """The shortest, each twentieth by length, and the longest: 21 values."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class TurnVerdict(Message):
    """Iterations by turns over iterations free: below 1, turns make them shorter."""

    at_ns: int = 0
    """When the comparison ended, in fabric time."""
    held_over_free: float = 0.0
    """Iterations by turns over iterations free, the mean over the jobs."""
    hold: bool = False
    """Whether the group takes turns from then on."""
    worst: float = 0.0
    """Iterations by turns over iterations free, of the job that loses most."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class UnknownExporter(Message):
    """An agent address that the configuration does not name."""

    address: str = ""
    """The agent address in its datagrams."""
    age_ms: int = 0
    """Since its last datagram, in milliseconds."""
    datagrams: int = 0
    """Datagrams that came from it."""
    source: str = ""
    """Where its datagrams come from."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class WatchEventsRequest(Message):
    """From where on to follow events."""

    after: Optional[int] = None
    """Begin after this sequence number; absent: with the next event. Over HTTP a header `Last-Event-ID` comes before it."""
    NESTED: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, kw_only=True)
class WithdrawRequest(Message):
    """A submitted job to take back."""

    job: str = ""
    """Name of the job."""
    NESTED: ClassVar[dict[str, str]] = {}
